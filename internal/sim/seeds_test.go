package sim_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/waterclock/waterclock/internal/sim"
)

// TestSeeds lives 200 short lives with all faults, a quarter as many under
// -short. WATERCLOCK_TEST_SEED is the first seed, WATERCLOCK_TEST_SEEDS how many.
func TestSeeds(t *testing.T) {
	first, n := seeds(200)
	for i := range uint64(n) {
		t.Run(fmt.Sprint("seed ", first+i), func(t *testing.T) {
			t.Parallel()
			live(t, sim.Plan{Seed: first + i})
		})
	}
}

// live fails with the story of a life that broke the contract.
func live(t *testing.T, p sim.Plan) {
	var o *sim.Outcome
	synctest.Test(t, func(t *testing.T) { o = sim.Live(t, p) })
	if len(o.Violations) == 0 {
		return
	}
	t.Errorf("waterclock sim %v\n%s", o.Plan, o.Tale())
}
