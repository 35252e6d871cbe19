package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/topics"
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
