package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Isolation levels and special timestamps of ListOffsets.
const (
	readUncommitted = 0
	readCommitted   = 1
	latest          = -1
	earliest        = -2
)

// listOffset asks the leader of one partition for an offset.
func (s *session) listOffset(ctx context.Context, topic string, partition int32, isolation int8, timestamp int64) (int64, error) {
	return listOffset(ctx, s.cl, topic, partition, isolation, timestamp)
}

func listOffset(ctx context.Context, cl *kgo.Client, topic string, partition int32, isolation int8, timestamp int64) (int64, error) {
	offsets, err := listOffsets(ctx, cl, []string{topic}, partition, isolation, timestamp)
	if err != nil {
		return 0, err
	}
	return offsets[0], nil
}

// listOffsets asks for an offset of the same partition of several topics, in
// one request where they have one leader.
func listOffsets(ctx context.Context, cl *kgo.Client, names []string, partition int32, isolation int8, timestamp int64) ([]int64, error) {
	answers, err := askOffsets(ctx, cl, names, partition, isolation, timestamp)
	out := make([]int64, len(answers))
	for i := range answers {
		out[i] = answers[i].Offset
	}
	return out, err
}

func askOffsets(ctx context.Context, cl *kgo.Client, names []string, partition int32, isolation int8, timestamp int64) ([]kmsg.ListOffsetsResponseTopicPartition, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	req.IsolationLevel = isolation
	for _, name := range names {
		req.Topics = append(req.Topics, offsetsOf(name, timestamp, partition))
	}
	resp, err := requestOffsets(ctx, cl, req)
	if err != nil {
		return nil, fmt.Errorf("list offsets of %v/%d: %w", names, partition, err)
	}
	out := make([]kmsg.ListOffsetsResponseTopicPartition, len(names))
	found := 0
	for _, t := range resp.Topics {
		at := slices.Index(names, t.Topic)
		if at < 0 || len(t.Partitions) != 1 {
			continue
		}
		if err := kerr.ErrorForCode(t.Partitions[0].ErrorCode); err != nil {
			return nil, fmt.Errorf("list offsets of %s/%d: %w", t.Topic, partition, err)
		}
		out[at] = t.Partitions[0]
		found++
	}
	if found != len(names) {
		return nil, fmt.Errorf("list offsets of %v/%d: %d answers", names, partition, found)
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
// leader that was deposed, and that the client knows to be, does not answer. Asked
// the usual way it might, as metadata may come from a broker that knows no better;
// but it says its epoch with the end, and then the question is put again.
func requestOffsets(ctx context.Context, cl *kgo.Client, req *kmsg.ListOffsetsRequest) (*kmsg.ListOffsetsResponse, error) {
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
		if err != nil || !refuseDeposed(cl, req, resp) || tries == mostDeposed || ctx.Err() != nil {
			return resp, err
		}
		cl.ForceMetadataRefresh()
		sleep(ctx, retryBackoff(tries))
	}
}

// mostDeposed is how often a question comes to leaders that were deposed before it
// fails, after two seconds.
const mostDeposed = 10

// refuseDeposed makes an error of every end that was told by a leader of an older
// epoch than the client knows, and says whether there was one.
func refuseDeposed(cl *kgo.Client, req *kmsg.ListOffsetsRequest, resp *kmsg.ListOffsetsResponse) (refused bool) {
	if req.Topics[0].Partitions[0].Timestamp != latest {
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

// deposed says that the client knows of a newer leader than the one that told where
// a partition ends.
func deposed(cl *kgo.Client, topic string, p *kmsg.ListOffsetsResponseTopicPartition) bool {
	_, known, err := cl.PartitionLeader(topic, p.Partition)
	return err == nil && p.LeaderEpoch >= 0 && p.LeaderEpoch < known
}

// leaderOfAll is negative unless one broker leads every partition asked about. It
// puts the epochs into the request.
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

// place is a partition of a topic.
type place struct {
	topic     string
	partition int32
}

func (p place) compare(o place) int {
	return cmp.Or(strings.Compare(p.topic, o.topic), cmp.Compare(p.partition, o.partition))
}

// eachTopic calls f for every topic with its partitions. Those of one topic
// stand together.
func eachTopic(places []place, f func(topic string, partitions []int32)) {
	for len(places) > 0 {
		topic := places[0].topic
		var partitions []int32
		for len(places) > 0 && places[0].topic == topic {
			partitions = append(partitions, places[0].partition)
			places = places[1:]
		}
		f(topic, partitions)
	}
}

var errNoAnswer = errors.New("no answer")

// endsOf asks all leaders where partitions end, to the eyes of an isolation
// level. Those without an answer are missing, with the reason.
func (s *session) endsOf(ctx context.Context, places []place, isolation int8) (ends map[place]int64, missing map[place]error) {
	ends, missing = map[place]int64{}, map[place]error{}
	for _, at := range places {
		missing[at] = errNoAnswer
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, isolation
	eachTopic(places, func(topic string, partitions []int32) {
		req.Topics = append(req.Topics, offsetsOf(topic, latest, partitions...))
	})
	for _, shard := range s.cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			for _, t := range shard.Req.(*kmsg.ListOffsetsRequest).Topics {
				for _, p := range t.Partitions {
					missing[place{t.Topic, p.Partition}] = shard.Err
				}
			}
			continue
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for i := range t.Partitions {
				p := &t.Partitions[i]
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					missing[place{t.Topic, p.Partition}] = err
					continue
				}
				if deposed(s.cl, t.Topic, p) {
					missing[place{t.Topic, p.Partition}] = kerr.UnknownLeaderEpoch
					continue
				}
				ends[place{t.Topic, p.Partition}] = p.Offset
				delete(missing, place{t.Topic, p.Partition})
			}
		}
	}
	return ends, missing
}
