package statestore

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Bounds in bytes for a pending trigger (docs/testing.md F40): memory without the fixed part,
// caches and memtables; and disk without its compressed payload.
const (
	maxMemoryPerPending = 8
	maxDiskPerPending   = 60
)

// TestPendingCosts makes a store four times larger and measures the growth of Go's heap and of
// the disk.
func TestPendingCosts(t *testing.T) {
	n := 60_000 // at this size, a memtable that Pebble keeps for reuse is 2 B of each trigger
	if os.Getenv("WATERCLOCK_TEST_SOAK") != "" {
		n = 1_000_000
	}
	s, err := Open(Options{Dir: t.TempDir() + "/p0", MemTableBytes: 512 << 10, CacheBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Filled(); err != nil {
		t.Fatal(err)
	}
	fill(t, s, 0, n)
	compacted(t, s.db) // no flush may run: one holds as much memory as all triggers
	before := heapAtRest()
	fill(t, s, n, 5*n)
	disk := compacted(t, s.db) / float64(5*n)
	perPending := float64(heapAtRest()-before) / float64(4*n)
	t.Logf("%d more pending: %.1f B of heap each", 4*n, perPending)
	if perPending > maxMemoryPerPending {
		t.Errorf("a pending trigger costs %.1f B of memory, the most is %d", perPending, maxMemoryPerPending)
	}
	payload := payloadOnly(t, 5*n) / float64(5*n)
	t.Logf("%.1f B of disk each, %.1f of them the payload", disk, payload)
	if disk > payload+maxDiskPerPending {
		t.Errorf("a pending trigger costs %.1f B of disk beside its payload of %.1f, the most is %d", disk-payload,
			payload, maxDiskPerPending)
	}
}

func fill(tb testing.TB, s *Store, from, to int) {
	tb.Helper()
	b := s.NewBatch()
	for i := from; i < to; i++ {
		b.Put(nil, benchRow(i))
		if i%benchTurn == benchTurn-1 || i == to-1 {
			if err := b.Commit(); err != nil {
				tb.Fatal(err)
			}
		}
	}
}

// heapAtRest returns the smallest heap within a second, because Pebble frees what it has
// compacted in the background.
func heapAtRest() int64 {
	least := heap()
	for range 20 {
		time.Sleep(50 * time.Millisecond)
		least = min(least, heap())
	}
	return least
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // this run also frees what the finalizers of the first run released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkMemory measures the growth of the process's memory, as the operating system counts it,
// from 1 to 5 million pending triggers.
//
//	go test -run - -bench BenchmarkMemory -benchtime 1x ./statestore
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		s := mustOpenBench(b)
		fill(b, s, 0, *benchKeys)
		h, r := heap(), resident(b)
		fill(b, s, *benchKeys, 5**benchKeys)
		more := float64(4 * *benchKeys)
		b.ReportMetric(float64(heap()-h)/more, "heap-B/pending")
		b.ReportMetric(float64(resident(b)-r)/more, "rss-B/pending")
		b.ReportMetric(float64(s.Stats().FilterBytes)/(5*float64(*benchKeys)), "filter-B/pending")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(0, "ns/op")
}

// resident returns the resident memory of this process.
func resident(tb testing.TB) int64 {
	tb.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		tb.Skip(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// payloadOnly stores the values alone under short ascending keys.
func payloadOnly(tb testing.TB, n int) float64 {
	tb.Helper()
	s, err := Open(Options{Dir: tb.TempDir() + "/p0"})
	if err != nil {
		tb.Fatal(err)
	}
	defer s.Close()
	for i := range n {
		if err := s.db.Set(strconv.AppendInt(nil, int64(1e9+i), 16), benchRow(i).Value, pebble.NoSync); err != nil {
			tb.Fatal(err)
		}
	}
	return compacted(tb, s.db)
}

func compacted(tb testing.TB, db *pebble.DB) float64 {
	tb.Helper()
	if err := db.Flush(); err != nil {
		tb.Fatal(err)
	}
	if err := db.Compact(tb.Context(), []byte{0}, []byte{0xff}, true); err != nil {
		tb.Fatal(err)
	}
	m := db.Metrics().Total()
	return float64(m.TablesSize)
}
