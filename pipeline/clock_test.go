package pipeline_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/fold"
	"github.com/waterclock/waterclock/internal/logtest"
	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/topics"
)

// skewed is a world whose nodes have clocks that can be set wrong. The broker's
// is right.
type skewed struct {
	*sim.World
	off map[string]*atomic.Int64
}

func newSkewed(t *testing.T, maxOffset time.Duration) *skewed {
	return newSkewedOf(t, maxOffset, sim.Options{})
}

// newSkewedOf is newSkewed of a world with options.
func newSkewedOf(t *testing.T, maxOffset time.Duration, of sim.Options) *skewed {
	s := &skewed{off: map[string]*atomic.Int64{"a": {}, "b": {}}}
	change := of.Change
	of.Seed, of.Change = 7, func(name string, o *pipeline.Options) {
		o.MaxClockOffset = maxOffset
		o.Now = func() time.Time { return time.Now().Add(time.Duration(s.off[name].Load())) }
		if change != nil {
			change(name, o)
		}
	}
	s.World = sim.New(t, of)
	s.Epsilon, s.MaxLate = time.Second, 3*time.Second
	return s
}

func (s *skewed) set(node string, d time.Duration) { s.off[node].Store(int64(d)) }

// spread registers a trigger a second for a while to come.
func (s *skewed) spread(n int) {
	begin := time.Now()
	for i := range n {
		s.Register(fmt.Sprintf("t%d", i), begin.Add(time.Duration(i+2)*time.Second))
		s.Register(fmt.Sprintf("c%d", i), begin.Add(time.Duration(i+4)*time.Second))
	}
	for i := range n {
		time.Sleep(time.Until(begin.Add(time.Duration(i+4)*time.Second - 1100*time.Millisecond)))
		s.Cancel(fmt.Sprintf("c%d", i))
	}
}

func TestClocks(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(s *skewed)
	}{
		{"an hour ahead", func(s *skewed) {
			s.set("a", time.Hour)
			s.Start("a")
			s.AwaitOwners()
			s.spread(30)
		}},
		{"an hour behind", func(s *skewed) {
			s.set("a", -time.Hour)
			s.Start("a")
			s.AwaitOwners()
			s.spread(30)
		}},
		{"an hour ahead hands over to one that is right", func(s *skewed) {
			s.set("a", time.Hour)
			s.Start("a")
			s.AwaitOwners()
			time.AfterFunc(10*time.Second, func() { _ = s.Stop("a"); s.Start("b") })
			s.spread(30)
		}},
		{"ten seconds behind takes over from one that is right", func(s *skewed) {
			s.set("b", -10*time.Second)
			s.Start("a")
			s.AwaitOwners()
			time.AfterFunc(10*time.Second, func() { _ = s.Stop("a"); s.Start("b") })
			s.spread(30)
		}},
		{"steps of an hour while firing", func(s *skewed) {
			s.Start("a")
			s.AwaitOwners()
			for i, d := range []time.Duration{time.Hour, 0, -time.Hour, 0, time.Hour, -time.Hour} {
				time.AfterFunc(time.Duration(5*i+3)*time.Second+337*time.Millisecond, func() { s.set("a", d) })
			}
			s.spread(40)
		}},
		{"steps of five seconds while firing", func(s *skewed) {
			s.Start("a")
			s.AwaitOwners()
			for i := range 60 {
				d := time.Duration(i%3-1) * 5 * time.Second
				time.AfterFunc(time.Duration(i)*613*time.Millisecond, func() { s.set("a", d) })
			}
			s.spread(40)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSkewed(t, 2*time.Hour) // the operator trusts the broker
				c.run(s)
				time.Sleep(10 * time.Second)
				s.CheckInvariants()
				if n := s.Heard("misfired"); n > 0 {
					t.Errorf("%d misfires, though nothing was late", n)
				}
				if n := s.Heard("turns"); n > 2000 {
					t.Errorf("%d turns for 160 commands and firings: the engine spins", n)
				}
			})
		})
	}
}

// TestClocksFarApart: a leader whose clock is a month ahead of the node's fires
// nothing, until the clock is right again. What is written meanwhile does not
// come from that future.
func TestClocksFarApart(t *testing.T) {
	for _, off := range []time.Duration{
		-30 * 24 * time.Hour, -5 * time.Minute, -40 * time.Second, 40 * time.Second, 5 * time.Minute,
		30 * 24 * time.Hour,
	} {
		t.Run(off.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSkewed(t, 0)
				n := s.Start("a")
				s.AwaitOwners()
				s.Register("before", time.Now().Add(5*time.Second))
				s.Register("month", time.Now().Add(29*24*time.Hour))
				time.Sleep(10 * time.Second)
				s.RequireDelivered("before", 1)
				s.set("a", off) // the node is right, and the broker is not: all is relative
				time.Sleep(15 * time.Second)
				s.Register("held", time.Now().Add(5*time.Second))
				time.Sleep(30 * time.Second)
				s.RequireDelivered("held", 0)
				why := fmt.Sprint(n.Engine.Unready())
				if !strings.Contains(why, "holds firing") || !strings.Contains(why, "clock") {
					t.Errorf("not ready: %v", why)
				}
				if turns := s.Heard("turns"); turns > 200 {
					t.Errorf("%d turns: it spins", turns)
				}
				s.set("a", 0)
				time.Sleep(10 * time.Second)
				s.RequireDelivered("held", 1)
				s.RequireDelivered("month", 0)
				if n.Engine.Unready() != nil {
					t.Errorf("not ready: %v", n.Engine.Unready())
				}
				for _, r := range s.Dump(s.Names.Events()) {
					e, err := topics.DecodeEvent(r.Value)
					if err != nil || time.UnixMicro(e.EventUS).After(r.Timestamp.Add(2*time.Second)) {
						t.Errorf("event_us %v in a record of %v, %v", time.UnixMicro(e.EventUS), r.Timestamp, err)
					}
				}
			})
		})
	}
}

// TestHeldIsFolded: a wrong clock holds all partitions of a node at once, and takes two lines of the log for all of
// them: one at once, and one that names the others.
func TestHeldIsFolded(t *testing.T) {
	log := &logtest.Buffer{}
	synctest.Test(t, func(t *testing.T) {
		s := newSkewedOf(t, 0, sim.Options{Partitions: 8, Change: func(_ string, o *pipeline.Options) {
			o.Logger = slog.New(fold.New(slog.NewTextHandler(log, nil)))
		}})
		s.Start("a")
		s.AwaitOwners()
		time.Sleep(10 * time.Second)
		s.set("a", 5*time.Minute)
		for i := range 64 { // some for each partition
			s.Register(fmt.Sprintf("t%d", i), time.Now().Add(5*time.Second))
		}
		time.Sleep(25 * time.Second)
		said := log.String()
		if n := strings.Count(said, "firing is held"); n != 2 {
			t.Errorf("%d lines say that firing is held:\n%s", n, said)
		}
		if !strings.Contains(said, "repeated=7") {
			t.Errorf("no line counts the other partitions:\n%s", said)
		}
		s.set("a", 0)
		time.Sleep(time.Minute)
	})
}

// TestHeldWhileTheLeaderMoves: another broker leads now, and does not show yet what was written to it. The time that
// the first one gave is not the second's opinion.
func TestHeldWhileTheLeaderMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSkewedOf(t, 0, sim.Options{Partitions: 1, Brokers: 2})
		n := s.Start("a")
		s.AwaitOwners()
		s.set("a", 5*time.Minute) // the node is right, and both brokers are not: all is relative
		time.Sleep(15 * time.Second)
		s.Register("held", time.Now().Add(time.Second))
		time.Sleep(10 * time.Second)
		hidden := s.Cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Fetch}, Topic: s.Names.State(), Err: kerr.NotLeaderForPartition, Count: -1,
			When: func(req kmsg.Request) bool { return req.(*kmsg.FetchRequest).IsolationLevel == 0 },
		})
		s.MoveLeader(s.Names.State(), 0)
		time.Sleep(20 * time.Second)
		s.RequireDelivered("held", 0)
		if why := fmt.Sprint(n.Engine.Unready()); !strings.Contains(why, "holds firing") || hidden.Hits() == 0 {
			t.Errorf("not ready: %v, after %d refused fetches", why, hidden.Hits())
		}
		hidden.Remove() // and now the second broker agrees
		time.Sleep(20 * time.Second)
		s.RequireDelivered("held", 1)
	})
}

// TestOneBrokersStampsAreOneOpinion: a broker is a month ahead, and leads all partitions. Firing holds also once
// another broker leads commands: what stands there from before has the first one's stamps. It goes on when that other
// broker stamps the same time.
func TestOneBrokersStampsAreOneOpinion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, sim.Options{Partitions: 1, Brokers: 2, Change: func(_ string, o *pipeline.Options) {
			o.MaxClockOffset = 0 // the default
		}})
		const month = 30 * 24 * time.Hour
		s.BrokerAhead(0, month)
		n := s.Start("a")
		s.Register("soon", time.Now().Add(20*24*time.Hour))
		time.Sleep(20 * time.Second)
		s.RequireDelivered("soon", 0)
		s.MoveLeader(s.Names.Commands(), 0)
		time.Sleep(time.Minute)
		s.RequireDelivered("soon", 0)
		if why := fmt.Sprint(n.Engine.Unready()); !strings.Contains(why, "holds firing") {
			t.Errorf("not ready: %v", why)
		}
		s.BrokerAhead(1, month)
		s.Register("other", time.Now().Add(20*24*time.Hour))
		time.Sleep(20 * time.Second)
		s.RequireDelivered("soon", 1)
	})
}

// TestOpensFarApart: a partition that opens under such a leader holds at once.
func TestOpensFarApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSkewed(t, 0)
		s.Start("a")
		s.AwaitOwners()
		s.Register("soon", time.Now().Add(time.Minute))
		time.Sleep(time.Second)
		_ = s.Stop("a")
		s.set("b", -30*24*time.Hour)
		s.Start("b")
		time.Sleep(2 * time.Minute)
		s.RequireDelivered("soon", 0)
		_ = s.Stop("b")
		s.Start("a")
		s.AwaitOwners()
		time.Sleep(10 * time.Second)
		s.RequireDelivered("soon", 1)
	})
}

// TestOpensWithoutTheBrokersTime: the brokers do not show the record that a partition
// opens with for a while, as during an election. The node's clock, which is 20 s ahead,
// does not take their clock's place.
func TestOpensWithoutTheBrokersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSkewed(t, 0)
		s.Start("a")
		s.AwaitOwners()
		s.Register("soon", time.Now().Add(20*time.Second))
		time.Sleep(time.Second)
		_ = s.Stop("a")
		s.set("b", 20*time.Second)
		hidden := s.Cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Fetch}, Topic: s.Names.State(), Err: kerr.NotLeaderForPartition, Count: -1,
			When: func(req kmsg.Request) bool { // the restore reads committed records
				return req.(*kmsg.FetchRequest).IsolationLevel == 0
			},
		})
		time.AfterFunc(3*time.Second, func() { hidden.Remove() })
		s.Start("b")
		time.Sleep(time.Minute)
		s.RequireDelivered("soon", 1)
		s.CheckInvariants()
		if hidden.Hits() == 0 {
			t.Error("no fetch was refused")
		}
	})
}
