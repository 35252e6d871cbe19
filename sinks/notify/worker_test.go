package notify_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/clients/go/worker/workertest"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/preferences/embedded"
	"github.com/waterclock/waterclock/sinks/consent"
	"github.com/waterclock/waterclock/sinks/notify"
	"github.com/waterclock/waterclock/sinks/notify/templates"
)

// fake is a provider with answers by address.
type fake struct {
	name    string
	mu      sync.Mutex
	answers map[string]notify.Answer // by address; the default is accepted
	got     []notify.Message
	before  func(*notify.Message) // called before an answer; may panic
}

func (f *fake) Name() string { return f.name }
func (f *fake) Close() error { return nil }

func (f *fake) Send(_ context.Context, m *notify.Message) notify.Answer {
	if f.before != nil {
		f.before(m)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.got = append(f.got, *m)
	if a, ok := f.answers[m.Address]; ok {
		return a
	}
	return notify.Answer{Result: worker.Accepted()}
}

func (f *fake) sent() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var to []string
	for _, m := range f.got {
		to = append(to, m.Address)
	}
	slices.Sort(to)
	return to
}

// away is a store that does not answer.
type away struct{ preferences.Store }

func (away) Get(context.Context, []preferences.User) ([]*preferences.Preferences, error) {
	return nil, errors.Join(preferences.ErrAway, errors.New("down"))
}

// world is a worker with a store of preferences, and a clock that the test sets.
type world struct {
	t     *testing.T
	store *embedded.Store
	now   time.Time
	w     *notify.Worker
}

var ada = preferences.User{Tenant: "acme", ID: "ada"}

func newWorld(t *testing.T, channel string, providers []notify.Provider, change ...func(*notify.Options)) *world {
	t.Helper()
	s, err := embedded.Open(embedded.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	x := &world{t: t, store: s, now: time.Date(2026, 11, 20, 14, 0, 1, 0, time.UTC)}
	now := func() time.Time { return x.now }
	o := notify.Options{
		Channel: channel, Providers: providers, Book: s, Now: now,
		Consent: consent.New(consent.Options{Store: s, Channel: channel, Now: now}),
	}
	for _, c := range change {
		c(&o)
	}
	if x.w, err = notify.New(o); err != nil {
		t.Fatal(err)
	}
	return x
}

func (x *world) put(p *preferences.Preferences) {
	x.t.Helper()
	if err := x.store.Put(x.t.Context(), ada, p); err != nil {
		x.t.Fatal(err)
	}
}

func (x *world) get() *preferences.Preferences {
	x.t.Helper()
	all, err := x.store.Get(x.t.Context(), []preferences.User{ada})
	if err != nil {
		x.t.Fatal(err)
	}
	return all[0]
}

// handle returns the result of a due event for Ada.
func (x *world) handle(payload string, more ...workertest.EventOption) worker.Result {
	x.t.Helper()
	options := append([]workertest.EventOption{
		workertest.Key("acme/pills"), workertest.User("ada"), workertest.Payload(payload),
	}, more...)
	r, err := x.w.Handle(x.t.Context(), workertest.Event(options...))
	if err != nil {
		x.t.Fatal(err)
	}
	return r
}

func (x *world) want(r worker.Result, outcome worker.Outcome, code string) {
	x.t.Helper()
	if r.Outcome != outcome || r.Code != code {
		x.t.Errorf("got %+v, want %s %q", r, outcome, code)
	}
}

func tokens(all ...string) *preferences.Preferences {
	p := &preferences.Preferences{}
	for _, one := range all {
		provider, token, _ := strings.Cut(one, ":")
		p.Addresses.Push = append(p.Addresses.Push, preferences.PushAddress{Provider: provider, Token: token})
	}
	return p
}

// A push goes to every installation. If one of two is dead, that is not a failure, and it is
// removed from the preferences. If the last one is dead, that is a failure.
func TestDeadTokens(t *testing.T) {
	dead := notify.Answer{Result: worker.Fail("UNREGISTERED", "the app was removed"), DeadAddress: true}
	fcm := &fake{name: "fcm", answers: map[string]notify.Answer{"old": dead}}
	apns := &fake{name: "apns"}
	x := newWorld(t, "push", []notify.Provider{fcm, apns})
	x.put(tokens("fcm:old", "fcm:new", "apns:phone"))
	x.want(x.handle(`{"body":"x"}`), worker.OutcomeAccepted, "")
	if got := x.get().Addresses.Push; len(got) != 2 || got[0].Token != "new" || got[1].Token != "phone" {
		t.Errorf("left %v", got)
	}
	x.want(x.handle(`{"body":"x"}`), worker.OutcomeAccepted, "")
	if got := fcm.sent(); !slices.Equal(got, []string{"new", "new", "old"}) {
		t.Errorf("sent to %v", got)
	}
	x.put(tokens("fcm:old"))
	x.want(x.handle(`{"body":"x"}`), worker.OutcomeFailed, "UNREGISTERED")
	x.want(x.handle(`{"body":"x"}`), worker.OutcomeFailed, notify.CodeNoAddress)
}

// A PUT while the provider answers is not undone.
func TestDeadTokenAgainstPut(t *testing.T) {
	fcm := &fake{name: "fcm", answers: map[string]notify.Answer{
		"old": {Result: worker.Fail("UNREGISTERED", "gone"), DeadAddress: true},
	}}
	x := newWorld(t, "push", []notify.Provider{fcm})
	x.put(tokens("fcm:old"))
	fcm.before = func(*notify.Message) { x.put(tokens("fcm:new")) }
	x.want(x.handle(`{"body":"x"}`), worker.OutcomeFailed, "UNREGISTERED")
	if got := x.get().Addresses.Push; len(got) != 1 || got[0].Token != "new" {
		t.Errorf("left %v", got)
	}
}

// A device that gets too much, or a number that the sender may not reach, does not delay other
// tenants' messages.
func TestThrottledByOneTenant(t *testing.T) {
	fcm := &fake{name: "fcm", answers: map[string]notify.Answer{
		"flooded": {Result: worker.Postpone(time.Hour, "QUOTA_EXCEEDED"), Throttled: true},
	}}
	x := newWorld(t, "push", []notify.Provider{fcm})
	x.want(x.handle(`{"body":"x","to":"flooded"}`, workertest.Key("evil/x")), worker.OutcomePostponed, "QUOTA_EXCEEDED")
	x.want(x.handle(`{"body":"x","to":"phone"}`, workertest.Key("evil/x")), worker.OutcomePostponed, notify.CodePaused)
	x.want(x.handle(`{"body":"x","to":"phone"}`), worker.OutcomeAccepted, "")
}

// One phone over its quota does not delay messages to other phones, even if all belong to one
// tenant, as without authentication. If the provider as a whole is throttled, that shows after
// three phones.
func TestThrottledAddress(t *testing.T) {
	quota := notify.Answer{
		Result: worker.Postpone(time.Minute, "QUOTA_EXCEEDED"), Throttled: true, MayBeAddress: true,
	}
	fcm := &fake{name: "fcm", answers: map[string]notify.Answer{"flooded": quota, "f2": quota, "f3": quota}}
	x := newWorld(t, "push", []notify.Provider{fcm})
	for range 4 {
		r := x.handle(`{"body":"x","to":"flooded"}`)
		if r.Outcome != worker.OutcomePostponed || r.RetryAfter != time.Minute {
			t.Errorf("%+v", r)
		}
		x.want(x.handle(`{"body":"x","to":"phone"}`), worker.OutcomeAccepted, "")
	}
	if got := fcm.sent(); !slices.Equal(got, []string{"flooded", "phone", "phone", "phone", "phone"}) {
		t.Errorf("sent to %v while one pauses", got)
	}
	x.want(x.handle(`{"body":"x","to":"f2"}`), worker.OutcomePostponed, "QUOTA_EXCEEDED")
	x.want(x.handle(`{"body":"x","to":"f3"}`), worker.OutcomePostponed, "QUOTA_EXCEEDED")
	x.want(x.handle(`{"body":"x","to":"phone"}`), worker.OutcomePostponed, notify.CodePaused)
	x.now = x.now.Add(time.Minute)
	x.want(x.handle(`{"body":"x","to":"phone"}`), worker.OutcomeAccepted, "")
}

// A tenant whose messages hang leaves capacity for others.
func TestHangingTenant(t *testing.T) {
	hang, held := make(chan struct{}), make(chan struct{}, 100)
	smtp := &fake{name: "smtp", before: func(m *notify.Message) {
		if m.Tenant == "evil" {
			held <- struct{}{}
			<-hang
		}
	}}
	x := newWorld(t, "email", []notify.Provider{smtp}, func(o *notify.Options) { o.Concurrency = 6 })
	const payload = `{"body":"x","to":"a@evil.example"}`
	x.want(x.handle(payload), worker.OutcomeAccepted, "") // another tenant is active, too
	var all sync.WaitGroup
	defer all.Wait()
	defer close(hang)
	for range 4 { // 2 * (6-3) > 3, and 2 * (6-4) is not
		all.Go(func() { x.handle(payload, workertest.Key("evil/x")) })
	}
	for range 4 {
		<-held
	}
	fifth := make(chan worker.Result, 1)
	all.Go(func() { fifth <- x.handle(payload, workertest.Key("evil/x")) })
	select {
	case r := <-fifth:
		x.want(r, worker.OutcomePostponed, notify.CodeShare)
	case <-held:
		t.Error("a fifth one is under way")
	}
	x.want(x.handle(payload), worker.OutcomeAccepted, "")
}

// A provider that wants fewer messages gets none for the requested time, for any user of the
// tenant. Other providers continue.
func TestThrottled(t *testing.T) {
	fcm := &fake{name: "fcm", answers: map[string]notify.Answer{
		"busy": {Result: worker.Postpone(time.Minute, "QUOTA_EXCEEDED"), Throttled: true},
	}}
	apns := &fake{name: "apns"}
	x := newWorld(t, "push", []notify.Provider{fcm, apns})
	x.put(tokens("fcm:other"))
	x.want(x.handle(`{"body":"x","to":"fcm:busy"}`), worker.OutcomePostponed, "QUOTA_EXCEEDED")
	r := x.handle(`{"body":"x"}`)
	x.want(r, worker.OutcomePostponed, notify.CodePaused)
	if r.RetryAfter != time.Minute {
		t.Errorf("%+v", r)
	}
	x.put(tokens("fcm:other", "apns:phone"))
	x.want(x.handle(`{"body":"x"}`), worker.OutcomeAccepted, "") // apns accepted it
	if got := fcm.sent(); !slices.Equal(got, []string{"busy"}) {
		t.Errorf("sent to %v while it pauses", got)
	}
	x.now = x.now.Add(time.Minute)
	x.want(x.handle(`{"body":"x"}`), worker.OutcomeAccepted, "")
	if got := fcm.sent(); !slices.Equal(got, []string{"busy", "other"}) {
		t.Errorf("sent to %v", got)
	}
}

// A message that the preferences forbid is not sent. Quiet hours postpone it, except with high
// priority.
func TestConsent(t *testing.T) {
	twilio := &fake{name: "twilio"}
	x := newWorld(t, "sms", []notify.Provider{twilio})
	p := &preferences.Preferences{OptedOut: []string{"sms"}, Addresses: preferences.Addresses{SMS: "+4915112345678"}}
	x.put(p)
	x.want(x.handle(`{"body":"x"}`), worker.OutcomeSuppressed, preferences.CodeOptedOut)
	x.want(x.handle(`{"body":"x","to":"+4915112345679"}`, workertest.High()), worker.OutcomeSuppressed,
		preferences.CodeOptedOut)
	p = &preferences.Preferences{
		Addresses: p.Addresses, Zone: "Europe/Berlin", Quiet: &preferences.Quiet{From: 14 * 60, To: 16 * 60},
	}
	x.put(p)
	x.want(x.handle(`{"body":"x"}`), worker.OutcomePostponed, preferences.CodeQuietHours)
	if got := twilio.sent(); len(got) > 0 {
		t.Errorf("sent to %v", got)
	}
	x.want(x.handle(`{"body":"x"}`, workertest.High()), worker.OutcomeAccepted, "")
	x.now = x.now.Add(2 * time.Hour)
	x.want(x.handle(`{"body":"x"}`), worker.OutcomeAccepted, "")
}

// While the store is unavailable, high is sent if the payload has an address. No event fails
// because its address cannot be read.
func TestPreferencesAway(t *testing.T) {
	smtp := &fake{name: "smtp"}
	x := newWorld(t, "email", []notify.Provider{smtp}, func(o *notify.Options) {
		o.Consent = consent.New(consent.Options{Store: away{}, Channel: "email"})
	})
	const here = `{"body":"x","to":"ada@example.com"}`
	x.want(x.handle(here, workertest.High()), worker.OutcomeAccepted, consent.CodeUnread)
	x.want(x.handle(here), worker.OutcomePostponed, consent.CodeAway)
	x.want(x.handle(`{"body":"x"}`, workertest.High()), worker.OutcomePostponed, consent.CodeAway)
	x.want(x.handle(`{"body":"x"}`), worker.OutcomePostponed, consent.CodeAway)
	if got := smtp.sent(); len(got) != 1 {
		t.Errorf("sent to %v", got)
	}
}

// noClaims is a store that answers reads, and whose limits cannot be written.
type noClaims struct{ preferences.Store }

func (noClaims) Admit(context.Context, time.Time, preferences.Limits, []preferences.Message) ([]string, error) {
	return nil, errors.New("the disk is full")
}

// If only the limits are unknown, high is sent to the address in the preferences, in the user's language.
func TestLimitsAway(t *testing.T) {
	smtp := &fake{name: "smtp"}
	x := newWorld(t, "email", []notify.Provider{smtp}, func(o *notify.Options) {
		o.Consent = consent.New(consent.Options{
			Store: noClaims{o.Book.(preferences.Store)}, Channel: "email", DedupWindow: time.Hour, Within: time.Second,
		})
	})
	x.put(&preferences.Preferences{Locale: "de", Addresses: preferences.Addresses{Email: "ada@example.com"}})
	x.want(x.handle(`{"body":"x"}`, workertest.High()), worker.OutcomeAccepted, consent.CodeUnread)
	x.want(x.handle(`{"body":"x"}`), worker.OutcomePostponed, consent.CodeAway)
	if len(smtp.got) != 1 || smtp.got[0].Address != "ada@example.com" || smtp.got[0].Locale != "de" {
		t.Errorf("sent %+v", smtp.got)
	}
	x.put(&preferences.Preferences{})
	x.want(x.handle(`{"body":"x"}`, workertest.High()), worker.OutcomeFailed, notify.CodeNoAddress)
}

func textsIn(t *testing.T, files map[string]string) *templates.Set {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set, err := templates.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// The user's language and local time; links; and errors in templates.
func TestTemplates(t *testing.T) {
	set := textsIn(t, map[string]string{
		"pills.tmpl": `{{ define "body" }}It is {{ .LocalTime }}. {{ .Data.count }} pills.{{ end }}`,
		"pills.de.tmpl": `{{ define "title" }}Zeit{{ end }}` +
			`{{ define "body" }}Um {{ .LocalTime.Clock }}: {{ .Data.count }}. {{ .AckURL }}{{ end }}`,
		"endless.tmpl":     `{{ define "body" }}{{ range 1000000000 }}x{{ end }}{{ end }}`,
		"of-payload.tmpl":  `{{ define "title" }}{{ .Title }}!{{ end }}`,
		"unsubscribe.tmpl": `{{ define "body" }}{{ .UnsubscribeURL }}{{ end }}`,
	})
	smtp := &fake{name: "smtp"}
	x := newWorld(t, "email", []notify.Provider{smtp}, func(o *notify.Options) {
		o.Templates = func() *templates.Set { return set }
		o.AckURL = func(e *worker.DueEvent) string { return "https://wc.example/a/" + e.Key }
		o.UnsubscribeURL = func(*worker.DueEvent) string { return "https://wc.example/u" }
	})
	x.put(&preferences.Preferences{
		Locale: "de-AT", Zone: "Asia/Tokyo", Addresses: preferences.Addresses{Email: "ada@example.com"},
	})
	x.want(x.handle(`{"template_id":"pills","template_data":{"count":2}}`), worker.OutcomeAccepted, "")
	x.want(x.handle(`{"template_id":"pills","template_data":{"count":2}}`,
		workertest.LocalTime("2026-11-20T09:00:00[America/New_York]")),
		worker.OutcomeAccepted, "")
	x.want(x.handle(`{"template_id":"pills","template_data":{"count":2},"locale":"fr"}`), worker.OutcomeAccepted, "")
	x.want(x.handle(`{"template_id":"of-payload","title":"Mine","body":"b"}`), worker.OutcomeAccepted, "")
	want := []string{
		"Zeit|Um 23:00: 2. https://wc.example/a/acme/pills|de", "Zeit|Um 09:00: 2. https://wc.example/a/acme/pills|de",
		"It is 2026-11-20 23:00. 2 pills.|It is 2026-11-20 23:00. 2 pills.|", "Mine!|b|",
	}
	for i, m := range smtp.got {
		if got := m.Title + "|" + m.Body + "|" + m.Locale; got != want[i] {
			t.Errorf("got %q, want %q", got, want[i])
		}
		if m.AckURL != "" || m.UnsubscribeURL != "https://wc.example/u" {
			t.Errorf("links: %+v", m)
		}
	}
	x.handle(`{"template_id":"of-payload","title":"Mine","body":"b"}`, workertest.Step(1))
	if last := smtp.got[len(smtp.got)-1]; last.AckURL != "https://wc.example/a/acme/pills" {
		t.Errorf("the second step of an escalation shows the link %q", last.AckURL)
	}
	x.handle(`{"template_id":"of-payload","title":"Mine","body":"b"}`, workertest.Header("wcx-steps", "3"))
	if last := smtp.got[len(smtp.got)-1]; last.AckURL != "https://wc.example/a/acme/pills" || last.Body != "b" {
		t.Errorf("the first step of an escalation shows the link %q", last.AckURL)
	}
	smtp.got = smtp.got[:len(want)]
	r := x.handle(`{"template_id":"pills"}`)
	x.want(r, worker.OutcomeFailed, notify.CodeTemplate)
	if !strings.HasPrefix(r.Detail, "pills.de.tmpl:1:") {
		t.Errorf("%s: a tenant sees where templates are on this machine", r.Detail)
	}
	x.want(x.handle(`{"template_id":"endless"}`), worker.OutcomeFailed, notify.CodeTemplate)
	x.want(x.handle(`{"template_id":"nobody"}`), worker.OutcomeFailed, notify.CodeNoTemplate)
	if len(smtp.got) != len(want) {
		t.Errorf("%d sent, want %d", len(smtp.got), len(want))
	}
}

// An event that cannot be sent is not sent, and the receipt has the reason.
func TestRefused(t *testing.T) {
	fcm := &fake{name: "fcm"}
	x := newWorld(t, "push", []notify.Provider{fcm})
	x.put(tokens("apns:phone"))
	x.want(x.handle(``), worker.OutcomeFailed, notify.CodePayload)
	x.want(x.handle(`{"to":"x"}`), worker.OutcomeFailed, notify.CodePayload)
	x.want(x.handle(`{"body":"x","to":"a b"}`), worker.OutcomeFailed, notify.CodeInvalidAddress)
	x.want(x.handle(`{"body":"x"}`), worker.OutcomeFailed, notify.CodeNoProvider)
	x.put(&preferences.Preferences{})
	x.want(x.handle(`{"body":"x"}`), worker.OutcomeFailed, notify.CodeNoAddress)
	if got := fcm.sent(); len(got) > 0 {
		t.Errorf("sent to %v", got)
	}
	if _, err := notify.New(notify.Options{Channel: "push"}); err == nil {
		t.Error("a worker without a provider")
	}
	if _, err := notify.New(notify.Options{Channel: "fax", Providers: []notify.Provider{fcm}}); err == nil {
		t.Error("a worker of channel fax")
	}
}

// A provider's panic causes a retry, and does not affect other installations.
func TestPanic(t *testing.T) {
	fcm := &fake{name: "fcm", before: func(m *notify.Message) {
		if m.Address == "bad" {
			panic("bad token")
		}
	}}
	x := newWorld(t, "push", []notify.Provider{fcm})
	x.put(tokens("fcm:bad"))
	x.want(x.handle(`{"body":"x"}`), worker.OutcomeRetry, worker.CodePanic)
	x.put(tokens("fcm:bad", "fcm:good"))
	x.want(x.handle(`{"body":"x"}`), worker.OutcomeAccepted, "")
}

// When a worker ends, another one gets the event, unless it was sent.
func TestEnding(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	fcm := &fake{name: "fcm", before: func(*notify.Message) { cancel() }}
	fcm.answers = map[string]notify.Answer{"x": {Result: worker.Retry(0).WithCode("timeout")}}
	x := newWorld(t, "push", []notify.Provider{fcm})
	_, err := x.w.Handle(ctx, workertest.Event(workertest.Payload(`{"body":"x","to":"x"}`)))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if r, err := x.w.Handle(ctx, workertest.Event(workertest.Payload(`{"body":"x","to":"y"}`))); err != nil ||
		r.Outcome != worker.OutcomeAccepted {
		t.Errorf("got %+v, %v", r, err)
	}
}

func BenchmarkHandle(b *testing.B) {
	w, err := notify.New(notify.Options{Channel: "push", Providers: []notify.Provider{named{}}})
	if err != nil {
		b.Fatal(err)
	}
	e := workertest.Event(workertest.Payload(`{"title":"Pills","body":"Take two","to":"fcm:token"}`))
	b.ReportAllocs()
	for b.Loop() {
		if r, err := w.Handle(context.Background(), e); err != nil || r.Outcome != worker.OutcomeAccepted {
			b.Fatal(fmt.Sprint(r, err))
		}
	}
}

type named struct{}

func (named) Name() string { return "fcm" }
func (named) Close() error { return nil }
func (named) Send(context.Context, *notify.Message) notify.Answer {
	return notify.Answer{Result: worker.Accepted()}
}
