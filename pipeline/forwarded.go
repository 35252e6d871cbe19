package pipeline

import (
	"maps"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// origin returns the first append of a forwarded command; nil for a direct one. copied is
// true if that command was applied already, however long ago: its source may have stopped before
// it noted that it had sent it. A command that was forwarded late counts as direct, once.
func (c *claims) origin(t *turn, rec *topics.Record) (origin *trigger.Origin, copied bool) {
	f, ok := claimed(rec, c.id, c.opts.Partitions)
	if !ok || !c.genuine(rec.Topic, f) {
		return nil, false
	}
	source := c.opts.mapKey(rec.Topic, f.Partition)
	if f.Offset <= applied(t.progress.Applied, source) && !c.writtenAnew(t, source, f) {
		return nil, true
	}
	t.copyApplied()
	t.progress.Applied[source] = f.Offset
	t.guard.Applied[source] = topics.AppliedOrigin{Offset: f.Offset, Append: f.Append}
	if !timely(f, rec.Timestamp) {
		return nil, false
	}
	return f.Origin(), false
}

// copyApplied makes the turn's maps of what was applied its own: a turn that may still fail must
// not change the committed ones.
func (t *turn) copyApplied() {
	if t.ownsApplied {
		return
	}
	t.progress.Applied, t.guard.Applied = copyOf(t.progress.Applied), copyOf(t.guard.Applied)
	t.ownsApplied = true
}

// copyOf returns a map that can be written to, also of nil.
func copyOf[V any](m map[int32]V) map[int32]V {
	next := make(map[int32]V, len(m)+1)
	maps.Copy(next, m)
	return next
}

// writtenAnew reports whether the source's log lost its end, and f is a new record at an
// offset that was applied before. A new record was appended later than the applied one; a
// copy never was, but for clock errors.
func (c *claims) writtenAnew(t *turn, source int32, f topics.Forward) bool {
	last, known := t.guard.Applied[source]
	if !known || last.Offset != applied(t.progress.Applied, source) || f.Append <= last.Append.Add(maxClockError) {
		return false
	}
	c.log.Warn("another partition's log lost its end: records forwarded from there count as new",
		"partition", f.Partition, "offset", f.Offset)
	return true
}

func applied(m map[int32]int64, partition int32) int64 {
	if o, ok := m[partition]; ok {
		return o
	}
	return -1
}
