package pipeline

import (
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// origin says where a forwarded command first stood; nil for a direct one.
// again is true for a copy of one that was applied already.
func (p *Partition) origin(t *turn, rec *topics.Record) (origin *trigger.Origin, copied bool) {
	f, ok := claimed(rec, p.id, p.opts.Partitions)
	if !ok || !p.claims.genuine(rec.Topic, f, rec.Timestamp) {
		return nil, false
	}
	source := p.opts.mapKey(rec.Topic, f.Partition)
	if f.Offset <= applied(t.progress.Applied, source) && !p.writtenAnew(t, source, f) {
		return nil, true
	}
	t.progress.Applied = with(t.progress.Applied, source, f.Offset)
	t.guard.Applied = with(t.guard.Applied, source, topics.AppliedOrigin{Offset: f.Offset, Append: f.Append})
	return f.Origin(), false
}

// writtenAnew says that the source's log lost its end, and that f stands where
// another record was applied from: it was appended later than that one. A copy
// of what was applied never is, but for the clocks of its leaders.
func (p *Partition) writtenAnew(t *turn, source int32, f topics.Forward) bool {
	last, known := t.guard.Applied[source]
	if !known || last.Offset != applied(t.progress.Applied, source) || f.Append <= last.Append.Add(maxClockError) {
		return false
	}
	p.log.Warn("another partition's log lost its end: what was forwarded from there is new", "partition", f.Partition,
		"offset", f.Offset)
	return true
}

func applied(m map[int32]int64, partition int32) int64 {
	if o, ok := m[partition]; ok {
		return o
	}
	return -1
}

// with copies a small map and sets one element: the committed progress is not
// touched by a turn that may still fail.
func with[V any](m map[int32]V, k int32, v V) map[int32]V {
	next := make(map[int32]V, len(m)+1)
	for a, b := range m {
		next[a] = b
	}
	next[k] = v
	return next
}
