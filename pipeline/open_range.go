package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/decompress"
	"github.com/waterclock/waterclock/internal/kafkapart"
)

// readRangeWithin bounds one reading of a past range of a log while a partition opens.
const readRangeWithin = 2 * time.Minute

// readRange calls f for every committed record of a partition in [from, to). It succeeds
// only if all of the range was seen, or is known to be hidden for good. A silent broker
// proves nothing: it may be slow.
func (o *opening) readRange(ctx context.Context, topic string, partition int32, from, to int64,
	f func(*kgo.Record),
) error {
	if from >= to {
		return nil
	}
	batches := o.opts.batchReader()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.FetchMaxWait(250 * time.Millisecond),
		kgo.RetryBackoffFn(kafkapart.RetryBackoff), kgo.DisableClientMetrics(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(from)}}),
	}, append(o.opts.Kafka[:len(o.opts.Kafka):len(o.opts.Kafka)], kgo.WithDecompressor(batches))...)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	defer batches.Close()
	ctx, cancel := context.WithTimeout(ctx, readRangeWithin)
	defer cancel()
	for at := from; at < to; {
		pctx, done := context.WithTimeout(ctx, time.Second)
		batches.Begin()
		fs := cl.PollFetches(pctx)
		batches.End()
		done()
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read %s/%d from %d to %d, at %d: %w", topic, partition, from, to, at, err)
		}
		for _, fe := range fs.Errors() {
			if errors.Is(fe.Err, context.DeadlineExceeded) || errors.Is(fe.Err, decompress.ErrLater) {
				continue
			}
			if !o.kafka.scan.suspect(kafkapart.TopicPartition{Topic: fe.Topic, Partition: fe.Partition}, fe.Err) {
				return &kafkapart.FetchError{
					At:  kafkapart.TopicPartition{Topic: fe.Topic, Partition: fe.Partition},
					Err: fe.Err,
				}
			}
		}
		if fs.NumRecords() == 0 {
			if at, err = o.kafka.reader.SkipHidden(ctx, kafkapart.TopicPartition{Topic: topic, Partition: partition},
				at); err != nil {
				return err
			}
		}
		for it := fs.RecordIter(); !it.Done(); {
			r := it.Next()
			at = max(at, r.Offset+1)
			if !r.Attrs.IsControl() && r.Offset < to {
				f(r)
			}
		}
		if at, err = o.consumer.passInRange(ctx, cl, kafkapart.TopicPartition{Topic: topic, Partition: partition},
			at); err != nil {
			return err
		}
	}
	return nil
}
