package node

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/preferences"
)

// sweeping is a store that counts the sweeps.
type sweeping struct {
	preferences.Store

	answers []int // results of the calls, in order; -1 is an error
	calls   []time.Duration
	begun   time.Time
}

func (s *sweeping) Sweep(_ context.Context, now time.Time, _ int) (int, error) {
	s.calls = append(s.calls, now.Sub(s.begun))
	n := 0
	if len(s.answers) > 0 {
		n, s.answers = s.answers[0], s.answers[1:]
	}
	if n < 0 {
		return 0, preferences.ErrAway
	}
	return n, nil
}

// Claims are swept at the start, at once while more are left, and then every minute.
func TestSweepClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sweeping{answers: []int{-1, sweepMost, 3}, begun: time.Now()}
		ctx, cancel := context.WithTimeout(t.Context(), 70*time.Second)
		defer cancel()
		sweepClaims(ctx, s, slog.New(slog.DiscardHandler))
		want := []time.Duration{0, 5 * time.Second, 5 * time.Second, 65 * time.Second}
		if len(s.calls) != len(want) {
			t.Fatalf("swept at %v, want %v", s.calls, want)
		}
		for i := range want {
			if s.calls[i] != want[i] {
				t.Fatalf("swept at %v, want %v", s.calls, want)
			}
		}
	})
}
