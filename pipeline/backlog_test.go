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

// steady is a load of triggers that fall due at a constant rate on one partition.
type steady struct {
	w      *sim.World
	from   time.Time
	perSec int
	n      int
}

// newSteady registers n triggers. They fall due from a minute from now on.
func newSteady(w *sim.World, perSec, n int) *steady {
	s := &steady{w: w, from: time.Now().Add(time.Minute), perSec: perSec, n: n}
	w.SendAll(n, func(i int) (key, body string) {
		return fmt.Sprintf("k%d", i), fmt.Sprintf(`{"op":"register","fire_at":%q}`,
			s.due(i).UTC().Format(time.RFC3339Nano))
	})
	return s
}

func (s *steady) due(i int) time.Time {
	return s.from.Add(time.Duration(i) * time.Second / time.Duration(s.perSec)).Truncate(time.Millisecond)
}

// until sleeps until the trigger with this part of the load falls due.
func (s *steady) until(part float64) { time.Sleep(time.Until(s.due(int(part * float64(s.n))))) }

// lateness reads every due event: how long after its due time each was appended.
func (s *steady) lateness() []time.Duration {
	s.w.T.Helper()
	late := make([]time.Duration, s.n)
	due := s.w.Tail(s.w.Names.Due("default"))
	for left := s.n; left > 0; {
		r := due.Take(1)[0]
		if string(r.Key[:1]) != "k" {
			continue // of another load
		}
		left--
		var i int
		if _, err := fmt.Sscanf(string(r.Key), "k%d", &i); err != nil || late[i] != 0 {
			s.w.T.Fatalf("%s: %v, or twice", r.Key, err)
		}
		late[i] = max(1, r.Timestamp.Sub(s.due(i)))
	}
	return late
}

// most is the highest lateness of what falls due between two parts of the load.
func (s *steady) most(late []time.Duration, from, to float64) (most time.Duration) {
	for _, d := range late[int(from*float64(s.n)):int(to*float64(s.n))] {
		most = max(most, d)
	}
	return most
}

// TestSlowBroker: a broker that needs 100 ms to end a transaction makes what falls due late by some turns. It does
// not make turns small, which would keep the partition behind. Firing uses a twelfth of a core. Nor do a few triggers
// of priority high make turns too small, for which each turn is shorter.
func TestSlowBroker(t *testing.T) {
	for _, high := range []int{0, 10} {
		t.Run(fmt.Sprint(high, " of priority high a second"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := costing(t, 36, 1, 20*time.Microsecond)
				n := w.Start("a")
				w.AwaitOwners()
				load := newSteady(w, 4000, 40_000)
				w.SendAll(10*high, func(i int) (key, body string) {
					at := load.from.Add(time.Duration(i) * time.Second / time.Duration(high))
					return fmt.Sprint("high", i), fmt.Sprintf(`{"op":"register","fire_at":%q,"priority":"high"}`,
						at.UTC().Format(time.RFC3339Nano))
				})
				load.until(0)
				n.Delay(kmsg.EndTxn, 100*time.Millisecond)
				load.until(1)
				time.Sleep(10 * time.Second)
				late := load.lateness()
				if most := load.most(late, .5, 1); most > 500*time.Millisecond {
					t.Errorf("after 5 s at 4,000/s what falls due is up to %v late", most)
				}
			})
		})
	}
}

// TestBrokerStands: the broker ends no transaction for 8 s. What falls due afterwards is on
// time within 5 s, and what fell due meanwhile follows.
func TestBrokerStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 37, Partitions: 1})
		n := w.Start("a")
		w.AwaitOwners()
		load := newSteady(w, 1000, 60_000)
		load.until(1. / 6)
		n.Delay(kmsg.EndTxn, 8*time.Second)
		time.Sleep(time.Second)
		n.Delay(kmsg.EndTxn, 30*time.Millisecond) // slow from then on
		load.until(1)
		time.Sleep(30 * time.Second)
		late := load.lateness()
		if most := load.most(late, 0, .16); most > 200*time.Millisecond {
			t.Errorf("before, what falls due is up to %v late", most)
		}
		if most := load.most(late, .17, .35); most < 6*time.Second {
			t.Errorf("the broker stood for %v only", most)
		}
		if most := load.most(late, 25./60, 1); most > 500*time.Millisecond {
			t.Errorf("5 s later what falls due is up to %v late", most)
		}
	})
}

// TestMinuteOfNothing: for a minute no transaction of a partition ends, or topic state takes nothing. What falls due
// from 5 s after it on is on time, though a minute's backlog stands before it. Where that happens to one partition of
// two, the other is on time all the while.
func TestMinuteOfNothing(t *testing.T) {
	for _, c := range []struct {
		name       string
		partitions int32
		fault      func(w *sim.World) kfake.Fault
	}{
		{"no transaction ends", 1, func(*sim.World) kfake.Fault {
			return kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.CoordinatorNotAvailable}
		}},
		{"state has no leader", 1, func(w *sim.World) kfake.Fault {
			return kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: w.Names.State(), Err: kerr.NotLeaderForPartition}
		}},
		{"one partition of two", 2, func(w *sim.World) kfake.Fault {
			return kfake.Fault{
				Keys: []kmsg.Key{kmsg.Produce}, Topic: w.Names.State(), Partitions: []int32{0},
				Err: kerr.NotLeaderForPartition,
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := sim.New(t, sim.Options{Seed: 38, Partitions: c.partitions})
				n := w.Start("a")
				w.AwaitOwners()
				const seconds = 100
				load := newSteady(w, 500, seconds*500)
				load.until(.1)
				fault := c.fault(w)
				fault.Count = -1
				stall := w.Cluster.Fault(fault)
				time.Sleep(time.Minute)
				if stall.Remove(); stall.Hits() == 0 {
					t.Fatal("nothing was refused")
				}
				n.Delay(kmsg.EndTxn, 30*time.Millisecond) // a backlog drains by turns, and not at once
				load.until(1)
				time.Sleep(time.Minute)
				late := load.lateness()
				var hurt []time.Duration
				for i, d := range late {
					second := i / 500
					switch on := topics.Partition([]byte(fmt.Sprintf("k%d", i)), c.partitions); {
					case on == 0 && second >= 10 && second < 70:
						hurt = append(hurt, d)
					case on != 0 || second < 9 || second >= 75: // 9: it may be in the first turn that fails
						if d > 500*time.Millisecond {
							t.Fatalf("what falls due on partition %d in second %d is %v late", on, second, d)
						}
					}
				}
				if most := slices.Max(hurt); most < 50*time.Second {
					t.Errorf("it stood for %v only", most)
				}
			})
		})
	}
}
