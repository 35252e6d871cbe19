// Package dangling ends transactions that Kafka left open.
//
// Kafka 4.3.1 leaves a partition out when it has no leader at the moment its marker
// is to be written (TransactionMarkerChannelManager takes it for deleted). In a
// cluster of one broker that is every transaction that was open when the broker was
// killed. What lies there has no end, and takes the next one of the same producer:
// the first turn that commits would make true what was aborted, and a trigger fires
// a second time. Until then nobody sees what was committed. So whoever opens a
// partition asks how the last transaction ended, looks for what it has left open,
// and ends that likewise.
//
//	last_ending.go  how the last transaction ended; what this process made the brokers forget
//	resolution.go   what to do next, decided without Kafka; stories in testdata/resolution
//	resolver.go     does what the resolution says
//	inspect.go      where a transaction of ours is open
//	end_transaction.go  the requests that write markers
//	watcher.go      hears of brokers that go away, and inspects beside the turns
//
// # Who is right
//
// The transaction coordinator is, for as long as it keeps the transaction. After
// that topic state is: progress is the last record of a turn.
//
// # Promises
//
//   - Nothing is written to a partition before what is open there is ended.
//   - What is open is ended as the coordinator recorded it: committed or aborted.
//   - A due topic that does not answer holds up its own triggers and no others.
package dangling
