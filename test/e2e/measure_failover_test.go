//go:build soak

package e2e

import (
	"fmt"
	"testing"
	"time"
)

// TestMeasureFailover kills one of three nodes with many triggers pending: how
// long until the group notices, and until its partitions fire elsewhere.
func TestMeasureFailover(t *testing.T) {
	for _, copies := range []int{0, 1} {
		t.Run(fmt.Sprint("standby ", copies), func(t *testing.T) {
			const partitions = 12
			c := newCluster(t, partitions)
			nodes := c.nodes(t, 3, partitions, "--standby", fmt.Sprint(copies))
			fill(t, c.brokers, c.prefix, pendingCount(), nodes[0])
			if copies > 0 {
				awaitWarm(t, nodes[0], copies)
			}
			load := startPulse(t, c.brokers, c.prefix, 300)
			time.Sleep(5 * time.Second)
			group := noticed(t, c.brokers, c.prefix+"engine")
			killed := time.Now()
			nodes[1].kill()
			at := group()
			awaitOwners(t, nodes[0], partitions, 2)
			ready := time.Now()
			time.Sleep(3 * time.Second)
			fired := load.stop()

			first := firstAfter(fired, at)
			var untouched, lost time.Duration
			var back time.Time
			n := 0
			for p, pause := range pauses(fired, killed) {
				if pause < 4*time.Second { // the session time-out is 6 s: this one had another owner
					untouched = max(untouched, pause)
					continue
				}
				n++
				lost = max(lost, pause)
				if first[p].After(back) {
					back = first[p]
				}
			}
			report(t, fmt.Sprintf("kafka-failover-standby-%d", copies), map[string]any{
				"pending": pendingCount(), "partitions": partitions, "standby": copies, "partitions_of_the_dead": n,
				"kill_to_notice_s": seconds(at.Sub(killed)), "notice_to_all_fire_s": seconds(back.Sub(at)),
				"notice_to_all_ready_s": seconds(ready.Sub(at)),
				"longest_pause_s":       seconds(lost), "longest_pause_of_untouched_s": seconds(untouched),
				"lateness_ms": lateOf(fired),
			})
		})
	}
}

// TestMeasureRollingRestart restarts three nodes one by one under load: one that
// leaves the machine idle for the most part, and one that does not.
func TestMeasureRollingRestart(t *testing.T) {
	for _, run := range []struct{ copies, rate int }{{0, 300}, {1, 300}, {0, 2000}, {1, 2000}} {
		t.Run(fmt.Sprintf("standby %d at %d", run.copies, run.rate), func(t *testing.T) {
			const partitions = 12
			c := newCluster(t, partitions)
			nodes := c.nodes(t, 3, partitions, "--standby", fmt.Sprint(run.copies))
			load := startPulse(t, c.brokers, c.prefix, run.rate)
			time.Sleep(10 * time.Second)
			begin := time.Now()
			var stops []float64
			for _, n := range nodes {
				stopping := time.Now()
				n.stop(30 * time.Second)
				stops = append(stops, seconds(time.Since(stopping)))
				n.launch()
				n.ready(time.Minute)
				awaitOwners(t, n, partitions, 3)
				time.Sleep(5 * time.Second)
			}
			end := time.Now()
			fired := load.stop()
			var quiet, during []firing
			for _, f := range fired {
				switch {
				case f.due.After(begin) && f.due.Before(end):
					during = append(during, f)
				case f.due.Before(begin) && f.due.After(begin.Add(-7*time.Second)):
					quiet = append(quiet, f)
				}
			}
			var longest time.Duration
			for _, p := range pauses(fired, begin) {
				longest = max(longest, p)
			}
			report(t, fmt.Sprintf("kafka-rolling-restart-standby-%d-at-%d", run.copies, run.rate), map[string]any{
				"partitions": partitions, "rate": run.rate, "standby": run.copies,
				"restart_of_three_s": seconds(end.Sub(begin)), "stop_s": stops,
				"longest_pause_s": seconds(longest), "lateness_ms": lateOf(during), "lateness_before_ms": lateOf(quiet),
			})
		})
	}
}
