package consent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/clients/go/worker/workertest"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/preferences/embedded"
)

// faulty is a store that can fail.
type faulty struct {
	preferences.Store

	mu    sync.Mutex
	fail  func(ctx context.Context, call int) error // nil: never fails
	calls int
	reads [][]preferences.User
	frees int
}

func (f *faulty) broken(ctx context.Context) error {
	f.mu.Lock()
	f.calls++
	fail, call := f.fail, f.calls
	f.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(ctx, call)
}

func (f *faulty) Get(ctx context.Context, users []preferences.User) ([]*preferences.Preferences, error) {
	if err := f.broken(ctx); err != nil {
		return nil, err
	}
	f.reads = append(f.reads, users)
	return f.Store.Get(ctx, users)
}

func (f *faulty) Release(ctx context.Context, m preferences.Message) error {
	f.frees++
	if err := f.broken(ctx); err != nil {
		return err
	}
	return f.Store.Release(ctx, m)
}

// away fails every call at once. hangs waits until its context ends.
func away(context.Context, int) error { return preferences.ErrAway }

func hangs(ctx context.Context, _ int) error {
	<-ctx.Done()
	return ctx.Err()
}

// clock is a Now that the test sets.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// world is a gate with its store.
type world struct {
	t     *testing.T
	store *faulty
	clock *clock
	gate  *Gate
}

func newWorld(t *testing.T, change ...func(*Options)) *world {
	t.Helper()
	s, err := embedded.Open(embedded.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	w := &world{t: t, store: &faulty{Store: s}, clock: &clock{time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)}}
	o := Options{Store: w.store, Channel: "push", Now: w.clock.now, Within: time.Minute}
	for _, c := range change {
		c(&o)
	}
	w.gate = New(o)
	return w
}

// put stores preferences as a PUT does.
func (w *world) put(user, text string) {
	w.t.Helper()
	p, err := preferences.Decode([]byte(text), calendar.Embedded())
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.store.Put(w.t.Context(), preferences.User{Tenant: "default", ID: user}, p); err != nil {
		w.t.Fatal(err)
	}
}

func event(opts ...workertest.EventOption) *worker.DueEvent { return workertest.Event(opts...) }

// verdicts returns the verdicts on one batch, as the kit requests them.
func (w *world) verdicts(events ...*worker.DueEvent) (out []string) {
	w.t.Helper()
	ctx := worker.WithBatchValue(w.t.Context(), w.gate.OnBatch(w.t.Context(), events))
	for _, e := range events {
		out = append(out, words(w.gate.Of(ctx, e)))
	}
	return out
}

func words(v Verdict) string {
	if v.Answer == nil {
		return strings.TrimSpace("send " + v.Code)
	}
	text := fmt.Sprint(v.Answer.Outcome, " ", v.Answer.Code)
	if v.Answer.RetryAfter > 0 {
		text += " " + v.Answer.RetryAfter.Truncate(time.Millisecond).String()
	}
	return text
}

func (w *world) want(want string, e *worker.DueEvent) {
	w.t.Helper()
	if got := w.verdicts(e)[0]; got != want {
		w.t.Errorf("%s: %s, want %s", e.ID, got, want)
	}
}

func ofType(name string) workertest.EventOption {
	tags, err := json.Marshal(map[string]string{"type": name})
	if err != nil {
		panic(err)
	}
	return workertest.Header("wcx-tags", string(tags))
}

func TestVerdicts(t *testing.T) {
	w := newWorld(t)
	w.put("out", `{"opted_out_channels":["PUSH"]}`)
	w.put("sms", `{"opted_out_channels":["sms"]}`)
	w.put("picky", `{"notification_types":{"marketing":false}}`)
	w.put("asleep", `{"timezone":"Asia/Tokyo","quiet_hours":{"from":"21:00","to":"07:00"}}`) // it is 21:00 in that zone
	for _, c := range []struct {
		name string
		opts []workertest.EventOption
		want string
	}{
		{"no user", nil, "send"},
		{"an unknown user", []workertest.EventOption{workertest.User("x")}, "send"},
		{"a user that no store can have", []workertest.EventOption{workertest.User("\x00")}, "send"},
		{"opted out", []workertest.EventOption{workertest.User("out")}, "suppressed opted_out"},
		{
			"opted out, high",
			[]workertest.EventOption{workertest.User("out"), workertest.High()},
			"suppressed opted_out",
		},
		{"opted out of another channel", []workertest.EventOption{workertest.User("sms")}, "send"},
		{
			"another tenant's user", []workertest.EventOption{workertest.Key("acme/k"), workertest.User("out")}, "send",
		},
		{
			"a type",
			[]workertest.EventOption{workertest.User("picky"), ofType("marketing")},
			"suppressed notification_type",
		},
		{"another type", []workertest.EventOption{workertest.User("picky"), ofType("news")}, "send"},
		{"quiet hours", []workertest.EventOption{workertest.User("asleep")}, "postponed quiet_hours 10h0m0s"},
		{"quiet hours, high", []workertest.EventOption{workertest.User("asleep"), workertest.High()}, "send"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := event(c.opts...)
			w.want(c.want, e)
			if got := words(w.gate.Of(t.Context(), e)); got != c.want {
				t.Errorf("without a batch: %s, want %s", got, c.want)
			}
		})
	}
}

// The preferences of a batch are read by one call, and the verdicts have them.
func TestOneRead(t *testing.T) {
	w := newWorld(t)
	w.put("u1", `{"locale":"de"}`)
	events := []*worker.DueEvent{event(), event(workertest.User("u1")), event(workertest.User("u2")), event()}
	ctx := worker.WithBatchValue(t.Context(), w.gate.OnBatch(t.Context(), events))
	for _, e := range events {
		v := w.gate.Of(ctx, e)
		if (v.Preferences == nil) != (e.User == "") || e.User == "u1" && v.Preferences.Locale != "de" {
			t.Errorf("user %q: %+v", e.User, v.Preferences)
		}
	}
	if len(w.store.reads) != 1 || len(w.store.reads[0]) != 2 {
		t.Errorf("the store was asked for %v", w.store.reads)
	}
	w.verdicts(event(), event())
	if len(w.store.reads) != 1 {
		t.Error("the store was asked about nobody")
	}
}

// An opt-out applies to the very next event, and to one that has waited.
func TestNextEvent(t *testing.T) {
	w := newWorld(t)
	e := event(workertest.User("u"))
	w.want("send", e)
	ctx := worker.WithBatchValue(t.Context(), w.gate.OnBatch(t.Context(), []*worker.DueEvent{e}))
	w.put("u", `{"opted_out_channels":["push"]}`)
	w.want("suppressed opted_out", event(workertest.User("u")))
	if got := words(w.gate.Of(ctx, e)); got != "send" {
		t.Errorf("in the batch that was read before: %s", got)
	}
	w.clock.at = w.clock.at.Add(time.Second)
	if got := words(w.gate.Of(ctx, e)); got != "suppressed opted_out" {
		t.Errorf("a second later: %s", got)
	}
}

// Unreadable preferences affect only their own user: high is sent without preferences, and the
// rest is postponed until a PUT has replaced them. The store does not count as unavailable.
func TestUnreadable(t *testing.T) {
	w := newWorld(t)
	u := preferences.User{Tenant: "default", ID: "poison"}
	bad := &preferences.Preferences{Quiet: &preferences.Quiet{From: 5000, To: 5001}}
	if err := w.store.Put(t.Context(), u, bad); err != nil {
		t.Fatal(err)
	}
	w.put("out", `{"opted_out_channels":["push"]}`)
	poison, out, other := workertest.User("poison"), workertest.User("out"), workertest.User("x")
	for range 3 {
		got := w.verdicts(event(other), event(poison), event(out), event(poison, workertest.High()))
		want := []string{
			"send", "postponed preferences_away 30s", "suppressed opted_out", "send preferences_unread",
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	w.put("poison", `{"opted_out_channels":["push"]}`)
	w.want("suppressed opted_out", event(poison))
}

// Quiet hours end at the same local time, whatever clock change happens in the night. The event
// comes back at their end, and is sent then.
func TestQuietNights(t *testing.T) {
	const night = `{"timezone":%q,"quiet_hours":{"from":"22:00","to":"07:00"}}`
	for _, c := range []struct{ zone, at, end string }{
		{"Europe/Berlin", "2026-03-28T21:30:00Z", "2026-03-29T05:00:00Z"}, // an hour shorter
		{"Europe/Berlin", "2026-10-24T20:30:00Z", "2026-10-25T06:00:00Z"}, // an hour longer
		{"America/New_York", "2026-03-08T04:00:00.0005Z", "2026-03-08T11:00:00Z"},
		{"America/New_York", "2026-11-01T05:59:59.999999Z", "2026-11-01T12:00:00Z"},
		{"Australia/Lord_Howe", "2026-10-03T14:00:00Z", "2026-10-03T20:00:00Z"}, // half an hour
		{"Asia/Tokyo", "2026-11-24T15:00:00Z", "2026-11-24T22:00:00Z"},
	} {
		w := newWorld(t)
		w.put("u", fmt.Sprintf(night, c.zone))
		var err error
		if w.clock.at, err = time.Parse(time.RFC3339, c.at); err != nil {
			t.Fatal(err)
		}
		end, err := time.Parse(time.RFC3339, c.end)
		if err != nil {
			t.Fatal(err)
		}
		e := event(workertest.User("u"))
		v := w.gate.Of(t.Context(), e)
		if v.Answer == nil || v.Answer.Code != "quiet_hours" {
			t.Errorf("%s: %s", c.zone, words(v))
			continue
		}
		// A receipt has whole milliseconds.
		back := w.clock.at.Add(v.Answer.RetryAfter.Truncate(time.Millisecond))
		if back.Before(end) || back.Sub(end) > time.Millisecond {
			t.Errorf("%s: the event comes back at %v, want %v", c.zone, back, end)
		}
		w.clock.at = back
		w.want("send", e)
	}
}

// An event that was emitted before its user was erased is not sent, and makes no claim. An event
// that was emitted afterwards is sent.
func TestErased(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.DedupWindow = time.Hour })
	u := preferences.User{Tenant: "default", ID: "u"}
	if err := w.store.Erase(t.Context(), preferences.Erasure{User: u, At: w.clock.at}); err != nil {
		t.Fatal(err)
	}
	fired := func(id string, after time.Duration, opts ...workertest.EventOption) *worker.DueEvent {
		e := event(append(opts, workertest.User("u"), ofType("news"))...)
		e.ID, e.Fired = id, w.clock.at.Add(after)
		return e
	}
	w.want("suppressed erased", fired("a@1#0", -time.Hour))
	w.want("suppressed erased", fired("b@1#0", 0, workertest.High()))
	w.want("send", fired("c@1#0", time.Millisecond))
	w.want("suppressed duplicate", fired("d@1#0", time.Millisecond))
	w.want("send", event(workertest.User("v")))
}

// While the store is unavailable, high is sent, and its receipt says so. The rest waits.
func TestAway(t *testing.T) {
	w := newWorld(t)
	w.put("u", `{"opted_out_channels":["push"]}`)
	w.store.fail = away
	w.want("send preferences_unread", event(workertest.User("u"), workertest.High()))
	w.want("postponed preferences_away 30s", event(workertest.User("u")))
	w.want("send", event())
	w.store.fail = nil
	w.want("suppressed opted_out", event(workertest.User("u")))
}

// A connection that a restart has broken causes no failure, because the call is retried once.
func TestFlapping(t *testing.T) {
	w := newWorld(t)
	w.put("u", `{"opted_out_channels":["push"]}`)
	w.store.fail = func(_ context.Context, call int) error {
		if call%2 == 1 {
			return preferences.ErrAway
		}
		return nil
	}
	for range 3 {
		w.want("suppressed opted_out", event(workertest.User("u")))
	}
}

// A store that hangs delays one batch by the bound, and the following ones not at all. Then it is
// called once more.
func TestHanging(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Within = 20 * time.Millisecond })
	w.put("u", `{"opted_out_channels":["push"]}`)
	w.store.fail = hangs
	for range 3 {
		w.want("postponed preferences_away 30s", event(workertest.User("u")))
	}
	if w.store.calls != 1 {
		t.Errorf("a store that hangs was asked %d times", w.store.calls)
	}
	e := event(workertest.User("u"), workertest.High())
	ctx := worker.WithBatchValue(t.Context(), w.gate.OnBatch(t.Context(), []*worker.DueEvent{e}))
	w.store.fail = nil
	w.clock.at = w.clock.at.Add(rest)
	if got := words(w.gate.Of(ctx, e)); got != "send preferences_unread" || w.store.calls != 1 {
		t.Errorf("the batch's verdict is %s, and the store was asked %d times", got, w.store.calls)
	}
	w.want("suppressed opted_out", event(workertest.User("u")))
}

// The end of a worker does not count as a failure of the store.
func TestEnding(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.store.fail = hangs
	w.gate.OnBatch(ctx, []*worker.DueEvent{event(workertest.User("u"))})
	w.store.fail = nil
	w.want("send", event(workertest.User("u")))
}

func TestNobodyKeepsThem(t *testing.T) {
	g := New(Options{Channel: "push", DedupWindow: time.Hour})
	e := event(workertest.User("u"))
	ctx := worker.WithBatchValue(t.Context(), g.OnBatch(t.Context(), []*worker.DueEvent{e}))
	if got := words(g.Of(ctx, e)); got != "send" {
		t.Error(got)
	}
	g.After(t.Context(), e, worker.Fail("x", ""))
}

func limited(window time.Duration, caps ...Cap) func(*Options) {
	return func(o *Options) { o.DedupWindow, o.MaxPerUser = window, caps }
}

func key(s string) workertest.EventOption { return workertest.Key(s) }

func TestLimits(t *testing.T) {
	w := newWorld(t, limited(10*time.Minute, Cap{Most: 3, Within: time.Hour}))
	w.put("out", `{"opted_out_channels":["push"],"timezone":"UTC"}`)
	u := workertest.User("u")
	a := event(key("a"), u, ofType("x"))
	w.want("send", a)
	w.want("suppressed duplicate", event(key("b"), u, ofType("x")))
	w.want("send", event(key("a"), u, ofType("x"), workertest.Attempt(2))) // the same ce_id
	w.want("suppressed duplicate", event(key("b"), u, ofType("x"), workertest.Postponed(1)))
	w.want("send", event(key("a"), u, ofType("x"), workertest.Step(1))) // another step of the same occurrence
	w.want("send", event(key("c"), u, ofType("a\x00b")))
	w.want("suppressed duplicate", event(key("c2"), u, ofType("a\x00b")))
	w.want("suppressed capped", event(key("d"), u))
	w.want("send", event(key("e"), u, workertest.High()))
	w.want("suppressed duplicate", event(key("f"), u, ofType("x"), workertest.High()))
	w.want("send", event(key("g"))) // without a user
	w.want("send", event(key("h"), workertest.User("v"), ofType("x")))
	for range 5 { // events that are not sent do not count
		w.want("suppressed opted_out", event(key("i"), workertest.User("out")))
	}
	w.put("out", `{}`)
	w.want("send", event(key("j"), workertest.User("out")))
}

// A snooze is not a duplicate of the snoozed event.
func TestSnoozed(t *testing.T) {
	w := newWorld(t, limited(time.Hour))
	e := event(key("a"), workertest.User("u"), ofType("x"))
	w.want("send", e)
	for _, occurrence := range []string{"snz-1", "run-1"} {
		later := *e
		later.Occurrence, later.ID = occurrence, "a@"+occurrence+"#0"
		w.want("send", &later)
	}
}

// The events of one batch are decided in their order.
func TestLimitsOfABatch(t *testing.T) {
	w := newWorld(t, limited(0, Cap{Most: 2, Within: time.Hour}))
	var events []*worker.DueEvent
	for i := range 4 {
		events = append(events, event(key(fmt.Sprint(i)), workertest.User("u")))
	}
	got := strings.Join(w.verdicts(events...), ", ")
	if want := "send, send, suppressed capped, suppressed capped"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A permanent failure frees the claim, and so does a handler that does not send. Nothing else does.
func TestFailedIsFree(t *testing.T) {
	w := newWorld(t, limited(0, Cap{Most: 1, Within: time.Hour}))
	u := workertest.User("u")
	a := event(key("a"), u)
	w.want("send", a)
	for _, r := range []worker.Result{worker.Delivered(), worker.Retry(0), worker.Postpone(time.Second, "x")} {
		w.gate.After(t.Context(), a, r)
	}
	w.want("suppressed capped", event(key("b"), u))
	w.gate.After(t.Context(), a, worker.Fail("gone", ""))
	c := event(key("c"), u)
	w.want("send", c)
	w.gate.After(t.Context(), c, worker.Suppress("cancelled"))
	d := event(key("d"), u)
	w.want("send", d)
	w.store.fail = away
	w.gate.After(t.Context(), d, worker.Fail("gone", ""))
	w.store.fail = nil
	w.want("suppressed capped", event(key("e"), u)) // the claim could not be freed
}

// What the preferences forbid after it was claimed counts no longer.
func TestOptedOutIsFree(t *testing.T) {
	for _, c := range []struct {
		name string
		back workertest.EventOption
		then string
	}{
		{"postponed", workertest.Postponed(1), "send"},
		{"retried", workertest.Attempt(2), "suppressed capped"}, // the first attempt may have been sent
	} {
		w := newWorld(t, limited(0, Cap{Most: 1, Within: time.Hour}))
		u := workertest.User("u")
		w.want("send", event(key("a"), u))
		w.want("suppressed capped", event(key("b"), u))
		w.put("u", `{"opted_out_channels":["push"],"timezone":"UTC"}`)
		w.want("suppressed opted_out", event(key("a"), u, c.back))
		w.put("u", `{}`)
		if got := w.verdicts(event(key("c"), u)); got[0] != c.then {
			t.Errorf("%s: %s, want %s", c.name, got[0], c.then)
		}
	}
}

// An opt-out that comes while a claimed event waits for its handler frees the claim too.
func TestOptedOutInABatch(t *testing.T) {
	w := newWorld(t, limited(0, Cap{Most: 1, Within: time.Hour}))
	u := workertest.User("u")
	a := event(key("a"), u)
	b := w.gate.OnBatch(t.Context(), []*worker.DueEvent{a})
	w.put("u", `{"opted_out_channels":["push"],"timezone":"UTC"}`)
	w.clock.at = w.clock.at.Add(2 * time.Second)
	if got := words(w.gate.Of(worker.WithBatchValue(t.Context(), b), a)); got != "suppressed opted_out" {
		t.Error(got)
	}
	w.put("u", `{}`)
	w.want("send", event(key("c"), u))
}

// If a worker is killed between claim and send, all later workers get the same verdict.
func TestOneVerdict(t *testing.T) {
	w := newWorld(t, limited(time.Hour, Cap{Most: 1, Within: time.Hour}))
	u := workertest.User("u")
	sent, refused := event(key("a"), u, ofType("x")), event(key("b"), u, ofType("x"))
	w.verdicts(sent, refused) // the worker is killed after this
	w.clock.at = w.clock.at.Add(2 * time.Hour)
	other := New(Options{
		Store: w.store, Channel: "push", Now: w.clock.now, Within: time.Minute,
		DedupWindow: time.Hour, MaxPerUser: []Cap{{Most: 1, Within: time.Hour}},
	})
	for range 2 {
		if a, b := words(other.Of(t.Context(), sent)), words(other.Of(t.Context(), refused)); a != "send" ||
			b != "suppressed duplicate" {
			t.Errorf("after the kill: %s, %s", a, b)
		}
	}
}

// The limits need the store, like preferences. What these forbid is forbidden also if the limits are unknown.
func TestLimitsAway(t *testing.T) {
	w := newWorld(t, limited(time.Hour))
	w.put("out", `{"opted_out_channels":["push"],"timezone":"UTC"}`)
	w.gate.opts.Store = noClaims{w.store}
	out := event(workertest.User("out"), ofType("x"), workertest.High())
	if got := w.verdicts(out, event(workertest.User("u"), ofType("x"))); got[0] != "suppressed opted_out" {
		t.Errorf("who has opted out: %s", got[0])
	}
	w.want("postponed preferences_away 30s", event(workertest.User("u"), ofType("x")))
	w.want("send preferences_unread", event(workertest.User("u"), ofType("x"), workertest.High()))
}

type noClaims struct{ preferences.Store }

func (noClaims) Admit(context.Context, time.Time, preferences.Limits, []preferences.Message) ([]string, error) {
	return nil, errors.New("the disk is full")
}
