package sim_test

import (
	"testing"
	"testing/synctest"

	"github.com/waterclock/waterclock/internal/sim"
)

func TestZZ(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			o := sim.Live(t, sim.Plan{Seed: seed, Days: 0.01, Triggers: 20, Partitions: 1, Faults: []string{"truncated-log"}})
			t.Log(o.Tale())
		})
	}
}
