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

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// mailbox is a receiver that notes the triggers it is called for. Calls for a trigger
// that is held wait until it is let go.
type mailbox struct {
	*httptest.Server
	mu    sync.Mutex
	calls []string
	held  string
	letGo chan struct{}
}

func newMailbox(t *testing.T, held string) *mailbox {
	t.Helper()
	m := &mailbox{held: held, letGo: make(chan struct{})}
	m.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Trigger-Id")
		m.mu.Lock()
		m.calls = append(m.calls, id)
		wait := id == m.held
		m.mu.Unlock()
		if wait {
			<-m.letGo
		}
	}))
	t.Cleanup(m.Close)
	t.Cleanup(m.release) // before Close, which waits for calls
	return m
}

func (m *mailbox) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held != "" {
		m.held = ""
		close(m.letGo)
	}
}

func (m *mailbox) count(id string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, call := range m.calls {
		if call == id {
			n++
		}
	}
	return n
}

// consentWorld is dev with limits on webhooks, and a mailbox.
type consentWorld struct {
	*world
	t   *testing.T
	box *mailbox
}

func (w *consentWorld) prefer(user, body string) {
	w.t.Helper()
	wants(w.t, "preferences", w.call(w.t, http.MethodPut, "/v1/preferences/"+user, body), 200)
}

// send registers a webhook that is due at once.
func (w *consentWorld) send(id, user, more string) {
	w.t.Helper()
	body := fmt.Sprintf(`{"delay":"0s","user_id":%q,"callback":{"url":%q}%s}`, user, w.box.URL, more)
	wants(w.t, id, w.call(w.t, http.MethodPut, "/v1/triggers/"+id, body), 201)
}

// outcome waits for what became of a trigger's due event: the event, with its reason.
func (w *consentWorld) outcome(id string) (e topics.Event) {
	w.t.Helper()
	await(w.t, "an outcome of "+id, func() bool {
		for _, e = range w.events(w.t)[id] {
			switch trigger.FactType(e.Type) {
			case trigger.DeliveryDelivered, trigger.DeliverySuppressed, trigger.DeliveryPostponed:
				return true
			}
		}
		return false
	})
	return e
}

func (w *consentWorld) wantOutcome(id, want string) topics.Event {
	w.t.Helper()
	e := w.outcome(id)
	if got := strings.TrimSpace(e.Type + " " + e.Reason); got != want {
		w.t.Errorf("%s: %s (%s), want %s", id, got, e.Detail, want)
	}
	return e
}

// The webhooks of dev keep to what users want, and to the limits of the channel; a kill
// in the middle of a call changes no verdict.
func TestWorkersAskPreferences(t *testing.T) {
	const delivered = "delivery.delivered"
	w := &consentWorld{newDevWorld(t, "--set", "channels.webhook.dedup_window=2h",
		"--set", "channels.webhook.max_per_user=2/2h"), t, newMailbox(t, "held")}
	w.send("free", "ada", "")
	w.wantOutcome("free", delivered)

	// An opt-out holds for the very next event.
	w.prefer("ada", `{"opted_out_channels":["WEBHOOK"]}`)
	w.send("out", "ada", `,"priority":"high"`)
	w.wantOutcome("out", "delivery.suppressed opted_out")
	w.prefer("ada", `{"notification_types":{"marketing":false}}`)
	w.send("ad", "ada", `,"tags":{"type":"marketing"}`)
	w.wantOutcome("ad", "delivery.suppressed notification_type")

	// Quiet hours that began an hour ago. high passes.
	now := time.Now().UTC()
	end := now.Add(2 * time.Hour).Truncate(time.Minute)
	w.prefer("bob", fmt.Sprintf(`{"timezone":"UTC","quiet_hours":{"from":%q,"to":%q,"channels":["webhook"]}}`,
		now.Add(-time.Hour).Format("15:04"), end.Format("15:04")))
	w.send("night", "bob", "")
	quiet := w.wantOutcome("night", "delivery.postponed quiet_hours")
	due, err := time.Parse(time.RFC3339, quiet.ScheduledAt)
	// The wait counts from when the broker took the receipt.
	if err != nil || due.Before(end) || due.After(end.Add(time.Minute)) {
		t.Errorf("it is postponed to %s, %v; want %v", quiet.ScheduledAt, err, end)
	}
	w.send("alarm", "bob", `,"priority":"high"`)
	w.wantOutcome("alarm", delivered)

	// Caps and types.
	for _, id := range []string{"one", "two"} {
		w.send(id, "eve", "")
		w.wantOutcome(id, delivered)
	}
	w.send("three", "eve", "")
	w.wantOutcome("three", "delivery.suppressed capped")
	w.send("code", "eve", `,"priority":"high","tags":{"type":"code"}`)
	w.wantOutcome("code", delivered)
	w.send("code-2", "eve", `,"priority":"high","tags":{"type":"code"}`)
	w.wantOutcome("code-2", "delivery.suppressed duplicate")

	// A kill between claim and answer: the claim is found, and the next of the type is a
	// duplicate.
	w.send("held", "dan", `,"tags":{"type":"news"}`)
	await(t, "the call that is held", func() bool { return w.box.count("held") > 0 })
	w.node.kill()
	w.box.release()
	w.node.launch()
	w.node.ready(60 * time.Second)
	w.wantOutcome("held", delivered)
	w.send("news", "dan", `,"tags":{"type":"news"}`)
	w.wantOutcome("news", "delivery.suppressed duplicate")
	w.send("four", "eve", "")
	w.wantOutcome("four", "delivery.suppressed capped")

	w.box.mu.Lock()
	defer w.box.mu.Unlock()
	for _, id := range []string{"out", "ad", "night", "three", "code-2", "news", "four"} {
		if slices.Contains(w.box.calls, id) {
			t.Errorf("%s was sent", id)
		}
	}
}

// Over HTTP, a register with a user and no channel goes where the user prefers.
func TestPreferredChannel(t *testing.T) {
	w := newDevWorld(t)
	wants(t, "preferences", w.call(t, http.MethodPut, "/v1/preferences/ada", `{"preferred_channels":["sms"]}`), 200)
	const body = `{"delay":"1h","user_id":"ada"}`
	wants(t, "register", w.call(t, http.MethodPut, "/v1/triggers/k", body), 201)
	wants(t, "it", w.call(t, http.MethodGet, "/v1/triggers/k", ""), 200, "channel=sms")
	wants(t, "preferences", w.call(t, http.MethodPut, "/v1/preferences/ada", `{"preferred_channels":["push"]}`), 200)
	wants(t, "repeat", w.call(t, http.MethodPut, "/v1/triggers/k", body), 200, "revision=1")
	wants(t, "it", w.call(t, http.MethodGet, "/v1/triggers/k", ""), 200, "channel=sms", "revision=1")
}
