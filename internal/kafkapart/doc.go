// Package kafkapart puts requests to the leader of one partition. kgo reads and
// writes streams; what is here is asked once: where a partition begins and ends,
// what lies at one offset, who leads it.
//
//	partition.go   TopicPartition
//	metadata.go    topics as the brokers have them
//	offsets.go     where partitions begin and end; no answer of a deposed leader
//	end_reader.go  where partitions end, for many readers at once
//	epochs.go      where the records of a leader epoch end
//	reader.go      what lies at an offset, and what is committed from there on
//	batches.go     the batches of an answer, and which of them no reader is given
//	retry.go       how long to wait between two tries
//
// # Source of truth
//
// The leader is. An answer of a leader that the client knows to be deposed is
// refused, and asked for again (KIP-320).
//
// # Promises
//
//   - A request waits for no new records: an answer may be empty.
//   - Nothing is read past an offset without being seen, or known to be hidden
//     from every reader of committed records.
package kafkapart
