package pipeline_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
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
