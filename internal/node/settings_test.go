package node

import (
	"testing"

	"github.com/waterclock/waterclock/internal/config"
)

// The limit that a refusal names, limits.max_pending, is a setting.
func TestMaxPendingIsASetting(t *testing.T) {
	for text, want := range map[string]int64{"": 5_000_000, "7": 7, "unlimited": -1} {
		var env []string
		if text != "" {
			env = append(env, "WATERCLOCK_LIMITS_MAX_PENDING="+text)
		}
		c, err := config.Load(config.Options{Env: env})
		if err != nil {
			t.Fatal(err)
		}
		if got := maxPending(c); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
