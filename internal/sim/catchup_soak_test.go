//go:build soak

package sim_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestComeBackMany is TestComeBack with 10,000 triggers and an outage of a week.
func TestComeBackMany(t *testing.T) {
	const week = 7*24*time.Hour - time.Hour
	for name, o := range map[string]outage{
		"fire_all":  {policy: "fire_all", triggers: 10_000, down: week, most: 2, rate: 900},
		"fire_once": {policy: "fire_once", triggers: 10_000, down: week, most: 1000, rate: 900},
		"skip":      {policy: "skip", triggers: 10_000, down: week, most: 1000, rate: 900},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, o.run) })
	}
}
