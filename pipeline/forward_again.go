package pipeline

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// maxForwardAge is the compaction lag of commands: an older claim cannot be
// checked against the source any more.
const maxForwardAge = 7 * 24 * time.Hour

// genuine says whether a claim of having been forwarded can be true: our
// topic, an offset that exists, a time that is not longer ago than anything
// that waits.
func (p *Partition) genuine(ctx context.Context, topic string, f topics.Forward, appended trigger.Instant) (bool, error) {
	id, err := p.forward.id(ctx, topic)
	if err != nil {
		return false, err
	}
	if f.TopicID != id || appended.Sub(f.Append) > maxForwardAge || f.Append.Sub(appended) > maxForwardAge {
		return false, nil
	}
	source := route{topic, f.Partition}
	if f.Offset < p.sourceEnds[source] {
		return true, nil
	}
	end, err := listOffset(ctx, p.kafka.cl, topic, f.Partition, readUncommitted, latest)
	if err != nil {
		return true, nil // its leader is away: topic and age must do, or we would stand still with it
	}
	p.sourceEnds[source] = end
	return f.Offset < end, nil
}

// reforward queues what an earlier owner had read but not yet seen
// acknowledged on its right partition: misrouted records in [from, next).
func (p *Partition) reforward(ctx context.Context, topic string, start, next int64) error {
	through, from := p.unforwarded(topic, next)
	from = max(from, start)
	if from >= next {
		return nil
	}
	return p.readRange(ctx, topic, p.id, from, next, func(r *kgo.Record) {
		if home := topics.Partition(r.Key, p.opts.Partitions); home != p.id && len(r.Key) > 0 {
			if last, owed := through[home]; owed && r.Offset > last {
				p.forward.push(r, home)
			}
		}
	})
}

// unforwarded is the part of progress.Forwarded about one topic, and the
// offset at which the first record still owed can be.
func (p *Partition) unforwarded(topic string, next int64) (through map[int32]int64, from int64) {
	through, from = map[int32]int64{}, next
	for key, last := range p.progress.Forwarded {
		t, target := p.fromKey(key)
		if t == topic {
			through[target] = last
			from = min(from, last+1)
		}
	}
	return through, from
}

// Commands and receipts share the maps of progress: receipts have the keys
// below zero.
func (p *Partition) mapKey(topic string, partition int32) int32 {
	if topic == p.opts.Names.Receipts() {
		return -1 - partition
	}
	return partition
}

func (p *Partition) fromKey(key int32) (topic string, partition int32) {
	if key < 0 {
		return p.opts.Names.Receipts(), -1 - key
	}
	return p.opts.Names.Commands(), key
}

// owed is what progress says of forwarding.
func (p *Partition) owed() map[int32]int64 {
	var out map[int32]int64
	for _, topic := range []string{p.opts.Names.Commands(), p.opts.Names.Receipts()} {
		for target, last := range p.forward.outstanding(topic) {
			if out == nil {
				out = map[int32]int64{}
			}
			out[p.mapKey(topic, target)] = last
		}
	}
	return out
}
