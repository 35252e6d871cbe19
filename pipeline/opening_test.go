package pipeline_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
)

// TestSlowToSay: a broker that takes four seconds to say where its partitions end
// is slow, not away. The partition opens, and what is due fires.
func TestSlowToSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		w.Start("a")
		w.AwaitOwners()
		w.Kill("a")
		w.Cluster.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.Cluster.KeepControl()
			// all that turns write to
			if r := req.(*kmsg.ListOffsetsRequest); r.IsolationLevel == 1 && len(r.Topics) > 2 {
				w.Cluster.SleepControl(func() { time.Sleep(4 * time.Second) })
			}
			return nil, nil, false
		})
		w.Register("x", time.Now().Add(10*time.Second))
		w.Start("a")
		time.Sleep(2 * time.Minute)
		w.RequireDelivered("x", 1)
		w.CheckInvariants()
	})
}

// TestRefusesToBeSettled: somebody's transaction is open in a topic that is called
// like a channel's, which the engine may neither read nor write.
func TestRefusesToBeEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		w.MaxLate = time.Second
		bad := w.Names.Due("bad")
		if err := w.Cluster.CreateTopic(bad, w.P,
			map[string]string{"message.timestamp.type": "LogAppendTime"}); err != nil {
			t.Fatal(err)
		}
		openTransaction(t, w, "flink", 0, &kgo.Record{Topic: bad, Key: []byte("other")})
		w.Start("a")
		w.AwaitOwners()
		w.Kill("a")
		w.Cluster.ControlKey(int16(kmsg.DescribeProducers), func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.Cluster.KeepControl()
			return refuseProducers(req.(*kmsg.DescribeProducersRequest), bad), nil, true
		})
		w.Cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.AddPartitionsToTxn}, Topic: bad,
			Err: kerr.TopicAuthorizationFailed, Count: -1,
		})
		w.Start("a")
		w.AwaitOwners()
		openings := w.Heard("openings")
		w.Register("x", time.Now().Add(time.Minute))
		time.Sleep(10 * time.Minute)
		w.RequireDelivered("x", 1)
		if n := w.Heard("openings") - openings; n > 0 {
			t.Errorf("the partition was opened again, %d times", n)
		}
		w.CheckInvariants()
	})
}

// TestSilentWhenOpened: a due topic that does not say whether something is open in
// it keeps what is due there waiting, and nothing else.
func TestSilentWhenOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSick(t)
		w.Kill("a")
		silent := w.Cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: w.Names.Due("bad"),
			Err: kerr.LeaderNotAvailable, Count: -1,
		})
		begin := time.Now()
		w.Start("a")
		w.AwaitOwners()
		registerBad(w, "b", 5*time.Second)
		for i := range 120 {
			w.Register(fmt.Sprintf("g%d", i), begin.Add(time.Duration(i)*time.Second/2+5*time.Second))
		}
		time.Sleep(3 * time.Minute)
		onTime(t, w, begin, 120, 8*time.Second) // opening is part of it
		fired := func() int { return len(w.Dump(w.Names.Due("bad"))) }
		if n := fired(); n > 0 {
			t.Errorf("what is due where something may be open fired %d times", n)
		}
		before := silent.Hits()
		time.Sleep(10 * time.Minute)
		if n := silent.Hits() - before; n > 200 {
			t.Errorf("it was asked %d times in ten minutes", n)
		}
		openings := w.Heard("openings")
		silent.Remove()
		time.Sleep(6 * time.Minute)
		if n := fired(); n != 1 {
			t.Errorf("fired %d times after it has answered", n)
		}
		if n := w.Heard("openings") - openings; n > 0 {
			t.Errorf("the partition was opened again, %d times, though nothing was open", n)
		}
	})
}
