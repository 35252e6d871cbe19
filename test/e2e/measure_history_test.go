//go:build soak

package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"
)

// firedCount is how many triggers fire and are forgotten before a restart.
func firedCount() int {
	if n, err := strconv.Atoi(os.Getenv("WATERCLOCK_BENCH_FIRED")); err == nil {
		return n
	}
	return 2_000_000
}

// maxReadForCrash is what a node may read more at one start after a kill than at
// another: of each of its four stores the log of a memtable, looked at and then
// replayed, and the sorted file of another.
const maxReadForCrash = 4 * 3 * 16 << 20

// TestMeasureHistory kills a node that has nothing behind it, one that has fired
// much and remembers a part of it, and one that has forgotten it all: how long
// until each fires again, and that what it reads at its start is what is pending
// and remembered, not what was (docs/testing.md F22).
func TestMeasureHistory(t *testing.T) {
	c := newCluster(t, 4)
	n := c.node(t, "node", t.TempDir(), "--set", "dedup.horizon=1m")
	n.ready(time.Minute)
	pending := pendingCount() / 10
	fill(t, c.brokers, c.prefix, pending, n)
	figures := map[string]any{"pending": pending, "fired": firedCount(), "partitions": 4}
	reopen := func(name string) (read float64) {
		load := startPulse(t, c.brokers, c.prefix, 200)
		time.Sleep(3 * time.Second)
		n.kill()
		begin := time.Now()
		n.launch()
		n.ready(5 * time.Minute)
		read = bytesRead(t, n)
		figures[name+"_ready_s"], figures[name+"_cpu_s"], figures[name+"_read_bytes"] = seconds(time.Since(begin)),
			cpuSeconds(n), read
		time.Sleep(3 * time.Second)
		first := time.Duration(0)
		for _, f := range load.stop() {
			if at := f.at.Sub(begin); at > 0 && (first == 0 || at < first) {
				first = at
			}
		}
		figures[name+"_start_to_first_fire_s"] = seconds(first)
		return read
	}

	none := reopen("no_history")
	last := fireAtOnce(t, c, n, pending, firedCount())
	reopen("remembered")
	awaitForgotten(t, n, last)
	forgotten := reopen("forgotten")
	if forgotten > none+maxReadForCrash {
		t.Errorf("after %d fires that are forgotten a start reads %.0f bytes, %.0f before them", firedCount(),
			forgotten, none)
	}
	report(t, "kafka-history", figures)
}

// fireAtOnce registers triggers that are due now, waits until nothing but what
// was pending before is, and returns the ids of the last.
func fireAtOnce(t *testing.T, c *cluster, n *process, pending, count int) (last []string) {
	t.Helper()
	l := newLoad(t, c.brokers, c.prefix)
	l.flood("past", count, func(int) time.Time { return time.Now() })
	for i := max(0, count-100); i < count; i++ {
		last = append(last, fmt.Sprintf("past-%d", i))
	}
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		left, _ := statusOf(n)
		if lag, _ := metric(n, "waterclock_commands_lag_records"); lag == 0 && left == pending {
			return last
		}
	}
	t.Fatal("not all has fired")
	return nil
}

// awaitForgotten waits until a node knows none of some triggers.
func awaitForgotten(t *testing.T, n *process, ids []string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Minute)
	for _, id := range ids {
		for {
			resp, err := http.Get("http://" + n.http + "/v1/triggers/" + id)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode == http.StatusNotFound {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s is remembered: %s", id, resp.Status)
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
}

// bytesRead is what a process has read so far, from files and sockets.
func bytesRead(t *testing.T, p *process) float64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", p.cmd.Process.Pid))
	if err != nil {
		t.Skip(err)
	}
	var read float64
	if _, err := fmt.Sscanf(string(bytes.SplitN(b, []byte("\n"), 2)[0]), "rchar: %f", &read); err != nil {
		t.Fatal(err)
	}
	return read
}
