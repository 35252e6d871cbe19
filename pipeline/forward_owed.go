package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// homeOf returns the partition that a record belongs to. ok is false if that is the one it
// is on.
func homeOf(r *kgo.Record, on, partitions int32) (partition int32, misplaced bool) {
	partition = topics.Partition(r.Key, partitions)
	return partition, partition != on && len(r.Key) > 0
}

// reforward notes which records an earlier owner read but did not see acknowledged on their
// right partition. They lie in the log of topic, from start to before next, and are read
// outside the turns.
func (f *forwarder) reforward(forwarded map[int32]int64, topic string, start, next int64) {
	through, _ := f.opts.unforwarded(forwarded, topic, next)
	f.mu.Lock()
	defer f.mu.Unlock()
	for target, last := range through {
		f.out.owe(route{topic, target}, offsets{last + 1, next})
	}
	f.out.begins(topic, start)
	f.changed(topic)
}

// unforwarded returns the part of progress.Forwarded about one topic, and the offset of the
// first record that may still be owed.
func (o *Options) unforwarded(forwarded map[int32]int64, topic string, next int64) (through map[int32]int64,
	from int64,
) {
	through, from = map[int32]int64{}, next
	for key, last := range forwarded {
		t, target := o.fromKey(key)
		if t == topic {
			through[target] = last
			from = min(from, last+1)
		}
	}
	return through, from
}

// mapKey is the key of a partition in the maps of progress. Commands and receipts share
// these maps: receipts have the keys below zero.
func (o *Options) mapKey(topic string, partition int32) int32 {
	if topic == o.Names.Receipts() {
		return -1 - partition
	}
	return partition
}

func (o *Options) fromKey(key int32) (topic string, partition int32) {
	if key < 0 {
		return o.Names.Receipts(), -1 - key
	}
	return o.Names.Commands(), key
}

// owed returns what progress says about forwarding.
func (f *forwarder) owed() (owed map[int32]int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out.owed(func(key route, before int64) {
		if owed == nil {
			owed = map[int32]int64{}
		}
		owed[f.opts.mapKey(key.topic, key.target)] = before
	})
	return owed
}

// forwardInterval is how often progress notes what was forwarded, if no other turn does. A
// successor sends at most what was forwarded since then.
const forwardInterval = 5 * time.Second

// forwardNoted reports whether progress needs no note of what was forwarded now.
func (p *Partition) forwardNoted() bool {
	return time.Since(p.committed) < forwardInterval || !p.forward.hasStuck() &&
		maps.Equal(p.forward.owed(), p.progress.Forwarded)
}

// hasStuck reports whether a turn must record a lost or refused record (rejectStuck).
func (f *forwarder) hasStuck() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.hasStuck()
}

// maxForwardWait bounds how long poll may wait before it asks forwardNoted.
func (p *Partition) maxForwardWait(wait time.Duration) time.Duration {
	if len(p.progress.Forwarded) == 0 { // the turn that reads a misplaced record notes it
		return wait
	}
	return min(wait, forwardInterval-time.Since(p.committed)%forwardInterval)
}

// rejectStuck records what can never be forwarded, because its topic refuses it or the log
// dropped it (retention, DeleteRecords). For dropped records only the offsets can be named.
// It is part of the turn, like the position behind them.
func (p *Partition) rejectStuck(ctx context.Context, t *turn) {
	f := p.forward
	f.mu.Lock()
	lost, refused := f.out.takeLost(), f.out.takeRefused()
	f.mu.Unlock()
	for _, r := range refused {
		t.source = topics.Source(r.Topic, r.Partition, r.Offset)
		p.refuseStranger(ctx, t, record(r), errNotForwarded)
	}
	for _, l := range lost {
		msg := fmt.Sprintf("the log of %s/%d no longer holds offsets %d to %d: its records of the keys of "+
			"partition %d "+
			"were not forwarded to it", l.topic, p.id, l.from, l.to-1, l.target)
		at := &topics.Record{Topic: l.topic, Partition: p.id, Offset: l.from}
		p.reject(ctx, t, at, &trigger.Error{Code: trigger.CodeMisrouted, Msg: msg})
	}
	t.lost = append(t.lost, lost...)
}

// warnLost logs the same for the operator, after the turn has committed.
func (p *Partition) warnLost(t *turn) {
	for _, l := range t.lost {
		p.log.Warn("records were dropped from the log before they could be forwarded to their correct partition",
			"topic", l.topic, "target", l.target, "first_offset", l.from, "last_offset", l.to-1)
		p.opts.Listener.Command(trigger.Op(0).String(), string(trigger.CodeMisrouted))
	}
}

// readLog reads from the source log what memory had no room for and what an earlier owner
// left, until ctx ends. It sleeps while there is nothing to read.
func (f *forwarder) readLog(ctx context.Context, topic string) {
	var s *batchScan
	for ctx.Err() == nil {
		from, ok := f.wanted(topic)
		if !ok {
			select {
			case <-f.room[topic]:
			case <-ctx.Done():
			}
			continue
		}
		if cl := f.kafka.Client(); s == nil || s.reader.Client() != cl {
			s = newBatchScan(kafkapart.NewReaderOf(cl, f.out.bytes), f.opts)
		}
		if err := f.refill(ctx, s, topic, from); err != nil && ctx.Err() == nil {
			f.log.Warn("reading records to forward failed, retrying",
				"topic", topic, "offset", from, "error", err)
			wait.For(ctx, time.Second)
		}
	}
}

func (f *forwarder) wanted(topic string) (int64, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.wanted(topic)
}

// refill reads one piece of the log.
func (f *forwarder) refill(ctx context.Context, s *batchScan, topic string, from int64) error {
	ctx, cancel := context.WithTimeout(ctx, openStep)
	defer cancel()
	at := kafkapart.TopicPartition{Topic: topic, Partition: f.id}
	fs, next, err := s.reader.ReadFrom(ctx, at, from, f.opts.isolation(), f.opts.decompressor())
	if errors.Is(err, kerr.OffsetOutOfRange) {
		return f.skipLost(ctx, topic, from, err)
	}
	if err != nil && ctx.Err() == nil && s.suspect(at, err) {
		if _, past, unread := s.unreadableFrom(ctx, at, from); unread == nil && past > from {
			fs, next, err = nil, past, nil // the turn that passed it refused it
			delete(s.suspects, at)
		}
	}
	if err != nil {
		return err
	}
	var records []misplaced
	for it := fs.RecordIter(); !it.Done(); {
		r := it.Next()
		if home, ok := homeOf(r, f.id, f.opts.Partitions); ok && !r.Attrs.IsControl() &&
			recordBytes(r) <= maxForwarded {
			records = append(records, misplaced{r, home})
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out.fill(topic, offsets{from, next}, records)
	f.changed(topic)
	return nil
}

// skipLost continues at the first offset that the log still has.
func (f *forwarder) skipLost(ctx context.Context, topic string, from int64, cause error) error {
	start, err := kafkapart.ListOffset(ctx, f.kafka.Client(), topic, f.id, kafkapart.ReadUncommitted,
		kafkapart.Earliest)
	if err != nil {
		return err
	}
	if start <= from {
		return cause // the log ends before that offset
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out.begins(topic, start)
	f.changed(topic)
	return nil
}

// trimBelow is the lowest offset of commands that a successor may need: of the first that
// is not applied, or not yet forwarded.
func (p *Partition) trimBelow() int64 {
	_, from := p.opts.unforwarded(p.progress.Forwarded, p.opts.Names.Commands(), p.progress.NextCommand)
	return from
}
