package pipeline_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
)

// TestDeposedLeader: for a second, every question where commands end comes to a
// broker that was deposed and has not heard of it. The owner has heard of the
// new leader: it must take no answer of an older epoch, whether the leader of
// receipts is the same broker or another.
func TestDeposedLeader(t *testing.T) {
	for receipts := range int32(2) {
		t.Run(fmt.Sprint("receipts on broker ", receipts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := sim.New(t, sim.Options{Partitions: 1, Brokers: 2})
				n := w.Start("a")
				w.AwaitOwners()
				for topic, leader := range map[string]int32{w.Names.Commands(): 1, w.Names.Receipts(): receipts} {
					if err := w.Cluster.MoveTopicPartition(topic, 0, leader); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(20 * time.Second)
				due := time.Now().Add(10 * time.Second)
				w.Register("k", due)
				time.Sleep(5 * time.Second)
				now := w.Cluster.PartitionInfo(w.Names.Commands(), 0)
				var deposed atomic.Bool
				w.Cluster.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
					w.Cluster.KeepControl()
					if !deposed.Load() {
						return nil, nil, false
					}
					return endsByDeposed(req.(*kmsg.ListOffsetsRequest), w.Names.Commands(), now.Epoch-1,
						now.HighWatermark)
				})
				n.Delay(kmsg.Fetch, 5*time.Second)
				w.Send("k-other", `{"op":"cancel"}`) // its fetch is the first that is late
				time.Sleep(50 * time.Millisecond)
				w.Cancel("k")
				time.Sleep(time.Until(due.Add(-10 * time.Millisecond)))
				deposed.Store(true)
				time.Sleep(time.Second)
				deposed.Store(false)
				time.Sleep(10 * time.Second)
				n.Delay(kmsg.Fetch, 0)
				time.Sleep(time.Minute)
				w.RequireDelivered("k", 0)
			})
		})
	}
}

// endsByDeposed answers as a broker that leads a topic in an epoch, and knows of
// records up to end.
func endsByDeposed(req *kmsg.ListOffsetsRequest, topic string, epoch int32, end int64) (kmsg.Response, error, bool) {
	asked := false
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition = p.Partition
			switch {
			case t.Topic != topic:
				rp.Offset = 0
			case p.CurrentLeaderEpoch > epoch:
				asked, rp.ErrorCode = true, kerr.UnknownLeaderEpoch.Code
			default:
				asked, rp.Offset, rp.LeaderEpoch = true, end, epoch
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp, nil, asked
}

// TestClaimsBeforeADeposedLeader: how far a source partition reaches is asked of a
// broker that was deposed. What was forwarded from there is no direct command
// for that: a second copy of it would be applied, too.
func TestClaimsBeforeADeposedLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 2, Brokers: 2})
		w.Start("a")
		w.AwaitOwners()
		if err := w.Cluster.MoveTopicPartition(w.Names.Commands(), 1, 1); err != nil {
			t.Fatal(err)
		}
		key := keyOn(0)
		w.Register(key, time.Now().Add(24*time.Hour))
		time.Sleep(20 * time.Second)
		now := w.Cluster.PartitionInfo(w.Names.Commands(), 1)
		var deposed atomic.Bool
		deposed.Store(true)
		w.Cluster.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.Cluster.KeepControl()
			r := req.(*kmsg.ListOffsetsRequest)
			if !deposed.Load() || len(r.Topics) != 1 || r.Topics[0].Topic != w.Names.Commands() ||
				r.Topics[0].Partitions[0].Partition != 1 {
				return nil, nil, false
			}
			return endsByDeposed(r, w.Names.Commands(), now.Epoch-1, now.HighWatermark)
		})
		w.SendTo(1, key, `{"op":"run_now"}`)
		time.Sleep(2 * time.Second)
		w.Kill("a") // before it is noted that the record was forwarded
		deposed.Store(false)
		w.Start("a")
		w.AwaitOwners()
		time.Sleep(time.Minute)
		if n := len(copies(w, w.Names.Commands(), 0)); n != 1 {
			t.Fatalf("copies of %d commands were forwarded", n)
		}
		for _, n := range copies(w, w.Names.Commands(), 0) {
			if n < 2 {
				t.Fatal("it was forwarded once: this shows nothing")
			}
		}
		w.RequireDelivered(key, 1)
	})
}
