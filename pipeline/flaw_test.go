//go:build failpoints || flaws

package pipeline_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// flawSeeds is within how many worlds each broken engine must be caught. The
// one that hides best, apply before commit, shows itself in every fifth.
const flawSeeds = 100

// TestSuiteCatchesFlaws runs engines that are built wrong. A suite that lets
// one of them through would let a real mistake through as well.
func TestSuiteCatchesFlaws(t *testing.T) {
	for name, flaw := range pipeline.Flaws {
		t.Run(name, func(t *testing.T) {
			provoke := func(w *sim.World) { w.Chaos(2) }
			if name == "no fence" {
				provoke = muteOwner
			}
			for seed := range uint64(flawSeeds) {
				if found := flawed(t, seed, flaw, provoke); len(found) > 0 {
					t.Logf("caught by seed %d: %s", seed, found[0])
					return
				}
			}
			t.Errorf("%d worlds, and nothing was found wrong", flawSeeds)
		})
	}
}

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
			w := sim.New(t, sim.Options{Seed: seed, Partitions: 3,
				Change: func(_ string, o *pipeline.Options) { flaw(o) }})
			provoke(w)
			time.Sleep(time.Minute)
			found = w.Violations()
		})
	})
	return found
}
