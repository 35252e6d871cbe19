package engine

import (
	"context"
	"slices"
	"time"

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
			cl.PauseFetchPartitions(a) // membership only: each partition has a client of its own
			e.onRejoined()
			e.sayMoved("partitions gained", a[o.Names.Commands()], "the group gave them to this node")
			e.onAssigned(a[o.Names.Commands()])
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, r map[string][]int32) {
			e.sayMoved("partitions given up", e.stillOurs(r[o.Names.Commands()]),
				"the group moves them to another node")
			e.onRevoked(r[o.Names.Commands()])
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client,
			r map[string][]int32,
		) {
			e.sayMoved("partitions lost", e.stillOurs(r[o.Names.Commands()]),
				"this node is no member any more: the brokers or this node did not answer within the session timeout")
			e.onLost(r[o.Names.Commands()])
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

// sayMoved logs in one line which partitions came or went, and why.
func (e *Engine) sayMoved(what string, partitions []int32, why string) {
	if len(partitions) > 0 {
		e.process.Logger.Info(what, "partitions", slices.Sorted(slices.Values(partitions)), "reason", why)
	}
}

// stillOurs leaves out the partitions that stop has given up already.
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

// measureLag asks for the end offsets of topic commands, of the partitions that Partitions returns.
// It names the partitions, because who asks for those of a topic asks for its metadata first, every
// second.
func (e *Engine) measureLag(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	all := e.measured()
	if len(all) == 0 {
		return
	}
	ends, _ := kafkapart.Ends(ctx, e.cl, all, kafkapart.ReadUncommitted) // what is missing is asked anew in a second
	e.mu.Lock()
	defer e.mu.Unlock()
	for at, end := range ends {
		e.ends[at.Partition] = end
	}
}

// measured lists the partitions of topic commands whose lag this process shows.
func (e *Engine) measured() (all []kafkapart.TopicPartition) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for p := range e.process.Partitions {
		if e.owned[p] != nil || e.lost[p] != nil {
			all = append(all, kafkapart.TopicPartition{Topic: e.process.Names.Commands(), Partition: p})
		}
	}
	return all
}

// commitOffsets writes group offsets for lag tools only. The offsets that count are in
// progress. It sends a plain request, because a commit of kgo waits for a rebalance to end.
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
		return // asked anew in a second
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

// noteCommitted keeps the offsets that the broker accepted.
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

// readyToLeave returns a function that takes this member out of the group, so that the
// group gives its partitions away before the session timeout. kgo does not leave for a
// static member. A live member that learns that it has left would join anew. So the
// function first closes the client, and a second client sends the request. That one has
// found the coordinator already.
func (e *Engine) readyToLeave(ctx context.Context, cl *kgo.Client) (leave func()) {
	if e.process.InstanceID == "" {
		return cl.CloseAllowingRebalance
	}
	opts := []kgo.Opt{kgo.RetryBackoffFn(kafkapart.RetryBackoff), kgo.DisableClientMetrics()}
	asks, err := kgo.NewClient(append(opts, e.process.Kafka...)...)
	if err != nil {
		e.process.Logger.Warn("leaving the group failed; the brokers remove this member after the session time-out",
			"error", err)
		return cl.CloseAllowingRebalance
	}
	find := kmsg.NewPtrDescribeGroupsRequest()
	find.Groups = []string{e.process.Group}
	_, _ = find.RequestWith(ctx, asks)
	return func() {
		defer asks.Close()
		cl.CloseAllowingRebalance()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second) // ctx may have ended while turns ended
		defer cancel()
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group = e.process.Group
		m := kmsg.NewLeaveGroupRequestMember()
		m.InstanceID = kmsg.StringPtr(e.process.InstanceID)
		req.Members = append(req.Members, m)
		_, _ = req.RequestWith(ctx, asks)
	}
}
