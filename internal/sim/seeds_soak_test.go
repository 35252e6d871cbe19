//go:build soak

package sim_test

import (
	"fmt"
	"testing"

	"github.com/waterclock/waterclock/internal/sim"
)

// TestSeeds lives 200 weeks with all faults. It is not in `make test`: about one
// life in 400 stands still (docs/simulator.md), and would hold all tests up.
// WATERCLOCK_TEST_SEED is the first seed, WATERCLOCK_TEST_SEEDS how many.
func TestSeeds(t *testing.T) {
	first, n := seeds(200)
	for i := range uint64(n) {
		t.Run(fmt.Sprint("seed ", first+i), func(t *testing.T) {
			t.Parallel()
			live(t, sim.Plan{Seed: first + i})
		})
	}
}

// TestTenThousand goes on where TestSeeds ends, to seed 10,000.
// WATERCLOCK_TEST_SEED and WATERCLOCK_TEST_SEEDS choose a part of them.
func TestTenThousand(t *testing.T) {
	first, n := seeds(10_000)
	for i := range uint64(n) {
		t.Run(fmt.Sprint("seed ", first+i), func(t *testing.T) {
			t.Parallel()
			live(t, sim.Plan{Seed: first + i})
		})
	}
}
