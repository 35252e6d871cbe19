package node

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/egress"
	"github.com/waterclock/waterclock/internal/logtest"
	"github.com/waterclock/waterclock/sinks/webhook"
	"github.com/waterclock/waterclock/trigger"
)

const (
	oneKey     = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	anotherKey = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

// dev generates a key once. Only its user can read it.
func TestDevSecret(t *testing.T) {
	c, err := config.Load(config.Options{Dev: true, Flags: map[string]string{"data_dir": t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{cfg: c}
	if err := n.devSecret(); err != nil {
		t.Fatal(err)
	}
	trust, err := n.readWebhookTrust()
	if err != nil || len(trust.keys[""]) != 1 {
		t.Fatalf("%+v, %v", trust, err)
	}
	file := filepath.Join(c.DataDir, devSecretFile)
	first, err := os.ReadFile(file)
	if about, statErr := os.Stat(file); err != nil || statErr != nil || about.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v, %v", err, statErr, about.Mode())
	}
	c.Webhook.Secret = ""
	if err := n.devSecret(); err != nil {
		t.Fatal(err)
	}
	if second, _ := os.ReadFile(file); string(second) != string(first) {
		t.Error("another start makes another key")
	}
	c.Webhook.Secret = oneKey
	if err := n.devSecret(); err != nil || c.Webhook.Secret != oneKey {
		t.Errorf("a setting is replaced: %v", err)
	}
}

// withWebhooks is a node with the webhook settings of a file.
func withWebhooks(t *testing.T, file string) *node {
	t.Helper()
	c, err := config.Load(config.Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{cfg: c, webhooks: &webhooks{}}
	if err := n.loadWebhook(); err != nil {
		t.Fatal(err)
	}
	return n
}

// A rotated key file takes effect with the next request. A file that cannot be read leaves the
// old key in force. A tenant's own key replaces the common one.
func TestWebhookKeysReload(t *testing.T) {
	dir := t.TempDir()
	file, token, yaml := filepath.Join(dir, "key"), filepath.Join(dir, "token"), filepath.Join(dir, "w.yaml")
	put(t, file, oneKey+"\n", 0o600)
	put(t, token, "Bearer one\n", 0o600)
	put(t, yaml, "webhook: {secret: 'file:"+file+"'}\n"+
		"tenants: {acme: {webhook_secret: "+anotherKey+"}, plain: {rate: 1}}\n"+
		"endpoints: {'https://a.example': {rate: 3, headers: {Authorization: 'file:"+token+"'}}}\n", 0o600)
	n := withWebhooks(t, yaml)
	var log logtest.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	r := newReloads(logger, subject{name: "webhook.secret", files: n.cfg.WebhookFiles(), load: n.loadWebhook})
	h := n.webhooks
	if len(h.keys("anybody")) != 1 || len(h.keys("plain")) != 1 || h.keys("acme")[0] == h.keys("plain")[0] {
		t.Error("keys of tenants")
	}
	if o := h.origin("https://a.example"); o.Rate != 3 || o.Headers.Get("Authorization") != "Bearer one" {
		t.Errorf("%+v", o)
	}
	before := h.keys("anybody")[0]
	put(t, token, "Bearer two\n", 0o600)
	put(t, file, anotherKey+"\n", 0o600)
	r.check(false)
	o := h.origin("https://a.example")
	if o.Headers.Get("Authorization") != "Bearer two" || h.keys("anybody")[0] == before {
		t.Errorf("what is new does not count: %+v", o)
	}
	put(t, file, anotherKey+","+oneKey+"\n", 0o600)
	r.check(false)
	if n := len(h.keys("anybody")); n != 2 {
		t.Errorf("%d keys sign during a rotation in one file, want 2: %s", n, log.String())
	}
	before = h.keys("anybody")[0]
	put(t, file, "garbage-secret", 0o600)
	r.check(false)
	if h.keys("anybody")[0] != before || strings.Contains(log.String(), "garbage-secret") {
		t.Errorf("a bad key: %s", log.String())
	}
}

// TestEndpointsReload: rate, pause and headers of an origin apply without a restart, and a file that is not valid
// leaves what was.
func TestEndpointsReload(t *testing.T) {
	dir := t.TempDir()
	token, yaml := filepath.Join(dir, "token"), filepath.Join(dir, "w.yaml")
	put(t, token, "one\n", 0o600)
	put(t, yaml, "endpoints: {'https://a.example': {rate: 3}}\n", 0o600)
	n := withWebhooks(t, yaml)
	n.cfg.Reload.Interval = 20 * time.Millisecond
	var log logtest.Buffer
	n.log = slog.New(slog.NewTextHandler(&log, nil))
	life := newRoles(0, slog.New(slog.DiscardHandler))
	defer life.end()
	n.startReloads(life, false)
	becomes := func(what string, ok func(a, b webhook.Origin) bool) {
		t.Helper()
		deadline := time.Now().Add(10 * time.Second)
		for !ok(n.webhooks.origin("https://a.example"), n.webhooks.origin("https://b.example")) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %s", what, log.String())
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	becomes("at the start", func(a, b webhook.Origin) bool { return a.Rate == 3 && !b.Paused })
	replace(t, yaml, "endpoints: {'https://a.example': {rate: 50}, 'https://b.example': {paused: true, "+
		"headers: {X-Key: 'file:"+token+"'}}}\n")
	becomes("changed", func(a, b webhook.Origin) bool {
		return a.Rate == 50 && b.Paused && b.Headers.Get("X-Key") == "one"
	})
	put(t, token, "two\n", 0o600) // a file that the settings did not have at the start
	becomes("a header of the new origin", func(_, b webhook.Origin) bool { return b.Headers.Get("X-Key") == "two" })
	replace(t, yaml, "endpoints: {'https://a.example': {rate: fast}}\n")
	becomes("not valid", func(a, b webhook.Origin) bool {
		return a.Rate == 50 && b.Paused && strings.Contains(log.String(), "rate")
	})
	replace(t, yaml, "endpoints: {}\n")
	becomes("none", func(a, b webhook.Origin) bool { return a.Rate == 0 && !b.Paused })
}

// replace writes a file so that nobody reads half of it.
func replace(t *testing.T, file, text string) {
	t.Helper()
	put(t, file+".new", text, 0o600)
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// TestHalfWrittenSettings: a settings file that is read while it is written, empty or without its end, changes
// nothing. What is read twice applies, and an empty file never does.
func TestHalfWrittenSettings(t *testing.T) {
	yaml := filepath.Join(t.TempDir(), "w.yaml")
	const half = "endpoints:\n  https://a.example: {rate: 3}\n"
	const whole, faster = half + "  https://b.example: {paused: true}\n", "endpoints:\n" +
		"  https://a.example: {rate: 50}\n  https://b.example: {paused: true}\n"
	put(t, yaml, whole, 0o600)
	n := withWebhooks(t, yaml)
	var log logtest.Buffer
	r := newReloads(slog.New(slog.NewTextHandler(&log, nil)), n.endpointSubject(yaml))
	for i, step := range []struct {
		text string
		rate float64
	}{
		{whole, 3},
		{whole, 3},
		{"", 3},
		{faster, 3},
		{faster, 50},
		{half, 50},
		{whole, 50},
		{whole, 3},
		{"", 3},
		{"", 3},
		{"# nothing\n", 3},
		{"# nothing\n", 3},
		{faster, 3},
		{faster, 50},
	} {
		put(t, yaml, step.text, 0o600)
		r.check(false)
		a, b := n.webhooks.origin("https://a.example"), n.webhooks.origin("https://b.example")
		if a.Rate != step.rate || !b.Paused {
			t.Errorf("step %d: rate %v, want %v; paused: %v", i, a.Rate, step.rate, b.Paused)
		}
	}
	if !strings.Contains(log.String(), "it is empty") {
		t.Errorf("the log does not say it: %s", log.String())
	}
	for range 2 {
		put(t, yaml, "endpoints: {}\n", 0o600)
		r.check(true)
	}
	if b := n.webhooks.origin("https://b.example"); b.Paused {
		t.Error("a file without endpoints does not apply")
	}
}

// TestEmptiedKeyFile: a key file that a full disk or an empty secret has emptied turns no signing
// off. The old key stays, and the log says why.
func TestEmptiedKeyFile(t *testing.T) {
	dir := t.TempDir()
	all, acme, yaml := filepath.Join(dir, "all"), filepath.Join(dir, "acme"), filepath.Join(dir, "w.yaml")
	put(t, all, oneKey+"\n", 0o600)
	put(t, acme, anotherKey+"\n", 0o600)
	put(t, yaml, "webhook: {secret_file: "+all+"}\ntenants: {acme: {webhook_secret_file: "+acme+"}}\n", 0o600)
	n := withWebhooks(t, yaml)
	for _, file := range []string{all, acme} {
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var log logtest.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		r := newReloads(logger, subject{name: "webhook.secret", files: n.cfg.WebhookFiles(), load: n.loadWebhook})
		put(t, file, "\n", 0o600)
		r.check(false)
		if len(n.webhooks.keys("anybody")) != 1 || len(n.webhooks.keys("acme")) != 1 {
			t.Errorf("%s is empty, and requests are not signed", file)
		}
		if !strings.Contains(log.String(), "is empty") {
			t.Errorf("the log does not say it: %s", log.String())
		}
		put(t, file, string(before), 0o600)
	}
}

// callback.recheck: what is still to be delivered. On a channel without receipts the engine does
// not remember an emission, so only a cancel or an erasure of the trigger counts.
func TestIsLive(t *testing.T) {
	event := func(step int) *worker.DueEvent {
		e := &worker.DueEvent{ID: fmt.Sprintf("k@2026-11-20T14:00:00.000Z#%d", step), Key: "k", Step: step, Attempt: 1}
		if step > 0 {
			e.Headers = []worker.Header{{Key: "wcx-steps", Value: []byte("2")}}
		}
		return e
	}
	escalating := event(0)
	escalating.Headers = event(1).Headers
	state := func(status trigger.Status, steps ...int) *trigger.State {
		s := &trigger.State{Key: "k", Status: status}
		for _, step := range steps {
			s.Live = append(s.Live, trigger.Live{Occurrence: "2026-11-20T14:00:00.000Z", Step: step, Attempt: 1})
		}
		return s
	}
	for _, c := range []struct {
		name     string
		state    *trigger.State
		event    *worker.DueEvent
		receipts bool
		want     bool
	}{
		{"in flight", state(trigger.InFlight, 0), event(0), true, true},
		{"decided", state(trigger.Fired), event(0), true, false},
		{"unknown", nil, event(0), true, false},
		{"fired, no receipts", state(trigger.Fired), event(0), false, true},
		{"a series, no receipts", state(trigger.Pending), event(0), false, true},
		{"cancelled, no receipts", state(trigger.Cancelled), event(0), false, false},
		{"erased, no receipts", state(trigger.Erased), event(0), false, false},
		{"cancelled before it was known, no receipts", state(trigger.Unknown), event(0), false, false},
		{"unknown, no receipts", nil, event(0), false, false},
		{"first step waits for the next, no receipts", state(trigger.InFlight, 0), escalating, false, true},
		{"first step, acknowledged, no receipts", state(trigger.Fired), escalating, false, false},
		{"last step, no receipts", state(trigger.Fired), event(1), false, true},
	} {
		if got := isLive(c.state, c.event, c.receipts); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// An owner that has lost its partition may answer before it knows. What it does not show in flight yet was not
// cancelled.
func TestOwnerIsBehind(t *testing.T) {
	const occurrence = "2026-11-20T14:00:00.000Z"
	event := &worker.DueEvent{ID: "k@" + occurrence + "#1", Key: "k", Occurrence: occurrence, Step: 1, Attempt: 2}
	live := func(step, attempt int) *trigger.State {
		return &trigger.State{
			Key: "k", Status: trigger.InFlight,
			Live: []trigger.Live{{Occurrence: occurrence, Step: step, Attempt: attempt}},
		}
	}
	planned := func(status trigger.Status, occurrence string) *trigger.State {
		return &trigger.State{Key: "k", Status: status, Series: trigger.Series{Occurrence: occurrence, At: 1}}
	}
	for _, c := range []struct {
		name  string
		state *trigger.State
		want  bool
	}{
		{"not yet fired", planned(trigger.Pending, occurrence), true},
		{"at the attempt before", live(1, 1), true},
		{"at the step before", live(0, 5), true},
		{"in flight", live(1, 2), false},
		{"at a later attempt", live(1, 3), false},
		{"at a later step", live(2, 1), false},
		{"fired, and the next is planned", planned(trigger.Pending, "2026-11-21T14:00:00.000Z"), false},
		{"cancelled", planned(trigger.Cancelled, occurrence), false},
		{"unknown", nil, false},
	} {
		if got := isBehind(c.state, event); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Many tenants call one origin. The calls of some hang, more than any connection limit that all
// tenants share. The calls of another tenant still go out at once.
func TestSharedOriginThatHangs(t *testing.T) {
	c, err := config.Load(config.Options{Dev: true, Flags: map[string]string{"data_dir": t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	var hanging atomic.Int32
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			hanging.Add(1)
			<-release
		}
	}))
	defer s.Close()
	policy, err := egress.NewPolicy(egress.Settings{Loopback: true})
	if err != nil {
		t.Fatal(err)
	}
	w, err := webhook.New(webhook.Options{
		Policy: policy, Transport: egress.NewTransport(egress.Options{Policy: policy, Limits: webhookLimits(c)}),
		Concurrency: c.Webhook.Concurrency,
	})
	if err != nil {
		t.Fatal(err)
	}
	call := func(tenant, path, timeout string) worker.Outcome {
		r, err := w.Handle(t.Context(), &worker.DueEvent{
			Key: tenant + "/k", Tenant: tenant, ID: tenant + "/k@2026-11-20T14:00:00.000Z#0", Attempt: 1,
			Headers: []worker.Header{{
				Key: "wcx-callback", Value: []byte(`{"url":"` + s.URL + path + `","timeout":"` + timeout + `"}`),
			}},
		})
		if err != nil {
			t.Error(err)
		}
		return r.Outcome
	}
	var calls sync.WaitGroup
	defer calls.Wait()
	defer close(release)
	for _, tenant := range []string{"a", "b", "c"} {
		for range 100 {
			calls.Go(func() { call(tenant, "/hang", "60s") })
		}
	}
	for begun := time.Now(); hanging.Load() < 256 && time.Since(begun) < 30*time.Second; {
		time.Sleep(10 * time.Millisecond)
	}
	if got := call("victim", "/ok", "5s"); got != worker.OutcomeDelivered {
		t.Errorf("%s while %d calls of others hang, want delivered", got, hanging.Load())
	}
}
