package pipeline_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// TestFloodOverBudget: a backlog of cancels of keys that nobody registered is
// forgotten as fast as it is read, so that what is remembered stays near its bound.
func TestFloodOverBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget, turn, flood = 100, 5000, 30_000
		w := sim.New(t, sim.Options{Partitions: 1, Change: func(_ string, o *pipeline.Options) {
			o.MaxTurnRecords = turn
			pipeline.LimitUnknown(o, budget)
		}})
		w.Start("a")
		w.AwaitOwners()
		if err := w.Stop("a"); err != nil {
			t.Fatal(err)
		}
		for i := range flood {
			w.Send(fmt.Sprint("nobody", i), `{"op":"cancel"}`)
		}
		n := w.Start("a")
		w.AwaitOwners()
		most := int64(0)
		for range 2000 {
			time.Sleep(time.Millisecond)
			for _, s := range n.Engine.Partitions() {
				most = max(most, s.Done)
			}
		}
		if most > budget+2*turn {
			t.Errorf("%d are remembered, %d may be", most, budget)
		}
	})
}
