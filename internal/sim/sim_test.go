package sim_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
)

// TestDay lets a day pass: 5,000 timers spread over it, a clean restart, a
// crash and a power loss on the way.
func TestDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 1})
		w.Start("a")
		w.AwaitOwners()
		begin := time.Now()
		w.Flood(5000, func(i int) (string, time.Time) {
			return fmt.Sprintf("t%d", i), begin.Add(time.Duration(w.Rand.Int64N(int64(24 * time.Hour))))
		})
		for i := range 1000 {
			if i%5 == 0 {
				w.Cancel(fmt.Sprintf("t%d", i))
			}
		}
		for _, end := range []func(string){func(n string) { _ = w.Stop(n) }, w.Kill, w.PowerLoss} {
			time.Sleep(6 * time.Hour)
			end("a")
			w.Start("a")
		}
		time.Sleep(6*time.Hour + time.Minute)
		w.CheckInvariants()
	})
}
