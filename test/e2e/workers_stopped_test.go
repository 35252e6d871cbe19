package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/services"
	"github.com/waterclock/waterclock/trigger"
)

// hooks starts a process of the role webhook.
func (w *world) hooks(t *testing.T, name string, env []string, settings ...string) *process {
	t.Helper()
	file, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return startAs(t, name, file, env, append(append([]string{"serve", "--roles", "webhook", "--data-dir", t.TempDir()},
		w.cluster.args...), settings...)...)
}

// batch registers one line for each number below n.
func (w *world) batch(t *testing.T, n int, line func(i int) string) {
	t.Helper()
	var lines strings.Builder
	for i := range n {
		fmt.Fprintln(&lines, line(i))
	}
	a := w.call(t, http.MethodPost, "/v1/triggers:batch", lines.String(), "Content-Type", "application/x-ndjson")
	if a.status != http.StatusOK || strings.Contains(a.text, `"code"`) {
		t.Fatalf("%v", a)
	}
}

// count is how many events of a type there are, by trigger.
func (w *world) count(t *testing.T, kind trigger.FactType, only func(reason string) bool) map[string]int {
	t.Helper()
	found := map[string]int{}
	for key, events := range w.events(t) {
		for _, e := range events {
			if e.Type == string(kind) && only(e.Reason) {
				found[key]++
			}
		}
	}
	return found
}

// TestWorkersStopped: no worker runs for as long as the engine waits for receipts,
// which is 8 hours and more by default and seconds here. Everything becomes a dead
// letter with code receipt_timeout. Then two processes of each kind of worker
// start, and find all the attempts that nobody waits for any more. A redrive by
// code brings each occurrence out once, and each is received once.
func TestWorkersStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a JVM")
	}
	t.Parallel() // it waits, most of the time
	r := newReceiver(t)
	settings := []string{
		"--cassandra-hosts", strings.Join(services.Cassandra(t).Hosts, ","),
		"--cassandra-keyspace", newName("stopped_"),
	}
	for _, channel := range []string{"kit", "webhook"} {
		for name, value := range map[string]string{"receipts": "true", "receipt_timeout": "3s", "retry": "100ms"} {
			settings = append(settings, "--set", "channels."+channel+"."+name+"="+value)
		}
	}
	settings = append(settings, "--set", "webhook.secret="+webhookSecret, "--set", "webhook.allow="+r.URL)
	w := newServeWorld(t, "engine,api,history", settings...)
	const n = 100
	w.batch(t, n, func(i int) string {
		return fmt.Sprintf(`{"op":"register","id":"kit-%d","channel":"kit","delay":"500ms"}`, i)
	})
	w.batch(t, n, func(i int) string {
		return fmt.Sprintf(`{"op":"register","id":"hook-%d","channel":"webhook","delay":"500ms",`+
			`"payload":{"say":"tea"},"callback":{"url":"%s/in","timeout":"1s","retry":["100ms"]}}`, i, r.URL)
	})
	await(t, "all are dead letters", func() bool {
		return len(w.count(t, trigger.DeadLettered, func(string) bool { return true })) == 2*n
	})
	await(t, "the history has them", func() bool {
		a := w.call(t, http.MethodGet, "/v1/dead-letters?group_by=code", "")
		return a.status == http.StatusOK && strings.Contains(a.text, `"receipt_timeout"`) &&
			strings.Contains(a.text, fmt.Sprint(2*n))
	})

	calls := filepath.Join(t.TempDir(), "calls")
	w.worker(t, calls)
	w.worker(t, calls)
	for i := range 2 {
		w.hooks(t, fmt.Sprintf("webhook-%d", i), nil, settings...)
	}
	time.Sleep(5 * time.Second) // they read what nobody waits for
	if got := callsIn(t, calls); len(got) != 0 {
		t.Errorf("%d attempts were handled whose receipts are too late: %v", len(got), got[:min(5, len(got))])
	}
	if ids, _ := r.seen(); ids != 0 {
		t.Errorf("%d occurrences were sent whose receipts are too late", ids)
	}

	redrive := []string{"dead-letters", "redrive", "--code", "receipt_timeout", "--rate", "1000", "-o", "ndjson"}
	await(t, "a dry run that finds them all", func() bool {
		out, _, _ := w.cli(t, append(redrive, "--dry-run")...)
		return strings.Contains(out, fmt.Sprintf(`"matched":%d`, 2*n))
	})
	redriven := 0
	await(t, "all are redriven", func() bool { // a history that is busy ends a redrive; repeating goes on
		out, _, _ := w.cli(t, redrive...)
		var last struct{ Redriven int }
		lines := strings.Split(strings.TrimSpace(out), "\n")
		_ = json.Unmarshal([]byte(lines[len(lines)-1]), &last)
		redriven += last.Redriven
		return redriven >= 2*n
	})
	if redriven != 2*n {
		t.Errorf("%d were redriven, want %d", redriven, 2*n)
	}
	var delivered map[string]int
	await(t, "each is delivered", func() bool {
		delivered = w.count(t, trigger.DeliveryDelivered, func(reason string) bool { return reason != "late" })
		return len(delivered) == 2*n
	})
	await(t, "a redrive that finds nothing more", func() bool {
		out, code, _ := w.cli(t, redrive...)
		if strings.Contains(out, `"redriven":`) && !strings.Contains(out, `"redriven":0`) {
			t.Fatalf("a second redrive finds something: %s", out)
		}
		return code == 0
	})
	time.Sleep(time.Second) // for what should not come
	for key, k := range delivered {
		if k != 1 {
			t.Errorf("%s was delivered %d times", key, k)
		}
	}
	seen := map[string]bool{}
	for _, call := range callsIn(t, calls) {
		if _, attempt, _ := strings.Cut(call, " "); seen[call] || attempt != "3" {
			t.Errorf("handled %s; seen before: %t", call, seen[call])
		}
		seen[call] = true
	}
	if ids, all := r.seen(); len(seen) != n || ids != n || all != n {
		t.Errorf("%d handled; %d sent in %d calls; want %d", len(seen), ids, all, n)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, bad := range r.bad {
		t.Error(bad)
	}
	for id, attempts := range r.calls {
		if attempts[0] != "3" {
			t.Errorf("%s: attempt %v", r.ids[id], attempts)
		}
	}
}
