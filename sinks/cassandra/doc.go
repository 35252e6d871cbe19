// Package cassandra keeps the history in Apache Cassandra. Nothing of the
// driver leaves this package, so that the move to its successor stays inside.
//
// # Who is right
//
// The events topic. A keyspace is one fold of it (schemas/cassandra draws the
// tables); another may be built beside it, compared, and switched to.
//
// # How a row is written
//
// Every cell carries event_us as its write timestamp, so the newest event wins
// whatever the order of arrival, and a TTL counted from the event, so that a
// replay ends when the first writing would have. Fields an event does not have
// are left unset. A word of a state that has ended is written as null: an older
// one may have longer to live, and must stay hidden. There is no logged batch, no
// lightweight transaction (but for the migrations' lock), no counter, no
// secondary index and no read before a write. What newer events of one batch
// overwrite is left out; the result is the same.
//
// # When Cassandra is away
//
// Apply fails with sinks.ErrUnavailable and the projector tries again. gocql
// 1.7.0 can stay at "no hosts available" after the hosts are back, so a session
// that had no success for 30 s is closed and another made.
//
// # When Cassandra says no
//
// Apply fails with sinks.ErrRefused: a table, a column, a right is missing, or a
// guardrail is in the way. No row is left out for any answer. What an event
// itself may be at fault for, sinks.DecodeEvent has refused before.
package cassandra
