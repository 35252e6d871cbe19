// Package cassandra keeps the history in Apache Cassandra. Its API has no types of the driver, so
// that a move to the driver's successor changes only this package.
//
// # Source of truth
//
// The source of truth is the events topic. A keyspace is one fold of it (schemas/cassandra has
// the tables). Another keyspace can be built beside it, compared, and switched to.
//
// # How a row is written
//
// Every cell has event_us as its write timestamp, so the newest event wins in whatever order
// events arrive. Its TTL is counted from the event, so a replayed cell expires when the first one
// would have. Fields that an event does not have are left unset. An expired value of a state is
// written as null, because an older value may live longer, and must stay hidden. There is no
// logged batch, no lightweight transaction (except for the migrations' lock), no counter, no
// secondary index and no read before a write. Values that newer events of the same batch
// overwrite are left out; the result is the same.
//
// # When Cassandra is unavailable
//
// Apply fails with sinks.ErrUnavailable and the projector retries. gocql 1.7.0 can stay at "no
// hosts available" after the hosts are back. So a session that had no success for 30 s is closed,
// and a new one is created.
//
// # When Cassandra refuses
//
// Apply fails with sinks.ErrRefused: a table, a column or a permission is missing, or a guardrail
// forbids the write. No error lets it skip a row. sinks.DecodeEvent has already refused events
// that could cause such an error themselves.
package cassandra
