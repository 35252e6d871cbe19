package pipeline_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// flawSeeds is within how many worlds each broken engine must be caught.
const flawSeeds = 40

// TestSuiteCatchesFlaws runs engines that are built wrong. A suite that lets
// one of them through would let a real mistake through as well.
func TestSuiteCatchesFlaws(t *testing.T) {
	for name, flaw := range pipeline.Flaws {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(flawSeeds) {
				if found := flawed(t, seed, flaw); len(found) > 0 {
					t.Logf("caught by seed %d: %s", seed, found[0])
					return
				}
			}
			t.Errorf("%d worlds, and nothing was found wrong", flawSeeds)
		})
	}
}

func flawed(t *testing.T, seed uint64, flaw func(*pipeline.Options)) (found []string) {
	t.Helper()
	t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := sim.New(t, sim.Options{Seed: seed, Partitions: 3, Change: func(_ string, o *pipeline.Options) { flaw(o) }})
			w.Chaos(2)
			time.Sleep(time.Minute)
			found = w.Violations()
		})
	})
	return found
}
