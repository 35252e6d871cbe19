package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/waterclock/waterclock/trigger"
)

const webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// receiver notes what comes, verifies it, and fails the first two attempts of
// every third trigger.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	bad    []string
	calls  map[string][]string // attempts of each webhook-id
	ids    map[string]string   // triggerId of each webhook-id
	slowly time.Duration
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{calls: map[string][]string{}, ids: map[string]string{}, slowly: 5 * time.Millisecond}
	verifier, err := standardwebhooks.NewWebhook(webhookSecret)
	if err != nil {
		t.Fatal(err)
	}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		time.Sleep(r.slowly)
		var body struct {
			TriggerID string          `json:"triggerId"`
			Payload   json.RawMessage `json:"payload"`
		}
		raw, err := io.ReadAll(req.Body)
		if err == nil {
			err = errors.Join(json.Unmarshal(raw, &body), verifier.Verify(raw, req.Header))
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil || string(body.Payload) != `{"say":"tea"}` {
			r.bad = append(r.bad, fmt.Sprintf("%v: %s %v", err, raw, req.Header))
		}
		id := req.Header.Get("webhook-id")
		r.calls[id] = append(r.calls[id], req.Header.Get("X-Trigger-Attempt"))
		r.ids[id] = body.TriggerID
		if strings.HasSuffix(body.TriggerID, "3") && req.Header.Get("X-Trigger-Attempt") < "3" {
			http.Error(w, "not yet", http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, "thanks")
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) seen() (ids, calls int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, attempts := range r.calls {
		calls += len(attempts)
	}
	return len(r.calls), calls
}

// TestWebhooks: workers are killed between and in the middle of attempts; each
// trigger is delivered, who fails twice on the third attempt, and a receiver that
// deduplicates by webhook-id sees each occurrence once.
func TestWebhooks(t *testing.T) {
	r := newReceiver(t)
	settings := []string{"--set", "webhook.secret=" + webhookSecret, "--set", "webhook.allow=" + r.URL}
	t.Run("dev", func(t *testing.T) {
		w := newDevWorld(t, settings...)
		r := newReceiver(t) // loopback needs no allow-list
		w.webhooks(t, r, func() {
			w.node.kill()
			w.node.launch()
			w.node.ready(60 * time.Second)
		})
	})
	t.Run("serve", func(t *testing.T) {
		w := newServeWorld(t, "engine,api", settings...)
		worker := func(name string) *process {
			return start(t, name, append(append([]string{"serve", "--roles", "webhook", "--data-dir", t.TempDir()},
				w.cluster.args...), settings...)...)
		}
		first, second := worker("webhook-1"), worker("webhook-2")
		w.webhooks(t, r, func() {
			first.kill()
			second.kill()
			worker("webhook-3")
			worker("webhook-4")
		})
	})
}

func (w *world) webhooks(t *testing.T, r *receiver, strike func()) {
	t.Helper()
	const n = 300
	register := func(from, to int) {
		t.Helper()
		var lines strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&lines, `{"op":"register","id":"hook-%d","channel":"webhook","delay":"1s","payload":{"say":"tea"},`+
				`"callback":{"url":"%s/in","retry":["500ms","500ms","500ms","1s","1s"]}}`+"\n", i, r.URL)
		}
		a := w.call(t, http.MethodPost, "/v1/triggers:batch", lines.String(), "Content-Type", "application/x-ndjson")
		if a.status != http.StatusOK || strings.Contains(a.text, `"code"`) {
			t.Fatalf("%v", a)
		}
	}
	register(0, n/2)
	await(t, "some calls", func() bool { _, calls := r.seen(); return calls > 20 })
	strike()
	register(n/2, n)
	delivered := map[string]bool{}
	await(t, "every trigger is delivered", func() bool {
		for _, events := range w.events(t) {
			for _, e := range events {
				if e.Type == string(trigger.DeliveryDelivered) && e.Reason != "late" {
					delivered[e.Trigger] = true
				}
			}
		}
		return len(delivered) == n
	})
	ids, calls := r.seen()
	if ids != n {
		t.Errorf("%d occurrences were seen, want %d", ids, n)
	}
	// Those that fail twice are called thrice. What is doubled is what the killed
	// ones had in hand.
	if least := n + 2*n/10; calls < least || calls > least+2*100+100 {
		t.Errorf("%d calls, want about %d", calls, least)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, bad := range r.bad {
		t.Error(bad)
	}
	for id, attempts := range r.calls {
		want := "1"
		if strings.HasSuffix(r.ids[id], "3") {
			want = "3"
		}
		if last := attempts[len(attempts)-1]; last != want {
			t.Errorf("%s: attempts %v, the last should be %s", r.ids[id], attempts, want)
		}
	}
	a := w.call(t, http.MethodGet, "/v1/endpoints", "")
	if a.status != http.StatusOK || !strings.Contains(a.text, r.URL) || !strings.Contains(a.text, `"tenant":"default"`) {
		t.Errorf("endpoints: %v", a)
	}
	if out, code, errs := w.cli(t, "endpoints", "list"); code != 0 || !strings.Contains(out, r.URL) {
		t.Errorf("%d: %s%s", code, out, errs)
	}
}

// TestWebhookKills: engine, broker of dev and all workers are killed after every
// attempt, at another moment each time. The next attempt comes all the same: numbered,
// under the same webhook-id, and not before its time.
func TestWebhookKills(t *testing.T) {
	type call struct {
		attempt string
		at      time.Time
	}
	const attempts, wait = 6, 2 * time.Second
	run := func(t *testing.T, w *world, url string, calls func() map[string][]call, strike func()) {
		t.Helper()
		const n = 20
		var lines strings.Builder
		for i := range n {
			fmt.Fprintf(&lines, `{"op":"register","id":"kill-%d","channel":"webhook","delay":"%dms","callback":{"url":"%s/"`+
				`,"retry":["2s","2s","2s","2s","2s"]}}`+"\n", i, 500+25*i, url)
		}
		a := w.call(t, http.MethodPost, "/v1/triggers:batch", lines.String(), "Content-Type", "application/x-ndjson")
		if a.status != http.StatusOK || strings.Contains(a.text, `"code"`) {
			t.Fatalf("%v", a)
		}
		for k := 1; k < attempts; k++ {
			want := fmt.Sprint(k)
			await(t, "attempt "+want, func() bool {
				for _, list := range calls() {
					if list[len(list)-1].attempt == want {
						return true
					}
				}
				return false
			})
			time.Sleep(time.Duration(k*k) * 30 * time.Millisecond)
			strike()
		}
		last := fmt.Sprint(attempts)
		await(t, "the last attempt of each", func() bool {
			done := 0
			for _, list := range calls() {
				if list[len(list)-1].attempt == last {
					done++
				}
			}
			return done == n
		})
		time.Sleep(wait)
		if got := len(calls()); got != n {
			t.Errorf("%d webhook-ids of %d occurrences", got, n)
		}
		for id, list := range calls() {
			before := call{attempt: "0"}
			for _, c := range list {
				switch {
				case c.attempt == before.attempt: // killed before its receipt
				case c.attempt == string(before.attempt[0]+1):
					if gap := c.at.Sub(before.at); before.attempt != "0" && gap < wait-20*time.Millisecond {
						t.Errorf("%s: attempt %s came %v after the one before, want %v", id, c.attempt, gap, wait)
					}
				default:
					t.Errorf("%s: attempt %s after %s", id, c.attempt, before.attempt)
				}
				before = c
			}
			if before.attempt != last {
				t.Errorf("%s: the last attempt was %s", id, before.attempt)
			}
		}
		w.judge(t)
	}
	receive := func(t *testing.T) (string, func() map[string][]call) {
		t.Helper()
		var mu sync.Mutex
		seen := map[string][]call{}
		s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			id, attempt := r.Header.Get("webhook-id"), r.Header.Get("X-Trigger-Attempt")
			seen[id] = append(seen[id], call{attempt, time.Now()})
			if attempt != fmt.Sprint(attempts) {
				rw.WriteHeader(http.StatusInternalServerError)
			}
		}))
		t.Cleanup(s.Close)
		return s.URL, func() map[string][]call {
			mu.Lock()
			defer mu.Unlock()
			out := map[string][]call{}
			for id, list := range seen {
				out[id] = list[:len(list):len(list)]
			}
			return out
		}
	}
	t.Run("dev", func(t *testing.T) {
		w := newDevWorld(t, "--set", "webhook.breaker.requests=1000")
		url, calls := receive(t)
		run(t, w, url, calls, func() {
			w.node.kill()
			w.node.launch()
			w.node.ready(60 * time.Second)
		})
	})
	t.Run("serve", func(t *testing.T) {
		url, calls := receive(t)
		settings := []string{"--set", "webhook.breaker.requests=1000", "--set", "webhook.allow=" + url}
		w := newServeWorld(t, "engine,api", settings...)
		var workers []*process
		for i := range 2 {
			workers = append(workers, start(t, fmt.Sprintf("webhook-%d", i), append(append([]string{
				"serve", "--roles", "webhook", "--data-dir", t.TempDir(),
			}, w.cluster.args...), settings...)...))
		}
		run(t, w, url, calls, func() {
			all := append([]*process{w.node}, workers...)
			for _, p := range all {
				p.kill()
			}
			for _, p := range all {
				p.launch()
			}
			w.node.ready(60 * time.Second)
		})
	})
}
