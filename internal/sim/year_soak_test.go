//go:build soak

package sim_test

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
)

// TestYear runs one fleet after another through a year, until the soak's time is up.
func TestYear(t *testing.T) {
	soak, err := time.ParseDuration(os.Getenv("WATERCLOCK_TEST_SOAK"))
	if err != nil {
		soak = time.Minute
	}
	first, _ := seeds(1)
	for begin, seed := time.Now(), first; seed == first || time.Since(begin) < soak; seed++ {
		ok := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { liveThrough(t, seed, 366, 3*len(sim.Rules)) })
		})
		if !ok || os.Getenv("WATERCLOCK_TEST_SEED") != "" {
			return
		}
	}
}
