package sinks

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestPatience: a rebuild outlasts a store that does not answer for a while, and no longer.
func TestPatience(t *testing.T) {
	damaged := errors.New("damaged")
	for _, c := range []struct {
		name   string
		away   time.Duration
		then   error
		want   error
		within time.Duration
	}{
		{"it answers at once", 0, nil, nil, 0},
		{"it is away for a minute", time.Minute, nil, nil, time.Minute + 10*time.Second},
		{"it stays away", time.Hour, nil, ErrUnavailable, patience + 10*time.Second},
		{"it comes back damaged", 5 * time.Second, damaged, damaged, 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			err := patiently(t.Context(), func() error {
				if time.Since(began) < c.away {
					return fmt.Errorf("%w: timed out", ErrUnavailable)
				}
				return c.then
			})
			if took := time.Since(began); !errors.Is(err, c.want) || took < min(c.away, patience) || took > c.within {
				t.Errorf("%s: %v after %s", c.name, err, took)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := patiently(ctx, func() error { return ErrUnavailable }); !errors.Is(err, ErrUnavailable) {
		t.Errorf("ended: %v", err)
	}
}
