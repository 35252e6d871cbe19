// Package broker is the Kafka broker inside `waterclock dev`: kfake with a
// data directory, and around it what kfake leaves out so that a kill -9 or a
// power cut loses nothing that was acknowledged. kfake is used as it is; we
// stand in its connections and its control hooks.
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
//	           it leaves when what it vouches for is on disk
//
// Clients in the same process come in by Broker.Dial, and from there on go the
// same way: doors.go.
//
// # Who is right
//
// After a crash: the journal, which mends segments and outcome log (replay.go);
// then segments, then the outcome log (txn.go), then kfake's own logs.
// repair.go turns them into what kfake would have left had it been
// closed with every transaction ended, and kfake's own recovery never runs.
//
// # Promises
//
//   - What was acknowledged survives kill -9; with Options.Sync, a power cut.
//   - A committed transaction is visible in all its partitions or in none, its
//     group offsets included; an aborted one in none, ever.
//   - With Options.Sync a reader sees nothing that could still be lost. (Not so
//     who reads uncommitted data of an open transaction.)
//   - A disk that fails stops the broker: no answer leaves that it cannot keep.
//   - Producer ids are not given twice; epochs only rise; retries are known
//     across a crash for a day.
//
// # Where it differs from Kafka
//
// An author of clients should know:
//
//   - A start aborts every open transaction and raises its producer's epoch;
//     Kafka would let it go on. The producer gets INVALID_PRODUCER_EPOCH or
//     PRODUCER_FENCED and must begin anew. The same at Options.RestartBytes.
//   - EndTxn writes its markers before it answers, so there is never
//     CONCURRENT_TRANSACTIONS, and read_committed sees the end at once.
//   - EndTxn of a transaction without records or offsets: a commit answers
//     what the last one answered, so INVALID_TXN_STATE after an abort.
//   - InitProducerID of an id that is in a transaction aborts it at once.
//     Transactional ids are forgotten after 24.8 idle days, not 7.
//   - A producer epoch above the known one is accepted and becomes the known
//     one, also for transactions.
//   - A batch that takes more than 64 MiB decompressed is refused,
//     MESSAGE_TOO_LARGE. Kafka lets it in.
//   - A transaction that times out in epoch 32766 leaves the last stable
//     offset standing until the broker restarts.
//   - DeleteRecords answers at once, but disk space comes back by whole
//     segments; ListOffsets for the maximum timestamp may name a record below
//     the log start offset. ListOffsets by time compares within a batch by the
//     producers' differences of time, which matters only if a batch's first
//     record is not its oldest.
//   - A fetch at the end of a partition answers with an empty record set, not
//     null, after max.wait. A log may end in a marker; after compaction, in
//     the marker or record it ended in before.
//   - Compaction happens at start, or by a restart in place. It turns records
//     of committed transactions into plain ones and drops aborted ones and
//     markers. max.compaction.lag.ms is not looked at.
//   - min.insync.replicas and acks are met by the one broker there is; acks=1
//     is acks=all. Topics are not created by being asked for.
//   - Quotas, segment.ms, max.compaction.lag.ms, min.cleanable.dirty.ratio and
//     message.timestamp.{before,after}.max.ms are kept and not applied.
package broker
