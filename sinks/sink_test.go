package sinks_test

import (
	"context"
	"testing"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/embedded"
)

// sink is an embedded store that a test can break. It can leave its offsets to the group, as
// Cassandra does.
type sink struct {
	*embedded.Store
	groupOffsets bool
	apply        func(ctx context.Context, batch []sinks.EventRecord,
		next func(context.Context, []sinks.EventRecord) error) error
}

func (s *sink) OwnsOffsets() bool { return !s.groupOffsets }

func (s *sink) Apply(ctx context.Context, batch []sinks.EventRecord) error {
	if s.apply != nil {
		return s.apply(ctx, batch, s.Store.Apply)
	}
	return s.Store.Apply(ctx, batch)
}

func newSink(t testing.TB) *sink {
	t.Helper()
	s, err := embedded.Open(embedded.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &sink{Store: s}
}
