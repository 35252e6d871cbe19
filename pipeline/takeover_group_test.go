package pipeline_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// TestTakeOverThatTakesLong: a group is taken over while its nodes run, and the
// new owner has much to restore. The old one must not open the partition again
// meanwhile.
func TestTakeOverThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1, Change: func(name string, o *pipeline.Options) {
			if name == "c" {
				o.Group, o.TakeOverGroup = "other", "engine"
			}
		}})
		slow := true
		w.OnStep(func(node string, _ int32, step string) {
			if node == "c" && step == string(pipeline.StepRestore) && slow {
				slow = false
				time.Sleep(10 * time.Second)
			}
		})
		a := w.Start("a")
		w.AwaitOwners()
		for i := range 120 {
			w.Register(fmt.Sprintf("k%d", i), time.Now().Add(time.Duration(10+i)*time.Second))
		}
		time.Sleep(20 * time.Second)
		c := w.Start("c")
		w.AwaitOwners()
		time.Sleep(3 * time.Minute)
		for _, n := range []*sim.Node{a, c} {
			for _, s := range n.Engine.Partitions() {
				if s.Refused != "" {
					t.Errorf("%s: refused %q: %s", n.Name, s.Refused, s.RefusedBecause)
				}
			}
		}
		for i := range 120 {
			w.RequireDelivered(fmt.Sprintf("k%d", i), 1)
		}
		w.Kill("c")
		ended := make(chan error, 1)
		go func() { ended <- a.Wait() }()
		select {
		case err := <-ended:
			if !errors.Is(err, pipeline.ErrForeignGroup) {
				t.Errorf("the node that was fenced ended with %v", err)
			}
		case <-time.After(time.Second):
			t.Error("the node that was fenced still runs")
		}
	})
}
