package pipeline_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
)

// A partition in which nothing happens is not late.
func TestIdleIsNotOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		n := w.Start("a")
		w.AwaitOwners()
		w.Register("k", time.Now().Add(24*time.Hour))
		time.Sleep(time.Second)
		for range 20 * 60 {
			time.Sleep(time.Second)
			if s := n.Engine.Partitions()[0]; s.OldestOverdue > 0 {
				t.Fatalf("it says that something has been due for %v", s.OldestOverdue)
			}
		}
	})
}
