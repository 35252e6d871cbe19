package pipeline_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/topics"
)

// A partition as the tests of stalls have it: a turn of 500 takes 20 ms of work and waits 80 ms for its transaction.
const (
	stallFire = 40 * time.Microsecond
	stallEnd  = 80 * time.Millisecond
)

// perSecond is how many fired in a second, after the turn that fired the first.
func perSecond(at []time.Time) float64 {
	slices.SortFunc(at, time.Time.Compare)
	took := at[len(at)-1].Sub(at[0])
	for first := at[0]; len(at) > 0 && at[0].Before(first.Add(stallEnd/2)); {
		at = at[1:]
	}
	return float64(len(at)) / took.Seconds()
}

// capacity is how many timers a partition fires in a second that has an endless backlog.
func capacity(t *testing.T) (most float64) {
	synctest.Test(t, func(t *testing.T) {
		const n = 20_000
		w, _ := costing(t, 38, 1, stallFire)
		a := w.Start("a")
		w.AwaitOwners()
		due := time.Now().Add(time.Minute)
		w.Flood(n, func(i int) (string, time.Time) { return fmt.Sprint("h", i), due })
		time.Sleep(time.Until(due.Add(-time.Second)))
		a.Delay(kmsg.EndTxn, stallEnd)
		var at []time.Time
		for _, r := range w.Tail(w.Names.Due("default")).Take(n) {
			at = append(at, r.Timestamp)
		}
		most = perSecond(at)
	})
	const turns = float64(time.Second) / float64(500*stallFire+stallEnd)
	if most < .9*500*turns {
		t.Errorf("with an endless backlog %.0f fire in a second, a turn of 500 takes 100 ms", most)
	}
	return max(most, .9*500*turns)
}

// stalled is what a stall strikes.
type stalled struct {
	w *sim.World
	a *sim.Node
	c *costs
}

// refuse makes the broker refuse requests.
func (s *stalled) refuse(f kfake.Fault) (heal func()) {
	f.Count = -1
	fault := s.w.Cluster.Fault(f)
	return func() {
		if fault.Remove(); fault.Hits() == 0 {
			s.w.T.Error("nothing was refused")
		}
	}
}

// TestMinuteOfNothing: for a minute something stands still, or is so slow that next to nothing fires. What falls due
// from 5 s after it on is as late as before it, though a minute's backlog stands before it. The backlog drains at 90 %
// of what the engine can do beside the load, or faster. Where one partition of two stands still, the other is on time
// all the while.
func TestMinuteOfNothing(t *testing.T) {
	most := capacity(t)
	t.Logf("a partition fires %.0f a second", most)
	for _, c := range []struct {
		name       string
		partitions int32
		strike     func(s *stalled) (heal func())
	}{
		{"no transaction ends", 1, func(s *stalled) func() {
			return s.refuse(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.CoordinatorNotAvailable})
		}},
		{"state has no leader", 1, func(s *stalled) func() {
			return s.refuse(kfake.Fault{
				Keys: []kmsg.Key{kmsg.Produce}, Topic: s.w.Names.State(), Err: kerr.NotLeaderForPartition,
			})
		}},
		{"one partition of two", 2, func(s *stalled) func() {
			return s.refuse(kfake.Fault{
				Keys: []kmsg.Key{kmsg.Produce}, Topic: s.w.Names.State(), Partitions: []int32{0},
				Err: kerr.NotLeaderForPartition,
			})
		}},
		{"the broker is silent", 1, func(s *stalled) func() { s.a.Hang(); return s.a.Heal }},
		{"the process is stopped", 1, func(s *stalled) func() { s.a.Freeze(); return s.a.Thaw }},
		{"the disk is slow", 1, func(s *stalled) func() {
			s.c.store.Store(int64(15 * time.Second))
			return func() { s.c.store.Store(0) }
		}},
		{"the processor is busy", 1, func(s *stalled) func() {
			s.c.times.Store(5000)
			return func() { s.c.times.Store(1) }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { minuteOfNothing(t, c.partitions, most, c.strike) })
		})
	}
}

func minuteOfNothing(t *testing.T, partitions int32, most float64, strike func(s *stalled) (heal func())) {
	const perSec, seconds, from, to = 400, 100, 10, 70
	w, c := costing(t, 38, partitions, stallFire)
	a := w.Start("a")
	w.AwaitOwners()
	load := newSteady(w, perSec, seconds*perSec)
	load.until(0)
	a.Delay(kmsg.EndTxn, stallEnd)
	load.until(from / float64(seconds))
	heal := strike(&stalled{w, a, c})
	load.until(to / float64(seconds))
	healed := time.Now()
	heal()
	load.until(1)
	time.Sleep(time.Minute)

	if hurt := load.judge(healed, from, to, most); hurt < 50*time.Second {
		t.Errorf("it stood for %v only", hurt)
	}
}

// TestBusyProcessor: for 10 s firing takes twelve times as long, as when others take the processor, and a seventh of
// what falls due fires. Afterwards a third of what the engine can do is spare. What falls due from 5 s after it on is
// as late as before it, and the backlog drains at 90 % of that third, or faster.
func TestBusyProcessor(t *testing.T) {
	most := capacity(t)
	synctest.Test(t, func(t *testing.T) {
		const perSec, seconds, from, to = 3000, 40, 5, 15
		w, c := costing(t, 39, 1, stallFire)
		a := w.Start("a")
		w.AwaitOwners()
		load := newSteady(w, perSec, seconds*perSec)
		load.until(0)
		a.Delay(kmsg.EndTxn, stallEnd)
		load.until(from / float64(seconds))
		c.times.Store(12)
		load.until(to / float64(seconds))
		healed := time.Now()
		c.times.Store(1)
		load.until(1)
		time.Sleep(time.Minute)
		if hurt := load.judge(healed, from, to, most); hurt < 5*time.Second {
			t.Errorf("it was late by %v only", hurt)
		}
	})
}

// judge requires what a load on partition 0 must see of a stall between two of its seconds, and returns how late it
// made something. most is what a partition can fire in a second.
func (s *steady) judge(healed time.Time, from, to int, most float64) (hurt time.Duration) {
	s.w.T.Helper()
	var quiet, after, beside time.Duration
	var backlog []time.Time
	for i, d := range s.lateness() {
		at, here := s.due(i).Add(d), topics.Partition([]byte(fmt.Sprintf("k%d", i)), s.w.P) == 0
		switch second := i / s.perSec; {
		case !here:
			beside = max(beside, d)
		case second < from-1: // a second before the stall: it may be in the first turn that fails
			quiet = max(quiet, d)
		case second >= to+5:
			after = max(after, d)
		case second >= from && second < to:
			if hurt = max(hurt, d); at.After(healed) {
				backlog = append(backlog, at)
			}
		}
	}
	if bound := quiet * 3 / 2; after > bound || beside > bound {
		s.w.T.Errorf("5 s later what falls due is up to %v late, beside it %v, before %v", after, beside, quiet)
	}
	rate, spare := perSecond(backlog), most-float64(s.perSec)/float64(s.w.P)
	if rate < .9*spare {
		s.w.T.Errorf("a backlog of %d drains at %.0f/s, %.0f/s are spare", len(backlog), rate, spare)
	}
	s.w.T.Logf("quiet %v, after %v, beside %v; backlog of %d, %v late, begins %v later and drains at %.0f/s of %.0f/s",
		quiet, after, beside, len(backlog), hurt, backlog[0].Sub(healed), rate, spare)
	return hurt
}
