package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// racedReceiver fails the first occurrence of each trigger until it is mended, and
// takes its time, so that commands come while a call is under way.
type racedReceiver struct {
	*httptest.Server
	mu     sync.Mutex
	mended bool
	calls  map[string][]racedCall // by trigger
}

type racedCall struct{ id, attempt, path string }

func newRacedReceiver(t *testing.T) *racedReceiver {
	t.Helper()
	r := &racedReceiver{calls: map[string][]racedCall{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		key := req.Header.Get("X-Trigger-Id")
		c := racedCall{req.Header.Get("webhook-id"), req.Header.Get("X-Trigger-Attempt"), req.URL.Path}
		r.mu.Lock()
		r.calls[key] = append(r.calls[key], c)
		fails := !r.mended && r.calls[key][0].id == c.id
		r.mu.Unlock()
		time.Sleep(200 * time.Millisecond)
		if fails {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *racedReceiver) of(key string) []racedCall {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls[key])
}

// attempts are those of a trigger's first occurrence, each once, and whether another
// occurrence came.
func (r *racedReceiver) attempts(key string) (list []string, other bool) {
	calls := r.of(key)
	for _, c := range calls {
		switch {
		case c.id != calls[0].id:
			other = true
		case !slices.Contains(list, c.attempt):
			list = append(list, c.attempt)
		}
	}
	return list, other
}

// TestWebhookRaces: cancel, erase, replace and snooze come while the second attempt is
// under way, and a worker is killed meanwhile. Behind the answer no attempt begins
// of what they end, and what they begin is called. Then dead letters are redriven in
// a run whose server is killed half-way, and repeated: each goes out once more, under
// its webhook-id, as the second attempt.
func TestWebhookRaces(t *testing.T) {
	t.Run("dev", func(t *testing.T) {
		r := newRacedReceiver(t)
		w := newDevWorld(t, "--set", "webhook.breaker.requests=1000")
		w.racesOfWebhooks(t, r, func() {
			w.node.kill()
			w.node.launch()
			w.node.ready(60 * time.Second)
		})
	})
	t.Run("serve", func(t *testing.T) {
		r := newRacedReceiver(t)
		settings := []string{"--set", "webhook.breaker.requests=1000", "--set", "webhook.allow=" + r.URL}
		w := newServeWorld(t, "engine,api", settings...)
		worker := func(name string) *process {
			return start(t, name, append(append([]string{"serve", "--roles", "webhook", "--data-dir", t.TempDir()},
				w.cluster.args...), settings...)...)
		}
		first := worker("webhook-1")
		worker("webhook-2")
		w.racesOfWebhooks(t, r, func() {
			first.kill()
			worker("webhook-3")
		})
	})
}

func (w *world) racesOfWebhooks(t *testing.T, r *racedReceiver, strike func()) {
	t.Helper()
	const each = 2
	// Enough attempts for a command to come during one of them, however slow this machine is.
	retry := `["500ms",` + strings.Repeat(`"1s",`, 8) + strings.Repeat(`"10s",`, 20) + `"10s"]`
	register := func(key, retry string) string {
		return fmt.Sprintf(`{"op":"register","id":%q,"channel":"webhook","user_id":"u","delay":"1s","callback":{"url":`+
			`"%s/first","retry":%s}}`, key, r.URL, retry)
	}
	ops := []string{"cancel", "erase", "replace", "snooze"}
	var lines []string
	var dead []string
	for i := range each {
		for _, op := range ops {
			lines = append(lines, register(fmt.Sprintf("%s-%d", op, i), retry))
		}
		dead = append(dead, fmt.Sprintf("dead-%d", i))
		lines = append(lines, register(dead[i], `[]`))
	}
	a := w.call(t, http.MethodPost, "/v1/triggers:batch", strings.Join(lines, "\n"), "Content-Type",
		"application/x-ndjson")
	if a.status != http.StatusOK || strings.Contains(a.text, `"code"`) {
		t.Fatalf("%v", a)
	}
	seen := map[string]int{} // attempts that had begun when the command was answered
	for i := range each {
		for _, op := range ops {
			key := fmt.Sprintf("%s-%d", op, i)
			await(t, "a second attempt of "+key, func() bool { list, _ := r.attempts(key); return len(list) > 1 })
			w.race(t, op, key, r.URL)
			list, _ := r.attempts(key)
			seen[key] = len(list)
		}
		if i == each/2 {
			strike()
		}
	}
	for key := range seen {
		if op, _, _ := strings.Cut(key, "-"); op == "replace" || op == "snooze" {
			await(t, "the next occurrence of "+key, func() bool { _, other := r.attempts(key); return other })
		}
	}
	time.Sleep(3 * time.Second) // for attempts that should not come
	for key, n := range seen {
		list, _ := r.attempts(key)
		for i, attempt := range list {
			if attempt != fmt.Sprint(i+1) {
				t.Errorf("%s: attempts %v", key, list)
			}
		}
		// One may have gone out before the command was decided.
		if !strings.HasPrefix(key, "replace") && len(list) > n+1 {
			t.Errorf("%s: attempts %v, of which %d had begun when the command was answered", key, list, n)
		}
		for _, c := range r.of(key) {
			if c.path != "/first" && c.path != "/second" {
				t.Errorf("%s: called %s", key, c.path)
			}
		}
	}
	for i := range each {
		if got := w.state(t, fmt.Sprintf("cancel-%d", i)); got != "CANCELLED" {
			t.Errorf("cancel-%d is %s", i, got)
		}
	}
	w.redriveHalfWay(t, r, dead)
}

// race sends the command about a trigger that is being called.
func (w *world) race(t *testing.T, op, key, url string) {
	t.Helper()
	method, path, body := http.MethodPost, "/v1/triggers/"+key, "{}"
	switch op {
	case "cancel":
		method, body = http.MethodDelete, ""
	case "erase":
		path += ":erase"
	case "replace":
		method = http.MethodPut
		body = fmt.Sprintf(`{"channel":"webhook","delay":"1s","callback":{"url":"%s/second"}}`, url)
	case "snooze":
		path, body = path+":snooze", `{"for":"1s"}`
	}
	// 202 is not yet decided: sent once more, it is. A cancel is answered 409
	// already_fired, and ends what is under way all the same.
	await(t, "an answer to "+op+" of "+key, func() bool {
		a := w.call(t, method, path, body)
		switch {
		case a.status == http.StatusConflict && op == "cancel", a.status < 300 && a.status != http.StatusAccepted:
			return true
		case a.status == http.StatusAccepted, a.status == http.StatusServiceUnavailable:
			return false
		}
		t.Fatalf("%s: %v", key, a)
		return false
	})
}

func (w *world) state(t *testing.T, key string) string {
	t.Helper()
	a := w.call(t, http.MethodGet, "/v1/triggers/"+key, "")
	s, _ := a.body["state"].(string)
	return s
}

// redriveHalfWay redrives dead letters by their triggers, kills the server in the
// middle, and repeats all.
func (w *world) redriveHalfWay(t *testing.T, r *racedReceiver, dead []string) {
	t.Helper()
	for _, key := range dead {
		await(t, key+" has failed", func() bool { return w.state(t, key) == "FAILED" })
	}
	r.mu.Lock()
	r.mended = true
	r.mu.Unlock()
	redrive := func(key string) {
		t.Helper()
		await(t, "the redrive of "+key, func() bool { // the history follows its owner
			a := w.call(t, http.MethodPost, "/v1/dead-letters:redrive", fmt.Sprintf(`{"trigger_id":%q}`, key))
			return a.status == http.StatusOK && (strings.Contains(a.text, `"redriven":1`) ||
				strings.Contains(a.text, `"duplicate":1`))
		})
	}
	half := len(dead) / 2
	for _, key := range dead[:half] {
		redrive(key)
	}
	go func() { // cut off by the kill, wherever it is
		resp, err := http.Post("http://"+w.node.http+"/v1/dead-letters:redrive", "application/json",
			strings.NewReader(fmt.Sprintf(`{"trigger_id":%q}`, dead[half])))
		if err == nil {
			resp.Body.Close()
		}
	}()
	time.Sleep(20 * time.Millisecond)
	w.node.kill()
	w.node.launch()
	w.node.ready(60 * time.Second)
	for _, key := range dead {
		redrive(key)
	}
	for _, key := range dead {
		await(t, "the second attempt of "+key, func() bool { list, _ := r.attempts(key); return len(list) > 1 })
		await(t, key+" is delivered", func() bool { return w.state(t, key) == "FIRED" })
	}
	time.Sleep(2 * time.Second) // for calls that should not come
	for _, key := range dead {
		if list, other := r.attempts(key); other || !slices.Equal(list, []string{"1", "2"}) {
			t.Errorf("%s: attempts %v of its occurrence; another occurrence: %t", key, list, other)
		}
	}
}
