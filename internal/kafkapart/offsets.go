package kafkapart

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/wait"
)

// Isolation is which records a question is about.
type Isolation int8

// The isolation levels of Kafka.
const (
	ReadUncommitted Isolation = 0
	ReadCommitted   Isolation = 1
)

// Kgo is the level as kgo spells it.
func (i Isolation) Kgo() kgo.IsolationLevel {
	if i == ReadUncommitted {
		return kgo.ReadUncommitted()
	}
	return kgo.ReadCommitted()
}

// Special timestamps of ListOffsets.
const (
	Latest          = -1 // the end: the high watermark, or the last stable offset
	Earliest        = -2 // the beginning
	NewestTimestamp = -3 // the record with the newest timestamp
)

// ListOffset asks the leader of one partition for an offset.
func ListOffset(
	ctx context.Context, cl *kgo.Client, topic string, partition int32, isolation Isolation, timestamp int64,
) (int64, error) {
	offsets, err := ListOffsets(ctx, cl, []string{topic}, partition, isolation, timestamp)
	if err != nil {
		return 0, err
	}
	return offsets[0], nil
}

// ListOffsets asks for an offset of the same partition of several topics, in
// one request where they have one leader.
func ListOffsets(
	ctx context.Context, cl *kgo.Client, topics []string, partition int32, isolation Isolation, timestamp int64,
) ([]int64, error) {
	answers, err := FindOffsets(ctx, cl, topics, partition, isolation, timestamp)
	out := make([]int64, len(answers))
	for i := range answers {
		out[i] = answers[i].Offset
	}
	return out, err
}

// FindOffsets is ListOffsets with all that the leaders say.
func FindOffsets(
	ctx context.Context, cl *kgo.Client, topics []string, partition int32, isolation Isolation, timestamp int64,
) ([]kmsg.ListOffsetsResponseTopicPartition, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	req.IsolationLevel = int8(isolation)
	for _, topic := range topics {
		req.Topics = append(req.Topics, offsetsOf(topic, timestamp, partition))
	}
	resp, err := requestOffsets(ctx, cl, req)
	if err != nil {
		return nil, fmt.Errorf("list offsets of %v/%d: %w", topics, partition, err)
	}
	out := make([]kmsg.ListOffsetsResponseTopicPartition, len(topics))
	found := 0
	for _, t := range resp.Topics {
		at := slices.Index(topics, t.Topic)
		if at < 0 || len(t.Partitions) != 1 {
			continue
		}
		if err := kerr.ErrorForCode(t.Partitions[0].ErrorCode); err != nil {
			return nil, fmt.Errorf("list offsets of %s/%d: %w", t.Topic, partition, err)
		}
		out[at] = t.Partitions[0]
		found++
	}
	if found != len(topics) {
		return nil, fmt.Errorf("list offsets of %v/%d: %d answers", topics, partition, found)
	}
	return out, nil
}

// offsetsOf asks for an offset of partitions of a topic.
func offsetsOf(topic string, timestamp int64, partitions ...int32) kmsg.ListOffsetsRequestTopic {
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for _, partition := range partitions {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = partition, timestamp
		rt.Partitions = append(rt.Partitions, rp)
	}
	return rt
}

// requestOffsets goes straight to the leader if the client knows it. Asked as
// usual, kgo wants metadata first unless what it has is of this moment: another
// round trip before everything that fires. A leader that is none any more says
// so, and then the usual way finds out who is.
//
// The leader epochs that the client knows go with the question (KIP-320): a
// leader that was deposed, and that the client knows to be, does not answer.
// Asked the usual way it might, as metadata may come from a broker that knows no
// better; but it says its epoch with the end, and then the question is put once
// more.
func requestOffsets(
	ctx context.Context, cl *kgo.Client, req *kmsg.ListOffsetsRequest,
) (*kmsg.ListOffsetsResponse, error) {
	if leader := leaderOfAll(cl, req); leader >= 0 {
		if resp, err := req.RequestWith(ctx, cl.Broker(int(leader))); err == nil && answered(resp) {
			return resp, nil
		}
	}
	for i := range req.Topics { // as the client finds out anew
		req.Topics[i].Partitions[0].CurrentLeaderEpoch = -1
	}
	for tries := 1; ; tries++ {
		resp, err := req.RequestWith(ctx, cl)
		if err != nil || !refuseDeposed(cl, req, resp) || tries == maxDeposed || ctx.Err() != nil {
			return resp, err
		}
		cl.ForceMetadataRefresh()
		wait.For(ctx, RetryBackoff(tries))
	}
}

// maxDeposed is how often a question comes to leaders that were deposed before
// it fails, after two seconds.
const maxDeposed = 10

// leaderOfAll is negative unless one broker leads every partition asked about.
// It puts the epochs into the request.
func leaderOfAll(cl *kgo.Client, req *kmsg.ListOffsetsRequest) int32 {
	all := int32(-1)
	for i, t := range req.Topics {
		leader, epoch, err := cl.PartitionLeader(t.Topic, t.Partitions[0].Partition)
		if err != nil || i > 0 && leader != all {
			return -1
		}
		all, t.Partitions[0].CurrentLeaderEpoch = leader, epoch
	}
	return all
}

func answered(resp *kmsg.ListOffsetsResponse) bool {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return false
			}
		}
	}
	return true
}

// refuseDeposed makes an error of every end that a leader of an older epoch has
// given than the client knows, and says whether there was one.
func refuseDeposed(cl *kgo.Client, req *kmsg.ListOffsetsRequest, resp *kmsg.ListOffsetsResponse) (refused bool) {
	if req.Topics[0].Partitions[0].Timestamp != Latest {
		return false // the epoch is that of a record
	}
	for _, t := range resp.Topics {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if p.ErrorCode == 0 && deposed(cl, t.Topic, p) {
				p.ErrorCode, refused = kerr.UnknownLeaderEpoch.Code, true
			}
		}
	}
	return refused
}

// deposed says that the client knows of a newer leader than the one that
// answered where a partition ends.
func deposed(cl *kgo.Client, topic string, p *kmsg.ListOffsetsResponseTopicPartition) bool {
	_, known, err := cl.PartitionLeader(topic, p.Partition)
	return err == nil && p.LeaderEpoch >= 0 && p.LeaderEpoch < known
}

// ErrNoAnswer says that a leader has answered, but not about the partition.
var ErrNoAnswer = errors.New("no answer")

// Ends asks all leaders where partitions end, to the eyes of an isolation
// level. Those without an answer are missing, with the reason.
func Ends(
	ctx context.Context, cl *kgo.Client, partitions []TopicPartition, isolation Isolation,
) (ends map[TopicPartition]int64, missing map[TopicPartition]error) {
	ends, missing = map[TopicPartition]int64{}, map[TopicPartition]error{}
	for _, at := range partitions {
		missing[at] = ErrNoAnswer
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, int8(isolation)
	EachTopic(partitions, func(topic string, ids []int32) {
		req.Topics = append(req.Topics, offsetsOf(topic, Latest, ids...))
	})
	for _, shard := range cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			for _, t := range shard.Req.(*kmsg.ListOffsetsRequest).Topics {
				for _, p := range t.Partitions {
					missing[TopicPartition{t.Topic, p.Partition}] = shard.Err
				}
			}
			continue
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for i := range t.Partitions {
				at := TopicPartition{t.Topic, t.Partitions[i].Partition}
				if end, err := endOf(cl, t.Topic, &t.Partitions[i]); err != nil {
					missing[at] = err
				} else {
					ends[at] = end
					delete(missing, at)
				}
			}
		}
	}
	return ends, missing
}

func endOf(cl *kgo.Client, topic string, p *kmsg.ListOffsetsResponseTopicPartition) (int64, error) {
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return 0, err
	}
	if deposed(cl, topic, p) {
		return 0, kerr.UnknownLeaderEpoch
	}
	return p.Offset, nil
}
