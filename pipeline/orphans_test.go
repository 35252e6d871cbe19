package pipeline_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
)

// A partition that a rebalance has left to nobody is given away again. Here a
// leader forgets it, as Kafka does where a static member is replaced between the
// two rounds of a cooperative rebalance.
func TestPartitionThatBelongsToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 4})
		var forget atomic.Bool
		forget.Store(true)
		balancer := &forgetful{
			GroupBalancer: kgo.CooperativeStickyBalancer(), topic: w.Names.Commands(),
			forget: &forget,
		}
		leader := w.Client(kgo.ConsumerGroup(w.Names.Prefix+"engine"), kgo.ConsumeTopics(w.Names.Commands()),
			kgo.Balancers(balancer), kgo.DisableAutoCommit())
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for ctx.Err() == nil {
				leader.PollFetches(ctx)
			}
		}()
		time.Sleep(10 * time.Second) // it leads
		w.Start("a")
		time.Sleep(20 * time.Second)
		if w.Owner(0) != nil || w.Owner(1) == nil {
			t.Fatalf("the leader did not forget partition 0 alone")
		}
		forget.Store(false)
		w.AwaitOwners()
		cancel()
		leader.Close()
	})
}

// forgetful is a leader that takes nothing itself and forgets partition 0.
type forgetful struct {
	kgo.GroupBalancer
	topic  string
	forget *atomic.Bool
}

func (f *forgetful) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer,
	map[string]struct{}, error,
) {
	b, err := kgo.NewConsumerBalancer(f, members)
	if err != nil {
		return nil, nil, err
	}
	return b, b.MemberTopics(), nil
}

func (f *forgetful) Balance(b *kgo.ConsumerBalancer, topics map[string]int32) kgo.IntoSyncAssignment {
	plan := b.NewPlan()
	b.EachMember(func(m *kmsg.JoinGroupResponseMember, meta *kmsg.ConsumerMemberMetadata) {
		if !bytes.Contains(meta.UserData, []byte("waterclock")) {
			return // it is no engine
		}
		for p := range topics[f.topic] {
			if p > 0 || !f.forget.Load() {
				plan.AddPartition(m, f.topic, p)
			}
		}
	})
	return plan
}
