package pipeline_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// TestMutedOwner: the engine as it is built is fenced where those without a
// fence are caught.
func TestMutedOwner(t *testing.T) {
	if found := flawed(t, 1, func(*pipeline.Options) {}, muteOwner); len(found) > 0 {
		t.Error(found)
	}
}

// muteOwner makes an owner that has lost its partitions, does not know, and can
// write to them all the same. Chaos alone makes one too seldom.
func muteOwner(w *sim.World) {
	w.Start("a")
	w.AwaitOwners()
	for i := range 200 {
		w.Register(fmt.Sprint("k", i), time.Now().Add(time.Duration(i)*200*time.Millisecond))
	}
	w.Start("b") // takes over when the session of a is at its end
	time.Sleep(5 * time.Second)
	w.Node("a").Mute()
	time.Sleep(30 * time.Second)
	w.Node("a").Heal()
}

func flawed(t *testing.T, seed uint64, flaw func(*pipeline.Options), provoke func(*sim.World)) (found []string) {
	t.Helper()
	t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := sim.New(t, sim.Options{
				Seed: seed, Partitions: 3,
				Change: func(_ string, o *pipeline.Options) { flaw(o) },
			})
			provoke(w)
			time.Sleep(time.Minute)
			found = w.Violations()
		})
	})
	return found
}
