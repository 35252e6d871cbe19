package embedded

import (
	"testing"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/sinktest"
)

func TestConformance(t *testing.T) {
	sinktest.Run(t, func(t testing.TB, c sinktest.Config) sinks.History {
		return openTest(t, Options{Dir: t.TempDir(), Retention: c.Retention})
	})
}

func openTest(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
