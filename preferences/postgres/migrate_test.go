package postgres

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/test/services"
)

// slow opens a store whose migration waits until it is released. began counts its tries.
func slow(t *testing.T, began *atomic.Int64, release chan struct{}) *Store {
	t.Helper()
	s, err := New(Options{URL: services.PostgresDatabase(t), Within: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.migrate = func(ctx context.Context, pool *pgxpool.Pool) error {
		began.Add(1)
		select {
		case <-release:
			return migrate(ctx, pool)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s
}

// untilBegun calls a store until its migration has begun, and then twice more.
func untilBegun(t *testing.T, s *Store, began *atomic.Int64) {
	t.Helper()
	for more := 0; more < 2; {
		if began.Load() > 0 {
			more++
		}
		if err := s.Ready(t.Context()); !errors.Is(err, preferences.ErrAway) {
			t.Fatalf("while it migrates: %v", err)
		}
	}
}

// A migration may take longer than a call is bounded to. Calls that end meanwhile neither interrupt
// it nor begin it anew.
func TestMigrateSlowly(t *testing.T) {
	var began atomic.Int64
	release := make(chan struct{})
	s := slow(t, &began, release)
	untilBegun(t, s, &began)
	close(release)
	for s.Ready(t.Context()) != nil { // each call is bounded, and may be too short for it
	}
	if n := began.Load(); n != 1 {
		t.Errorf("the migration began %d times", n)
	}
}

// Close ends a migration.
func TestCloseWhileMigrating(t *testing.T) {
	var began atomic.Int64
	s := slow(t, &began, nil)
	untilBegun(t, s, &began)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Ready(t.Context()); !errors.Is(err, preferences.ErrAway) {
		t.Errorf("after Close: %v", err)
	}
}
