package kafkapart

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// EndOfEpoch is where the records of a leader epoch end (KIP-320); -1 if the
// leader does not know.
func EndOfEpoch(ctx context.Context, cl *kgo.Client, topic string, partition, epoch int32) (int64, error) {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	rp.Partition, rp.LeaderEpoch = partition, epoch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return -1, fmt.Errorf("end of leader epoch %d of %s/%d: %w", epoch, topic, partition, err)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return -1, fmt.Errorf("end of leader epoch %d of %s/%d: %w", epoch, topic, partition, err)
			}
			if p.LeaderEpoch >= 0 {
				return p.EndOffset, nil
			}
		}
	}
	return -1, nil
}
