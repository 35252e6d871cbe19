// Package worker is for programs that deliver what Waterclock fires. It reads the due events of a
// channel, calls a handler for each, and writes the outcome as a receipt. Waterclock's own
// workers use it.
//
//	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
//	defer stop()
//	err := worker.Run(ctx, "print", func(ctx context.Context, e *worker.DueEvent) (worker.Result, error) {
//		fmt.Printf("%s attempt %d: %s\n", e.ID, e.Attempt, e.Payload)
//		return worker.Delivered(), nil
//	})
//
// The channel needs receipts: channels.print.receipts=true in the engine's settings. Without that
// setting, receipts are recorded as events but change nothing.
//
// # Promises
//
//   - Delivery is at least once. The offset of a due event is committed once the brokers have its receipt
//     and the receipts of all earlier events on its partition. After a crash between the work and the
//     receipt, another worker gets the event: receivers must deduplicate by DueEvent.ID.
//   - Duplicates are rare. When a worker gets a partition, it reads the end of the receipts topic
//     (Memory). It skips events that were delivered, accepted or suppressed, attempts that have a
//     receipt, and events that the engine no longer waits for. Of attempts that queued up while no
//     worker ran, it sends only one. A receipt does not answer events that the engine decided after it
//     had read that receipt.
//   - Events with the same record key on one partition are handled one after the other. A retry comes
//     back as a new due event and does not block the others. There is no order between partitions, or
//     between priorities.
//   - Events of priority high come first. They have their own topic, the high lane. The next free
//     handler takes its events before all others. A new high lane is found within 5 s of its creation.
//   - Memory is bounded: Concurrency, Buffer, FetchBytes, Memory.
//   - A handler's error or panic becomes a retry. A record that is not a due event is counted and skipped.
//
// The engine does the waiting between attempts. A handler tries once and returns. It never sleeps
// until a receiver is back; it returns Postpone.
//
// # What happens when
//
//	ctx of Run ends       polling stops; handlers finish within 3/4 of DrainTimeout; receipts; commit; leave the group
//	another worker joins  partitions move one by one (cooperative); each after its handlers, within RevokeTimeout
//	the session is lost   handlers' contexts end, nothing is committed, other workers get the events
//	brokers are down      handlers continue with the events in memory; receipts and commits are retried
//	no receipts topic     due events are held, because nothing could be answered
//	a handler hangs       its key waits; HandlerTimeout ends its context; other keys of its partition continue, but
//	                      the offset is not committed, and at its share of Buffer the partition is paused
//
// # Whose clock
//
// ReceiptBy and Expires are compared with the brokers' clock. Kafka has no request for the time,
// so the worker estimates it from append times. A record was appended before it was polled. A
// record behind the end of the log was appended after the worker asked for that end, which it
// does every 15 s. The worker's own clock counts unless these bounds contradict it. A due topic
// that you created yourself needs message.timestamp.type=LogAppendTime for this.
//
// # Files
//
//	run.go        the poll loop: records become items
//	decode.go     headers → DueEvent
//	load.go       the end of the receipts topic → memory.go
//	queue.go      which event is next: keys, lanes, groups; pure
//	dispatch.go   calls handlers
//	receipts.go   writes receipts until the brokers have them
//	tracker.go    the offset up to which everything is done; commit.go commits it
//	flow.go       pauses partitions that are full
//	rebalance.go  partitions come and go; drain.go: the end
//	clock.go      the brokers' clock
package worker
