//go:build soak

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// envDuration is a duration that the environment may set.
func envDuration(t *testing.T, name string, usual time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d
}

// overload counts what one node under overload answers.
type overload struct {
	mu       sync.Mutex
	statuses map[string]int // of batches
	refused  int            // lines: triggers fall due faster than they fire
	probes   []float64      // ms
	missed   int            // probes without an answer, or with another than 200
	peak     float64        // bytes
	overdue  float64        // s: the longest that a due trigger waited, of all
}

// TestMeasureOverload floods one node with 512 MiB of memory.limit by eight batches of 2,000
// registers at a time, each due in WATERCLOCK_BENCH_DELAY (10m), as fast as they are taken. Beside them 100
// triggers a second are written to Kafka and fire, half of the same tenant and half of another:
// how late they are, and how probes answer.
func TestMeasureOverload(t *testing.T) {
	const partitions, rate = 8, 100
	delay := envDuration(t, "WATERCLOCK_BENCH_DELAY", 10*time.Minute)
	c := newCluster(t, partitions)
	n := c.node(t, "node", t.TempDir(), "--memory-limit", "512MiB")
	n.ready(time.Minute)
	own := startPulse(t, c.brokers, c.prefix, rate/2)
	other := startPulseOf(t, c.brokers, c.prefix, "beside", rate/2)
	time.Sleep(5 * time.Second)
	d, begun := envDuration(t, "WATERCLOCK_BENCH_FOR", time.Minute), time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	o := &overload{statuses: map[string]int{}}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				o.batch(ctx, n, fmt.Sprintf("o%d-%d", worker, i), delay)
			}
		})
	}
	all.Go(func() { o.probe(ctx, n) })
	all.Wait()
	ended := time.Now()
	during := func(p *pulse) map[string]any {
		return lateOf(slices.DeleteFunc(p.stop(), func(f firing) bool {
			return f.due.Before(begun) || f.due.After(ended)
		}))
	}
	lateOther, lateOwn := during(other), during(own)
	slices.Sort(o.probes)
	if len(o.probes) == 0 {
		t.Fatal("no probe was answered")
	}
	report(t, "kafka-overload", map[string]any{
		"partitions": partitions, "memory_limit_bytes": 512 << 20, "for_s": seconds(d), "beside_per_s": rate,
		"delay_s": seconds(delay), "batches": o.statuses, "lines_refused": o.refused,
		"probes": len(o.probes), "probes_missed": o.missed,
		"probe_ms": map[string]any{
			"p50": o.probes[len(o.probes)/2], "p99": o.probes[len(o.probes)*99/100],
			"max": o.probes[len(o.probes)-1],
		},
		"peak_rss_bytes": o.peak, "oldest_overdue_s": o.overdue,
		"beside_lateness_ms": map[string]any{"same_tenant": lateOwn, "other_tenant": lateOther},
	})
}

func (o *overload) batch(ctx context.Context, n *process, id string, delay time.Duration) {
	var lines []string
	for i := range 2000 {
		lines = append(lines, fmt.Sprintf(`{"id":"%s-%d","delay":"%s","payload":"%s"}`, id, i, delay, strings.Repeat("x", 200)))
	}
	status, refused := "none", 0
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+n.http+"/v1/triggers:batch",
		strings.NewReader(strings.Join(lines, "\n")))
	if err == nil {
		var resp *http.Response
		if resp, err = http.DefaultClient.Do(req); err == nil {
			var body []byte
			body, err = io.ReadAll(resp.Body)
			resp.Body.Close()
			status, refused = fmt.Sprint(resp.StatusCode), bytes.Count(body, []byte(`"status":429`))
		}
	}
	if ctx.Err() != nil {
		return
	}
	o.mu.Lock()
	o.statuses[status]++
	o.refused += refused
	o.mu.Unlock()
	if err != nil || status != "200" || refused > 0 {
		time.Sleep(100 * time.Millisecond) // far less than Retry-After
	}
}

// probe asks as an orchestrator does, each second, and reads the memory.
func (o *overload) probe(ctx context.Context, n *process) {
	client := &http.Client{Timeout: 10 * time.Second}
	for ctx.Err() == nil {
		begun := time.Now()
		resp, err := client.Get("http://" + n.http + "/healthz")
		if err == nil {
			resp.Body.Close()
			o.probes = append(o.probes, float64(time.Since(begun).Microseconds())/1000)
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			o.missed++
		}
		o.peak = max(o.peak, n.metric("process_resident_memory_bytes"))
		o.overdue = max(o.overdue, n.metric("waterclock_oldest_overdue_seconds"))
		time.Sleep(time.Second)
	}
}
