package dangling

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/wait"
)

// These bound how long an open transaction is watched before it counts as left open.
// Transactions of other producers, and one that is just ending, are open for a short time.
// A turn of ours that is under way may take longer.
const (
	openWithin     = 120 * time.Millisecond
	openWithinTurn = 3 * time.Second
	openPause      = 20 * time.Millisecond
	maxOpenPause   = 500 * time.Millisecond
)

// inspect searches for what the partition's producer has left open. A partition that does
// not exist has nothing open.
func (r *Resolver) inspect(ctx context.Context, all []TopicPartition, within time.Duration) (Leftover, error) {
	producer, _, err := r.Client.ProducerID(ctx)
	if err != nil {
		return Leftover{}, err
	}
	return leftOpen(ctx, r.Client, producer, all, within)
}

func leftOpen(
	ctx context.Context, cl *kgo.Client, producer int64, all []TopicPartition, within time.Duration,
) (left Leftover, err error) {
	if len(all) == 0 {
		return Leftover{Unknown: map[TopicPartition]error{}}, nil
	}
	var stable map[TopicPartition]int64
	var unstable map[TopicPartition]error
	beside := make(chan struct{})
	go func() {
		defer close(beside)
		stable, unstable = kafkapart.Ends(ctx, cl, all, kafkapart.ReadCommitted)
	}()
	ends, unknown := kafkapart.Ends(ctx, cl, all, kafkapart.ReadUncommitted)
	<-beside
	open := slices.DeleteFunc(slices.Clone(all), func(at TopicPartition) bool { return unknown[at] != nil })
	for pause, deadline := openPause, time.Now().Add(within); ; pause = min(2*pause, maxOpenPause) {
		open = slices.DeleteFunc(open, func(at TopicPartition) bool {
			end, ok := stable[at]
			return ok && end >= ends[at]
		})
		if len(open) == 0 || !time.Now().Before(deadline) {
			break
		}
		if wait.For(ctx, pause); ctx.Err() != nil {
			return Leftover{}, ctx.Err()
		}
		stable, unstable = kafkapart.Ends(ctx, cl, open, kafkapart.ReadCommitted)
	}
	maps.Copy(unknown, unstable) // errors of the last question
	open = slices.DeleteFunc(open, func(at TopicPartition) bool { return unknown[at] != nil })
	maps.DeleteFunc(unknown, func(_ TopicPartition, err error) bool {
		return errors.Is(err, kerr.UnknownTopicOrPartition)
	})
	left.Unknown = unknown
	return left, findOurs(ctx, cl, producer, open, ends, &left)
}

// findOurs finds which of the open transactions are ours. Other producers may write to a
// channel's topic, too, for as long as they like. A transaction that began after the ends
// were asked for is a turn that is under way.
func findOurs(
	ctx context.Context, cl *kgo.Client, producer int64, open []TopicPartition, ends map[TopicPartition]int64,
	left *Leftover,
) error {
	if len(open) == 0 {
		return nil
	}
	req := kmsg.NewPtrDescribeProducersRequest()
	kafkapart.EachTopic(open, func(topic string, partitions []int32) {
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic, t.Partitions = topic, partitions
		req.Topics = append(req.Topics, t)
	})
	answers := map[TopicPartition]kmsg.DescribeProducersResponseTopicPartition{}
	for _, shard := range cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			return fmt.Errorf("describe producers: %w", shard.Err)
		}
		for _, t := range shard.Resp.(*kmsg.DescribeProducersResponse).Topics {
			for _, p := range t.Partitions {
				answers[TopicPartition{Topic: t.Topic, Partition: p.Partition}] = p
			}
		}
	}
	for _, at := range open {
		answer, ok := answers[at]
		err := kerr.ErrorForCode(answer.ErrorCode)
		switch {
		case !ok:
			left.Unknown[at] = kafkapart.ErrNoAnswer
		case errors.Is(err, kerr.TopicAuthorizationFailed):
			left.Perhaps = append(left.Perhaps, at)
		case err != nil:
			left.Unknown[at] = err
		case isActive(answer.ActiveProducers, producer, ends[at]):
			left.Ours = append(left.Ours, at)
		}
	}
	return nil
}

// isActive reports whether a producer has a transaction that was open before end.
func isActive(all []kmsg.DescribeProducersResponseTopicPartitionActiveProducer, producer, end int64) bool {
	for i := range all {
		p := &all[i]
		if p.ProducerID == producer && p.CurrentTxnStartOffset >= 0 && p.CurrentTxnStartOffset < end {
			return true
		}
	}
	return false
}
