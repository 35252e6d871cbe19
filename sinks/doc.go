// Package sinks turns the event log into tables for queries: what happened to a trigger, its
// present state, what was due in a minute.
//
// # Who is right
//
// The topic waterclock.events is. Every table here is a fold of it and may be
// dropped at any moment; Rebuild makes it again and compares. Nothing in the
// engine waits for a sink: while one is away the topic is the buffer.
//
// # Model
//
//	events topic ──Projector──▶ History.Apply ──▶ events_by_trigger   a row for every event
//	 (read_committed)                             trigger_state       the newest word on each field
//	                                              triggers_by_minute  what is planned when, and what became of it
//	                                              progress            how far each partition is
//
// A table is a set of fields, and each field keeps what the event with the greatest event_us
// said about it. event_us is strictly increasing per partition and all events of a trigger
// are on one partition, so the result does not depend on the order, the grouping or the
// number of times in which events are applied. So it is enough that the projector delivers at
// least once: the second time changes nothing.
//
// # Promises
//
//   - An offset is committed only after the rows of everything before it are
//     durable in the sink.
//   - A record that is no event is counted, logged and passed; it never holds
//     its partition up.
//   - A row that the store refuses is not passed: its partition stands still, and
//     is told to, until somebody has mended the store (stopped.go).
//   - A row disappears at the instant its event's age reaches the retention,
//     no matter when it was written: replay does not lengthen a life.
//   - A word that has ended still hides the older ones, so tables built at any
//     age show what tables that grew that old show.
//   - trigger.erased blanks the content (user, tags, payload, detail,
//     correlation id) of every earlier row of its trigger; the row itself, that
//     something happened, stays.
package sinks
