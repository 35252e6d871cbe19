//go:build soak

package e2e

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// TestMeasureOpening kills and starts a node of 64 partitions while triggers
// fall due: how late those are whose partition fires again already, while the
// others open.
func TestMeasureOpening(t *testing.T) {
	const partitions, rate = 64, 1000
	pending := pendingCount() / 5
	c := newCluster(t, partitions)
	n := c.nodes(t, 1, partitions)[0]
	fill(t, c.brokers, c.prefix, pending, n)
	load := startPulse(t, c.brokers, c.prefix, rate)
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
	report(t, "kafka-opening-p64", map[string]any{
		"partitions": partitions, "rate": rate, "pending": pending,
		"start_to_first_fire_s": seconds(firsts[0].Sub(begin)),
		"start_to_all_fire_s":   seconds(firsts[len(firsts)-1].Sub(begin)),
		"start_to_ready_s":      seconds(ready.Sub(begin)),
		"lateness_before_ms":    lateOf(before), "lateness_of_the_open_ms": lateOf(during),
		"lateness_after_ms": lateOf(after),
	})
}
