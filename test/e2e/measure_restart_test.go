//go:build soak

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/built"
)

// What a process may take with so many pending (docs/testing.md F40), beyond an empty
// one: caches, memtables and what a burst of commands leaves to the collector,
// and for each trigger far less than the trigger.
const (
	maxFixedMemory        = 768 << 20 // with 4 partitions
	maxMemoryPerPartition = 192 << 20 // of the 12 next ones; more than 16 share what 16 have (internal/memory)
	maxMemoryPerPending   = 32
)

// TestMeasureRestart kills a node with many triggers pending and starts it
// again on its disk, then on a wiped one. It has 4 partitions, or as many as
// WATERCLOCK_BENCH_PARTITIONS says.
func TestMeasureRestart(t *testing.T) {
	t.Run("kafka", func(t *testing.T) {
		c := newCluster(t, partitionCount(4))
		dir := t.TempDir()
		n := c.node(t, "node", dir)
		measureRestart(t, "kafka", n, c.brokers, c.prefix, filepath.Join(dir, "store"))
	})
	t.Run("embedded", func(t *testing.T) {
		kafka, dir := built.FreeAddr(t), filepath.Join(t.TempDir(), "data")
		n := start(t, "dev", "dev", "--kafka-listen", kafka, "--data-dir", dir,
			"--topics-partitions", fmt.Sprint(partitionCount(4)))
		measureRestart(t, "embedded", n, []string{kafka}, "waterclock.", filepath.Join(dir, "store"))
	})
}

func measureRestart(t *testing.T, name string, n *process, brokers []string, prefix, store string) {
	n.ready(time.Minute)
	figures := map[string]any{
		"pending": pendingCount(), "partitions": partitionCount(4),
		"empty_rss_bytes": n.metric("process_resident_memory_bytes"),
	}
	begin, keep := time.Now(), func() {}
	if name == "kafka" && pendingCount() > 10_000_000 {
		keep = dropDecided(t, brokers, prefix)
	}
	fill(t, brokers, prefix, pendingCount(), n)
	keep()
	figures["fill_s"], figures["store_bytes"] = seconds(time.Since(begin)), sizeOf(t, store)
	figures["pending_rss_bytes"], figures["pending_heap_bytes"] = n.metric("process_resident_memory_bytes"),
		n.metric("go_memstats_heap_inuse_bytes")
	if more, most := n.metric("process_resident_memory_bytes")-figures["empty_rss_bytes"].(float64),
		float64(maxFixedMemory+maxMemoryPerPartition*min(max(partitionCount(4)-4, 0), 12)+
			maxMemoryPerPending*pendingCount()); more > most {
		t.Errorf("%d pending take %.0f bytes of memory, the most is %.0f", pendingCount(), more, most)
	}
	time.Sleep(time.Minute) // to compact, and to give memory back
	figures["minute_later_rss_bytes"], figures["minute_later_store_bytes"] = n.metric("process_resident_memory_bytes"),
		sizeOf(t, store)
	load := startPulse(t, brokers, prefix, 200)
	time.Sleep(3 * time.Second)
	for _, step := range []string{"same_disk", "wiped"} {
		n.kill()
		if step == "wiped" {
			if err := os.RemoveAll(store); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		n.launch()
		n.ready(5*time.Minute + time.Duration(pendingCount())*20*time.Microsecond)
		figures[step+"_rss_bytes"] = n.metric("process_resident_memory_bytes")
		figures[step+"_ready_s"], figures[step+"_cpu_s"] = seconds(time.Since(begin)), cpuSeconds(n)
		_, restore := metric(n, "waterclock_restore_seconds")
		figures[step+"_longest_restore_s"] = restore
		time.Sleep(3 * time.Second)
		load.mu.Lock()
		first := map[int32]time.Time{}
		for _, f := range load.fired {
			if f.at.After(begin) && (first[f.partition].IsZero() || f.at.Before(first[f.partition])) {
				first[f.partition] = f.at
			}
		}
		load.mu.Unlock()
		var last time.Time
		for _, at := range first {
			if at.After(last) {
				last = at
			}
		}
		figures[step+"_partitions_firing"], figures[step+"_start_to_all_fire_s"] = len(first), seconds(last.Sub(begin))
		if step == "wiped" {
			figures["restored_per_s"] = float64(pendingCount()) / restore
		}
	}
	load.stop()
	figures["restored_store_bytes"] = sizeOf(t, store)
	if pendingCount() != 1_000_000 {
		name += fmt.Sprintf("-%dm", pendingCount()/1_000_000)
	}
	report(t, name+"-restart", figures)
}
