package heap

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

func TestPercent(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live, scanned, least uint64
		want                 int
	}{
		{0, 0, LeastGrowth, mostPercent},
		{20 * mib, 10 * mib, LeastGrowth, mostPercent},
		{100 * mib, 100 * mib, LeastGrowth, mostPercent},
		{256 * mib, 10 * mib, LeastGrowth, 25}, // little but caches: the least growth
		{256 * mib, 10 * mib, LeastGrowthOfDev, 18},
		{600 * mib, 75 * mib, LeastGrowth, 25},   // caches
		{4000 * mib, 300 * mib, LeastGrowth, 15}, // large caches
		{40_000 * mib, 10 * mib, LeastGrowth, leastPercent},
		{1000 * mib, 900 * mib, LeastGrowth, 180}, // a large index
		{64, 1 << 40, LeastGrowth, mostPercent},   // nonsense
	} {
		if got := percent(c.live, c.scanned, c.least); got != c.want {
			t.Errorf("percent(%d, %d, %d) is %d, want %d", c.live, c.scanned, c.least, got, c.want)
		}
	}
}

// TestCachesDoNotGrowTheHeap: what the collector does not look into lets the
// heap grow no further.
func TestCachesDoNotGrowTheHeap(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	const cache = 512 << 20
	blocks := make([][]byte, cache>>15)
	for i := range blocks {
		blocks[i] = make([]byte, 32<<10)
	}
	runtime.GC()
	for _, least := range []int64{LeastGrowth, LeastGrowthOfDev} {
		newManager(uint64(least)).set()
		s := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
		metrics.Read(s)
		if grows := int64(s[0].Value.Uint64()) - cache; grows < least*9/10 || grows > least*5/4 {
			t.Errorf("beside %d MiB of blocks the heap may have %d MiB", cache>>20, grows>>20)
		}
	}
	runtime.KeepAlive(blocks)
}

// TestAfterEach: every collection is heard of.
func TestAfterEach(t *testing.T) {
	collected := make(chan struct{}, 1)
	afterEach(collected)
	for range 3 {
		runtime.GC()
		<-collected
	}
}
