package pipeline_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/trigger"
)

// TestReadWhatWasSeen: who reads a due event, and then asks for its trigger, is
// not told that it is still pending, however long the store takes to follow.
func TestReadWhatWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		w.OnStep(func(_ string, _ int32, step string) {
			if step == string(pipeline.StepCommitted) {
				time.Sleep(time.Second)
			}
		})
		n := w.Start("a")
		w.AwaitOwners()
		w.Register("k", time.Now().Add(10*time.Second))
		for len(w.Dump(w.Names.Due("default"))) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		s, err := n.Engine.Get(t.Context(), "k")
		if err != nil || s == nil || s.Status != trigger.Fired {
			t.Errorf("its due event is there, and it is %+v, %v", s, err)
		}
	})
}
