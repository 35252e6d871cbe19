// Package sinks turns the event log into tables for queries: what happened to a trigger, its
// current state, what was due in a minute.
//
// # Source of truth
//
// The source of truth is the topic waterclock.events. Every table here is a fold of it and may be
// dropped at any moment. Rebuild makes it anew and compares. Nothing in the engine waits for a
// sink. While a sink is unavailable, the topic is the buffer.
//
// # Model
//
//	events topic ──Projector──▶ History.Apply ──▶ events_by_trigger   a row for every event
//	 (read_committed)                             trigger_state       the newest value of each field
//	                                              triggers_by_minute  what is planned when, and its result
//	                                              progress            the position of each partition
//
// A table is a set of fields, and each field keeps the value from the event with the greatest
// event_us. event_us is strictly increasing per partition and all events of a trigger are on one
// partition. So the result does not depend on the order, the grouping or the number of times in
// which events are applied. At-least-once delivery by the projector is therefore enough: the
// second time changes nothing.
//
// # Promises
//
//   - An offset is committed only after the rows of everything before it are
//     durable in the sink.
//   - A record that is not an event is counted, logged and skipped. It never
//     blocks its partition.
//   - A row that the store refuses is not skipped. Its partition stops, which is
//     reported, until an operator has repaired the store (stopped.go).
//   - A row disappears when its event's age reaches the retention, whenever it
//     was written. A replay does not extend it.
//   - A value that has expired still hides older ones. So tables that were
//     rebuilt at any age show the same as tables that grew that old.
//   - trigger.erased blanks the content (user, tags, payload, detail,
//     correlation id) of every earlier row of its trigger. The row itself, which
//     records that something happened, stays.
package sinks
