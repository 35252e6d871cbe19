// Package embedded keeps the history in a local Pebble directory, for a process that has no
// Cassandra. It gives the same answers as sinks/cassandra.
//
// # Keyspace
//
// Texts in keys are escaped so that they sort by their bytes and end unambiguously (0x00 is
// written 00 FF, the end 00 01). Integers are big endian with the sign bit flipped.
//
//	e tenant trigger event_us seq           partition offset, event as the log has it
//	x event_us tenant trigger seq           (empty)      the same events by age, for retention
//	s tenant trigger                        StateRow     field by field (rows.go)
//	m due_ms tenant trigger                 MinuteRow    field by field
//	p partition                             next_offset event_us
//	d tenant failed_ms partition offset     dead letter  (letters.go)
//	b tenant trigger failed_ms partition offset          where a trigger's dead letters are
//	z tenant trigger ce_id event_us status attempt       what events report about dead letters
//	q partition                             next_offset event_us, of topic dead-letter
//	u tenant user -created_ms id            created_ms   a user's notifications, newest first
//	n tenant id                             NotificationRow, field by field (notifications.go)
//	c tenant id                             ContentRow   the content of a notification
//	r topic partition                       next_offset  of the due topics
//	v                                       format, 3
//
// An event's updates of s, m and n are written without reading the row. Pebble merges them when
// it compacts or reads (merge.go). Format 1 had whole rows as JSON there, and format 2 had no u,
// n, c and r. Directories of both formats are used as they are.
//
// # Source of truth
//
// The source of truth is the events topic. The rows of a batch and its offsets are one Pebble
// batch. So after a crash the directory is the fold of a prefix of the log, and the projector
// continues from its end; nothing is synced. A directory that is found corrupt is set aside, and
// a new one is filled from the log.
//
// # Bounds
//
// Rows expire by age as in Cassandra, and a sweep removes them. If events take more than MaxBytes
// on disk, the oldest are removed earlier.
package embedded
