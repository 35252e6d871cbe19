package pipeline_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// TestFloodOfUnknownCancels: cancels and erases of keys that nobody registered
// push out none of what has fired, so a producer's late retry stays a duplicate.
func TestFloodOfUnknownCancels(t *testing.T) {
	for _, op := range []string{"cancel", "erase"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := sim.New(t, sim.Options{Partitions: 1, Change: func(_ string, o *pipeline.Options) {
					o.MaxDone = 60
					pipeline.LimitUnknown(o, 10)
				}})
				n := w.Start("a")
				w.AwaitOwners()
				at := time.Now().Add(10 * time.Second)
				for i := range 40 {
					w.Register(fmt.Sprint("k", i), at)
				}
				time.Sleep(20 * time.Second)
				w.Send("late", fmt.Sprintf(`{"op":%q}`, op))
				w.Register("late", time.Now().Add(25*time.Second)) // there is more to know of it by now
				for i := range 500 {
					w.Send(fmt.Sprint("nobody", i), fmt.Sprintf(`{"op":%q}`, op))
				}
				time.Sleep(time.Second)
				// what a turn remembers counts from the next one on
				w.Send("nobody at last", fmt.Sprintf(`{"op":%q}`, op))
				time.Sleep(10 * time.Second)
				if done := n.Engine.Partitions()[0].Done; done > 40+10+1 {
					t.Errorf("%d done records are remembered, %d unknown evicted", done, w.Heard("evicted"))
				}
				for i := range 40 {
					w.Register(fmt.Sprint("k", i), at) // a late retry
				}
				time.Sleep(20 * time.Second)
				for i := range 40 {
					w.RequireDelivered(fmt.Sprint("k", i), 1)
				}
				w.RequireDelivered("late", 1)
				if w.Heard("evicted") < 480 {
					t.Errorf("%d records were dropped early", w.Heard("evicted"))
				}
			})
		})
	}
}

// newUnknown is a world in which 40 triggers have fired at that time, with room for 60
// done records, of which 10 may be of unknown keys.
func newUnknown(t *testing.T) (w *sim.World, at time.Time) {
	t.Helper()
	w = sim.New(t, sim.Options{Partitions: 1, Change: func(_ string, o *pipeline.Options) {
		o.MaxDone = 60
		pipeline.LimitUnknown(o, 10)
	}})
	w.Start("a")
	w.AwaitOwners()
	at = time.Now().Add(10 * time.Second)
	for i := range 40 {
		w.Register(fmt.Sprint("k", i), at)
	}
	time.Sleep(20 * time.Second)
	return w, at
}

// TestFloodOfUnknownTwice: two commands about a key that nobody registered make
// it no better known than one does.
func TestFloodOfUnknownTwice(t *testing.T) {
	for _, ops := range [][]string{{"cancel", "erase"}, {"erase", "erase"}, {"erase", "cancel"}} {
		t.Run(fmt.Sprint(ops), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, at := newUnknown(t)
				for i := range 100 {
					for _, op := range ops {
						w.Send(fmt.Sprint("nobody", i), fmt.Sprintf(`{"op":%q}`, op))
						time.Sleep(200 * time.Millisecond) // a turn of its own
					}
				}
				for i := range 40 {
					w.Register(fmt.Sprint("k", i), at) // a late retry
				}
				time.Sleep(20 * time.Second)
				for i := range 40 {
					w.RequireDelivered(fmt.Sprint("k", i), 1)
				}
			})
		})
	}
}

// TestFloodOfUnknownOverOwners: the keys that earlier owners remembered count in the
// budget of the next one. Several budgets together would push out what has fired.
func TestFloodOfUnknownOverOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, at := newUnknown(t)
		for owner := range 6 {
			for i := range 10 {
				w.Send(fmt.Sprint("nobody", owner, "-", i), `{"op":"cancel"}`)
				time.Sleep(200 * time.Millisecond) // a turn of its own
			}
			time.Sleep(5 * time.Second)
			w.Kill("a")
			w.Start("a")
			w.AwaitOwners()
		}
		for i := range 40 {
			w.Register(fmt.Sprint("k", i), at) // a late retry
		}
		time.Sleep(20 * time.Second)
		for i := range 40 {
			w.RequireDelivered(fmt.Sprint("k", i), 1)
		}
	})
}
