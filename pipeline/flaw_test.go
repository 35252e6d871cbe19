//go:build failpoints || flaws

package pipeline_test

import (
	"testing"

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
