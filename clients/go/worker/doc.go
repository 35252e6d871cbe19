// Package worker is for programs that deliver what Waterclock fires: it reads
// the due events of a channel, calls a handler for each, and writes what became
// of it as a receipt. Waterclock's own workers are built on it.
//
//	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
//	defer stop()
//	err := worker.Run(ctx, "print", func(ctx context.Context, e *worker.DueEvent) (worker.Result, error) {
//		fmt.Printf("%s attempt %d: %s\n", e.ID, e.Attempt, e.Payload)
//		return worker.Delivered(), nil
//	})
//
// The channel needs receipts: channels.print.receipts=true in the engine's
// settings. Without it receipts are events that change nothing.
//
// # What it promises
//
//   - At least once. The offset of a due event is committed when the brokers
//     have its receipt and those of all before it on its partition. A crash
//     between the work and the receipt delivers it to another worker:
//     receivers deduplicate by DueEvent.ID.
//   - Few doubles all the same. A worker reads the end of the receipts topic
//     when it gets a partition (Memory), and skips what was delivered, accepted
//     or suppressed, an attempt that was answered, and what the engine no
//     longer waits for. Attempts that queued while no worker ran are sent once.
//   - Order by record key. Two events of one record key on one partition are
//     handled one after the other. A retry comes back as a new due event and
//     holds nobody up. Nothing is promised between partitions and lanes.
//   - The lane for priority high first. The next handler that is free takes its
//     events before others. It is found within 5 s of its creation.
//   - Bounded memory: Concurrency, Buffer, FetchBytes, Memory.
//   - A handler's error or panic is a retry. A record that is no due event is
//     counted and stepped over.
//
// The waiting between attempts is the engine's. A handler tries once and
// returns; it never sleeps until a receiver is back, it returns Postpone.
//
// # What happens when
//
//	ctx of Run ends       no polls; handlers finish within 3/4 of DrainTimeout; receipts; commit; leave the group
//	another worker joins  partitions move one by one (cooperative); each after its handlers, within RevokeTimeout
//	the session is lost   contexts of its handlers end, nothing is committed, other workers have its events
//	brokers are away      handlers go on with what is in memory; receipts and commits are tried until they stand
//	receipts topic away   due events are held: nothing could be answered
//	a handler hangs       its key waits; HandlerTimeout ends its context; others of its partition go on, but the
//	                      offset stays, and at a share of Buffer the partition is paused
//
// # Whose clock
//
// ReceiptBy and Expires are compared with the brokers' clock. Kafka has no
// request for it, so the worker estimates it from append times: a record that
// was polled was appended before, and one behind the end of the log was
// appended after the worker asked for that end, which it does every 15 s. Its
// own clock counts unless these bounds contradict it. On a topic of your own
// this needs message.timestamp.type=LogAppendTime.
//
// # How it is made
//
//	run.go        the poll loop: what is read becomes items
//	decode.go     headers → DueEvent
//	load.go       the end of the receipts topic → memory.go
//	queue.go      which event is next: keys, lanes, groups; pure
//	dispatch.go   calls handlers
//	receipts.go   writes receipts until they stand
//	tracker.go    up to where all is done; commit.go commits that
//	flow.go       pauses what is full
//	rebalance.go  partitions come and go; drain.go: the end
//	clock.go      the brokers' clock
package worker
