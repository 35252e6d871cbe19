// Package broker is the Kafka broker inside `waterclock dev`. It is kfake with a data
// directory, and with what kfake lacks so that a kill -9 or a power cut loses nothing that
// was acknowledged. kfake itself is unchanged; this package wraps its connections and uses
// its control hooks.
//
// # A request's way
//
//	client ─▶ conn.Read ──────────▶ kfake's reader ─▶ kfake's loop ─┐
//	           checks records;                         hooks: stamp  │
//	           EndTxn waits here                       append time,  │
//	           for outcome and data                    follow txns   │
//	           on disk                                               ▼
//	client ◀─ conn.Write ◀─────────────────────────── kfake's writer
//	           completes the answer;
//	           sends it when the data behind it is on disk
//
// Clients in the same process connect by Broker.Dial (doors.go). From there on their
// requests go the same way.
//
// # Source of truth
//
// After a crash, in this order: the journal, which repairs segments and outcome log
// (replay.go); the segments; the outcome log (txn_log.go); kfake's own logs. repair.go turns them
// into what kfake leaves after a clean close with every transaction ended. So kfake's own
// recovery never runs.
//
// # Promises
//
//   - What was acknowledged survives kill -9; with Options.Sync, also a power cut.
//   - A committed transaction is visible in all its partitions or in none, with its group
//     offsets. An aborted one is never visible.
//   - With Options.Sync a reader sees nothing that could still be lost. Uncommitted reads of
//     an open transaction are the exception.
//   - A failing disk stops the broker: it sends no acknowledgement that it cannot keep. With
//     Options.AwaitRoom a full one does so until there is room (room.go).
//   - A producer id is never given twice, but to a transactional id that was idle for 24.8
//     days: that begins anew with epoch 0. Else epochs only rise. Retries are recognised for a
//     day, also across a crash.
//
// # Where it differs from Kafka
//
// Authors of clients should know these differences:
//
//   - A start aborts every open transaction and raises its producer's epoch;
//     Kafka lets it go on. The producer gets INVALID_PRODUCER_EPOCH or
//     PRODUCER_FENCED and must begin anew. A restart at Options.RestartBytes does the same.
//   - EndTxn writes its markers before it answers, so read_committed sees the end at
//     once. A commit gets CONCURRENT_TRANSACTIONS only if something else came to the
//     transaction while it waited for the disk: more data, an abort, an InitProducerID.
//   - The first answer in a transaction waits for the disk, whatever it is to: a start has to
//     know what it ends. Records of a transaction are on disk with its commit. A power cut may
//     take them before, and then the producer has to begin anew. A client of Broker.Dial does
//     not outlive a power cut, so its answers do not wait.
//   - A commit of a transaction for which nothing was asked is refused with INVALID_TXN_STATE
//     from version 5 on. Before, it is answered as the last transaction ended.
//   - InitProducerID of an id that is in a transaction aborts it at once.
//     Transactional ids are forgotten after 24.8 idle days, not 7.
//   - A producer epoch above the known one is accepted and becomes the known
//     one, also for transactions.
//   - A transactional batch of a producer id that is not of its transactional id is
//     refused, INVALID_PRODUCER_ID_MAPPING.
//   - A batch that takes more than 32 MiB decompressed is refused,
//     MESSAGE_TOO_LARGE. Kafka accepts it.
//   - A transaction that times out in epoch 32766, the last of a producer id, hangs the
//     broker: kfake tries to end it for ever, with a warning and a new producer each time. Only
//     kill -9 ends the process.
//   - DeleteRecords answers at once, but disk space comes back by whole
//     segments; ListOffsets for the maximum timestamp may name a record below
//     the log start offset. ListOffsets by time compares records within a
//     batch by the producer's time stamps. This matters only if the first record of a batch
//     is not its oldest.
//   - A fetch at the end of a partition answers with an empty record set, not
//     null, after max.wait. A log may end in a marker. After compaction it ends
//     in the same marker or record as before.
//   - Compaction takes effect at a start, or by a restart in place. It turns records
//     of committed transactions into plain ones and drops aborted ones and
//     markers. A batch that loses records keeps its codec.
//     max.compaction.lag.ms is ignored.
//   - The one broker meets any min.insync.replicas and acks; acks=1 is acks=all. A request
//     for an unknown topic does not create it.
//   - Quotas, segment.ms, max.compaction.lag.ms, min.cleanable.dirty.ratio and
//     message.timestamp.{before,after}.max.ms are stored but not applied.
package broker
