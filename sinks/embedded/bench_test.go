package embedded

import (
	"testing"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/sinktest"
)

func BenchmarkApply(b *testing.B) {
	sinktest.Bench(b, func(t testing.TB) sinks.History {
		return openTest(t,
			Options{Dir: t.TempDir(), SweepEvery: -1})
	})
}

// BenchmarkBytes measures the disk space of an event after compaction, with its share of the
// state and the minute.
func BenchmarkBytes(b *testing.B) {
	for b.Loop() {
		s, g := openTest(b, Options{Dir: b.TempDir(), SweepEvery: -1}), sinktest.NewStream(3)
		events := 0
		for range 50 {
			batch := g.Batch()
			events += len(batch)
			apply(b, s, batch...)
		}
		used := uint64(0)
		for _, table := range []byte{tableEvents, tableByAge, tableState, tableMinute} {
			lo, hi := []byte{table}, after([]byte{table})
			if err := s.db.Compact(b.Context(), lo, hi, false); err != nil {
				b.Fatal(err)
			}
			n, err := s.db.EstimateDiskUsage(lo, hi)
			if err != nil {
				b.Fatal(err)
			}
			used += n
			b.ReportMetric(float64(n)/float64(events), string(table)+"-B/event")
		}
		b.ReportMetric(float64(used)/float64(events), "B/event")
	}
}

// BenchmarkNotifications reads a page of a hundred notifications of a user who has 10,000, among
// a million.
func BenchmarkNotifications(b *testing.B) {
	sinktest.BenchNotifications(b, func(t testing.TB) sinks.History {
		return openTest(t, Options{Dir: t.TempDir(), SweepEvery: -1})
	}, 10_000, 1_000_000)
}
