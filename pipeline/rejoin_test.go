package pipeline_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
)

// rejoins is how many rounds of freezing TestRejoin plays.
const rejoins = 6

// TestRejoin freezes nodes past every time-out and thaws them, several at once
// and in the middle of each other's rebalances. Every time all partitions must
// be open again, shared by all nodes, within half a minute of the last thaw:
// an assignment must not get lost, and no opening may wait for ever.
func TestRejoin(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := sim.New(t, sim.Options{Seed: seed, Partitions: 12})
				names := []string{"a", "b", "c"}
				for _, name := range names {
					w.Start(name)
				}
				shared(t, w, 3, time.Minute)
				for range rejoins {
					for range 1 + w.Rand.IntN(3) {
						n := w.Node(names[w.Rand.IntN(3)])
						still := time.Duration(1+w.Rand.IntN(18)) * time.Second
						if w.Rand.IntN(2) == 0 {
							n.Freeze()
						} else {
							n.Hang()
						}
						time.AfterFunc(still, n.Thaw)
						time.Sleep(time.Duration(w.Rand.IntN(5000)) * time.Millisecond)
					}
					w.Register(fmt.Sprintf("k%d", w.Rand.Uint32()), time.Now().Add(time.Second))
					time.Sleep(20 * time.Second)
					shared(t, w, 3, 30*time.Second)
				}
				rest(w)
			})
		})
	}
}

// shared waits until every partition is open, and n nodes own some.
func shared(t *testing.T, w *sim.World, n int, within time.Duration) {
	t.Helper()
	begin := time.Now()
	for time.Since(begin) < within {
		owners, owned := map[string]bool{}, int32(0)
		for p := range w.P {
			if o := w.Owner(p); o != nil {
				owners[o.Name] = true
				owned++
			}
		}
		if owned == w.P && len(owners) == n {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, n := range w.Nodes() {
		for _, s := range n.Engine.Partitions() {
			t.Logf("%s: %d term %d ready %v", n.Name, s.Partition, s.Term, s.Ready)
		}
	}
	t.Fatalf("not every partition is open, shared by %d, within %v", n, within)
}
