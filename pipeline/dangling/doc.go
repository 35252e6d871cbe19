// Package dangling ends transactions that Kafka left open (hanging transactions, in KIP-664).
//
// Kafka 4.3.1 can leave a transaction open in a partition that has no leader at the moment
// its marker is due (TransactionMarkerChannelManager takes the partition for deleted). In a
// cluster of one broker this happens to every transaction that is open when the broker is
// killed. The records there have no end, and the next transaction of the same producer takes
// them in. So the first turn that commits would commit aborted records, and a trigger would
// fire twice. Until it is ended, the last stable offset does not move, and read_committed
// readers wait. So the new owner of
// a partition asks how the last transaction ended, searches for what it left open, and ends
// that the same way: committed or aborted.
//
//	end_transaction.go  how a dangling transaction is ended: the requests that write markers
//	last_ending.go      how the last transaction ended; what this process made brokers forget
//	resolution.go       what to do next, decided without Kafka; stories in testdata/resolution
//	resolver.go         runs the steps of a resolution
//	inspect.go          searches for open transactions of ours
//	watcher.go          searches beside the turns, after a broker went away
//
// # Source of truth
//
// The transaction coordinator decides while it remembers the transaction. After that topic
// state decides: if the turn's progress record is in the open part of it, the turn was complete,
// so commit; if not, abort. Decision 15 says when that is wrong.
//
// # Promises
//
//   - No record goes to a partition before the open transaction there is ended.
//   - An open transaction is ended as the coordinator recorded it: committed or aborted.
//   - A due topic that does not answer delays its own triggers and no others.
package dangling
