// Package embedded keeps the history in a local Pebble directory: the same
// answers as sinks/cassandra for a process that has no Cassandra.
//
// # Keyspace
//
// Texts in keys are escaped so that they sort by their bytes and end
// unmistakably (0x00 is written 00 FF, the end 00 01); integers are big endian
// with the sign bit flipped.
//
//	e tenant trigger event_us seq           partition offset, event as the log has it
//	x event_us tenant trigger seq           (empty)      the same events by age, for retention
//	s tenant trigger                        StateRow     field by field (rows.go)
//	m due_ms tenant trigger                 MinuteRow    field by field
//	p partition                             next_offset event_us
//	d tenant failed_ms partition offset     dead letter  (letters.go)
//	b tenant trigger failed_ms partition offset          where a trigger's dead letters are
//	z tenant trigger ce_id event_us status attempt       what events said of dead letters
//	q partition                             next_offset event_us, of topic dead-letter
//	u tenant user -created_ms id            created_ms   a user's notifications, the newest first
//	n tenant id                             NotificationRow, field by field (notifications.go)
//	c tenant id                             ContentRow   what a notification said
//	r topic partition                       next_offset  of the due topics
//	v                                       format, 3
//
// An event's words on s, m and n are written without a look at what is there, and
// folded by Pebble as it compacts or reads (merge.go). Format 1 had whole rows
// as JSON there, and format 2 no u, n, c and r; a directory of them is taken over as it is.
//
// # Who is right
//
// The events topic. The rows of a batch and its offsets are one Pebble batch,
// so after a crash the directory is the fold of a prefix of the log and the
// projector goes on where it ends; nothing is synced. A directory found
// corrupt is set aside, and a new one filled from the log.
//
// # Bounds
//
// Rows end by age as in Cassandra; a sweep removes them. Where events take up
// more than MaxBytes on disk the oldest go earlier.
package embedded
