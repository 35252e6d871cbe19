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
				o.Group, o.TakeOverGroup = "other", "waterclock.engine"
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

// TestForeignGroupLongAfterACommand: the owner has fired for long, and read
// nothing meanwhile. A node of another group finds all the same whose the
// partition is, before it disturbs it.
func TestForeignGroupLongAfterACommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1, Change: func(name string, o *pipeline.Options) {
			if name == "b" {
				o.Group = "other"
			}
		}})
		a := w.Start("a")
		w.AwaitOwners()
		begin := time.Now()
		w.Flood(20_000, func(i int) (string, time.Time) {
			return fmt.Sprintf("k%d", i), begin.Add(time.Hour + time.Duration(i)*10*time.Millisecond)
		})
		w.Register("late", begin.Add(3*time.Hour))
		time.Sleep(2 * time.Hour)
		b := w.Start("b")
		if err := b.Wait(); !errors.Is(err, pipeline.ErrForeignGroup) {
			t.Errorf("the second group's node said %v", err)
		}
		w.Kill("b")
		time.Sleep(2 * time.Hour)
		for _, s := range a.Engine.Partitions() {
			if s.Refused != "" {
				t.Errorf("the owner was stopped: refused %q: %s", s.Refused, s.RefusedBecause)
			}
		}
		w.RequireDelivered("late", 1)
	})
}
