package engine

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/pipeline"
)

func (e *Engine) groupOptions() []kgo.Opt {
	o := e.process
	opts := append([]kgo.Opt{
		kgo.ConsumerGroup(o.Group),
		kgo.ConsumeTopics(o.Names.Commands()),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(o.SessionTimeout),
		kgo.HeartbeatInterval(o.GroupHeartbeat),
		kgo.RebalanceTimeout(5 * time.Second),
		kgo.MetadataMaxAge(5 * time.Second),
		kgo.RetryBackoffFn(kafkapart.RetryBackoff),
		kgo.DisableClientMetrics(),
		kgo.OnPartitionsAssigned(func(_ context.Context, cl *kgo.Client, a map[string][]int32) {
			cl.PauseFetchPartitions(a) // membership only: partitions fetch for themselves
			e.rejoined()
			e.sayMoved("partitions gained", a[o.Names.Commands()], "the group gave them to this node")
			e.take(a[o.Names.Commands()])
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, r map[string][]int32) {
			e.sayMoved("partitions given up", e.stillOurs(r[o.Names.Commands()]),
				"the group moves them to another node")
			e.release(r[o.Names.Commands()])
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client,
			r map[string][]int32,
		) {
			e.sayMoved("partitions lost", e.stillOurs(r[o.Names.Commands()]),
				"this node is no member any more: the brokers or this node did not answer within the session timeout")
			e.lose(r[o.Names.Commands()])
		}),
	}, o.Kafka...)
	if o.ServerAssigns {
		return append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()),
			kgo.ClientID(readsInClientID()))
	}
	opts = append(opts, kgo.Balancers(newWarmBalancer(o.Names.Commands(), e.warmth, &e.rounds,
		func() Identity { return *e.identity.Load() })))
	if o.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(o.InstanceID))
	}
	return opts
}

// sayMoved says which partitions came or went, and why, in one line.
func (e *Engine) sayMoved(what string, partitions []int32, why string) {
	if len(partitions) > 0 {
		e.process.Logger.Info(what, "partitions", slices.Sorted(slices.Values(partitions)), "reason", why)
	}
}

// stillOurs leaves out what a stop has given up already.
func (e *Engine) stillOurs(partitions []int32) (ours []int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range partitions {
		if e.owned[id] != nil {
			ours = append(ours, id)
		}
	}
	return ours
}

// measureLag asks where the partitions of commands end.
func (e *Engine) measureLag(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	ends, err := e.adm.ListEndOffsets(ctx, e.process.Names.Commands())
	if err != nil {
		return // the next second asks anew
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	ends.Each(func(o kadm.ListedOffset) {
		if o.Err == nil {
			e.ends[o.Partition] = o.Offset
		}
	})
}

// commitOffsets writes group offsets outside the transactions, for lag tools
// alone: the offsets that count are in progress. It is a plain request, since
// kgo's own commits wait for a rebalance to end.
func (e *Engine) commitOffsets(ctx context.Context, cl *kgo.Client, at []pipeline.Status) {
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = e.process.Names.Commands()
	for _, s := range at {
		if s.Ready && e.committed[s.Partition] != s.CommandsOffset {
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset = s.Partition, s.CommandsOffset
			topic.Partitions = append(topic.Partitions, p)
		}
	}
	member, generation := cl.GroupMetadata()
	if len(topic.Partitions) == 0 || generation < 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	meta, err := kafkapart.Metadata(ctx, cl, topic.Topic)
	if err != nil {
		return // the next second asks anew
	}
	topic.TopicID = meta.TopicID
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = e.process.Group, member, generation
	if e.process.InstanceID != "" {
		req.InstanceID = kmsg.StringPtr(e.process.InstanceID)
	}
	req.Topics = append(req.Topics, topic)
	if resp, err := req.RequestWith(ctx, cl); err == nil {
		e.noteCommitted(req, resp)
	}
}

// noteCommitted keeps which offsets were taken.
func (e *Engine) noteCommitted(req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse) {
	taken := map[int32]bool{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			taken[p.Partition] = p.ErrorCode == 0
		}
	}
	for _, p := range req.Topics[0].Partitions {
		if taken[p.Partition] {
			e.committed[p.Partition] = p.Offset
		}
	}
}

// readyToLeave returns what takes us out of the group, so that our partitions
// are given away at once rather than after the session time-out. kgo does not
// leave for static members; and a member that is still heard would join again
// when it learns that it has left, so it is silenced first, and somebody else
// says so, who has found the coordinator already.
func (e *Engine) readyToLeave(ctx context.Context, cl *kgo.Client) (leave func()) {
	if e.process.InstanceID == "" {
		return cl.CloseAllowingRebalance
	}
	opts := []kgo.Opt{kgo.RetryBackoffFn(kafkapart.RetryBackoff), kgo.DisableClientMetrics()}
	asks, err := kgo.NewClient(append(opts, e.process.Kafka...)...)
	if err != nil {
		e.process.Logger.Warn("leaving the group failed; it will notice after the session time-out", "error", err)
		return cl.CloseAllowingRebalance
	}
	find := kmsg.NewPtrDescribeGroupsRequest()
	find.Groups = []string{e.process.Group}
	_, _ = find.RequestWith(ctx, asks)
	return func() {
		defer asks.Close()
		cl.CloseAllowingRebalance()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second) // turns may have taken all of the other
		defer cancel()
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group = e.process.Group
		m := kmsg.NewLeaveGroupRequestMember()
		m.InstanceID = kmsg.StringPtr(e.process.InstanceID)
		req.Members = append(req.Members, m)
		_, _ = req.RequestWith(ctx, asks)
	}
}
