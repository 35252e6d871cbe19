//go:build soak

package sim_test

import (
	"fmt"
	"testing"

	"github.com/waterclock/waterclock/internal/sim"
)

// TestTenThousand is TestSeeds with 10,000 seeds. WATERCLOCK_TEST_SEED and WATERCLOCK_TEST_SEEDS
// select a part of them.
func TestTenThousand(t *testing.T) {
	first, n := seeds(10_000)
	for i := range uint64(n) {
		t.Run(fmt.Sprint("seed ", first+i), func(t *testing.T) {
			t.Parallel()
			alone(t, sim.Plan{Seed: first + i})
		})
	}
}
