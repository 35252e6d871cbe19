//go:build soak

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// TestMeasureOpening kills and starts a node of 64 partitions, or as many as
// WATERCLOCK_BENCH_PARTITIONS says, while triggers fall due: how late those are
// whose partition fires again already, while the others open. Of more than 64
// partitions, 50 are busy, at 2,000/s.
func TestMeasureOpening(t *testing.T) {
	partitions := partitionCount(64)
	rate, busy := 1000, partitions
	if partitions > 64 {
		rate, busy = 2000, 50
	}
	pending := pendingCount() / 5
	c := newCluster(t, partitions)
	n := c.nodes(t, 1, partitions)[0]
	fill(t, c.brokers, c.prefix, pending, n)
	load := startPulseOn(t, c.brokers, c.prefix, rate, busy, partitions)
	time.Sleep(10 * time.Second)
	n.kill()
	begin := time.Now()
	n.launch()
	n.ready(5 * time.Minute)
	ready := time.Now()
	time.Sleep(5 * time.Second)
	fired := load.stop()

	first := firstAfter(fired, begin)
	var before, during, after []firing
	for _, f := range fired {
		switch {
		case f.due.After(ready):
			after = append(after, f)
		case f.due.After(begin) && f.due.After(first[f.partition]):
			during = append(during, f)
		case f.due.Before(begin) && f.at.Before(begin) && f.due.After(begin.Add(-5*time.Second)):
			before = append(before, f)
		}
	}
	firsts := slices.SortedFunc(maps.Values(first), time.Time.Compare)
	report(t, fmt.Sprint("kafka-opening-p", partitions), map[string]any{
		"partitions": partitions, "busy": busy, "rate": rate, "pending": pending,
		"rss_bytes":             n.metric("process_resident_memory_bytes"),
		"start_to_first_fire_s": seconds(firsts[0].Sub(begin)),
		"start_to_all_fire_s":   seconds(firsts[len(firsts)-1].Sub(begin)),
		"start_to_ready_s":      seconds(ready.Sub(begin)),
		"lateness_before_ms":    lateOf(before), "lateness_of_the_open_ms": lateOf(during),
		"lateness_after_ms": lateOf(after),
	})
}
