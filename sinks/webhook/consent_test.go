package webhook

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/preferences/embedded"
	"github.com/waterclock/waterclock/sinks/consent"
)

// prefs is a store that counts its reads, and can be made unavailable. Its calls have no
// time-out, however loaded the machine is.
type prefs struct {
	*embedded.Store

	reads, users atomic.Int64
	away         atomic.Bool
}

func (p *prefs) Get(ctx context.Context, users []preferences.User) ([]*preferences.Preferences, error) {
	p.reads.Add(1)
	p.users.Add(int64(len(users)))
	if p.away.Load() {
		return nil, preferences.ErrAway
	}
	return p.Store.Get(context.WithoutCancel(ctx), users)
}

func (p *prefs) Admit(
	ctx context.Context, at time.Time, l preferences.Limits, list []preferences.Message,
) ([]string, error) {
	return p.Store.Admit(context.WithoutCancel(ctx), at, l, list)
}

func (p *prefs) put(t testing.TB, user, text string) {
	t.Helper()
	one, err := preferences.Decode([]byte(text), calendar.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Put(t.Context(), preferences.User{Tenant: "default", ID: user}, one); err != nil {
		t.Fatal(err)
	}
}

func newPrefs(t testing.TB) *prefs {
	t.Helper()
	s, err := embedded.Open(embedded.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &prefs{Store: s}
}

func gated(p *prefs, change ...func(*consent.Options)) func(*Options) {
	at := time.Now()
	o := consent.Options{Store: p, Channel: Channel, Now: func() time.Time { return at }}
	for _, c := range change {
		c(&o)
	}
	return func(w *Options) { w.Consent = consent.New(o) }
}

func of(user string) func(*worker.DueEvent) { return func(e *worker.DueEvent) { e.User = user } }

// An event that the user's preferences forbid is not sent. If the preferences could not be read,
// the receipt says so.
func TestConsent(t *testing.T) {
	p := newPrefs(t)
	p.put(t, "out", `{"opted_out_channels":["webhook"]}`)
	sent := 0
	w := newTestWorker(t, with(func(r *http.Request) (*http.Response, error) {
		sent++
		return status(200)(r)
	}), gated(p))
	high := func(e *worker.DueEvent) { e.High = true }
	want := func(e *worker.DueEvent, outcome worker.Outcome, code string, calls int) {
		t.Helper()
		sent = 0
		if r := w.one(t, e); r.Outcome != outcome || r.Code != code || sent != calls {
			t.Errorf("user %q: %+v, %d sent; want %s %q", e.User, r, sent, outcome, code)
		}
	}
	const url = "https://a.example/"
	want(due("k", to(url)), "delivered", "", 1)
	want(due("k", to(url), of("in")), "delivered", "", 1)
	want(due("k", to(url), of("out"), high), "suppressed", "opted_out", 0)
	p.away.Store(true)
	want(due("k", to(url)), "delivered", "", 1)
	want(due("k", to(url), of("in")), "postponed", consent.CodeAway, 0)
	want(due("k", to(url), of("in"), high), "delivered", consent.CodeUnread, 1)
	w.opts.Transport = status(500)
	want(due("k", to(url), of("in"), high), "retry", CodeServerError, 0)
}

// If a user opts out while an event waits for its turn, the event is not sent.
func TestConsentAfterAWait(t *testing.T) {
	p := newPrefs(t)
	var mu sync.Mutex
	now := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	w := newTestWorker(t, with(func(*http.Request) (*http.Response, error) {
		t.Error("it was sent")
		return nil, context.Canceled
	}), gated(p, func(o *consent.Options) { o.Now = clock }), func(o *Options) {
		o.Live = func(context.Context, *worker.DueEvent) (bool, error) {
			p.put(t, "u", `{"opted_out_channels":["webhook"]}`)
			mu.Lock()
			defer mu.Unlock()
			now = now.Add(2 * time.Second)
			return true, nil
		}
	})
	e := due("k", `{"url":"https://a.example/","recheck":true}`, of("u"))
	ctx := worker.WithBatchValue(t.Context(), w.opts.Consent.OnBatch(t.Context(), []*worker.DueEvent{e}))
	if r, err := w.Handle(ctx, e); err != nil || r.Code != "opted_out" {
		t.Errorf("%+v, %v", r, err)
	}
}

// An event that the preferences forbid uses no turn of its endpoint's rate.
func TestConsentTakesNoTurn(t *testing.T) {
	p := newPrefs(t)
	p.put(t, "out", `{"opted_out_channels":["webhook"]}`)
	w := newTestWorker(t, with(status(200)), gated(p), func(o *Options) {
		o.Origin = func(string) Origin { return Origin{Rate: 0.001} } // the next turn is in 1,000 s
	})
	for _, c := range []struct{ user, code string }{{"out", "opted_out"}, {"in", ""}, {"in", CodeRate}} {
		if r := w.one(t, due("k", to("https://a.example/"), of(c.user))); r.Code != c.code {
			t.Errorf("user %q: %+v, want code %q", c.user, r, c.code)
		}
	}
}

// A permanently failed call does not count against the user's cap.
func TestConsentOfAFailure(t *testing.T) {
	w := newTestWorker(t, with(status(410)), gated(newPrefs(t), func(o *consent.Options) {
		o.MaxPerUser = []consent.Cap{{Most: 1, Within: time.Hour}}
	}))
	for i := range 3 {
		if r := w.one(t, due(fmt.Sprint("gone", i), to("https://a.example/"), of("u"))); r.Code != CodeGone {
			t.Errorf("%+v", r)
		}
	}
	w.opts.Transport = status(500)
	w.one(t, due("retried", to("https://a.example/"), of("u")))
	if r := w.one(t, due("next", to("https://a.example/"), of("u"))); r.Code != preferences.CodeCapped {
		t.Errorf("behind one that is retried: %+v", r)
	}
}

// The worker kit reads the preferences per batch. Two workers, one after the other, keep a user's
// cap by claims.
func TestConsentRun(t *testing.T) {
	const n, users = 400, 40
	c, p := newCluster(t, 2), newPrefs(t)
	var mu sync.Mutex
	calls := map[string]map[string]bool{} // by user: triggers
	transport := answering(func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		user := strings.TrimSuffix(r.URL.Hostname(), ".example")
		if calls[user] == nil {
			calls[user] = map[string]bool{}
		}
		calls[user][r.Header.Get("X-Trigger-Id")] = true
		return status(200)(r)
	})
	p.put(t, "u0", `{"opted_out_channels":["webhook"]}`)
	var records []*kgo.Record
	for i := range n {
		user := fmt.Sprint("u", i%users)
		r := c.record(fmt.Sprint("k", i), to("https://"+user+".example/"))
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "ce_wcuser", Value: []byte(user)})
		records = append(records, r)
	}
	c.write(records...)
	worker := func() func() {
		return c.start(newTestWorker(t, with(transport), gated(p, func(o *consent.Options) {
			o.MaxPerUser = []consent.Cap{{Most: 3, Within: time.Hour}}
		}), func(o *Options) { o.Kafka = c.opts }))
	}
	stop := worker()
	c.receipts(n / 4)
	stop()
	worker()
	count := map[string]int{}
	for _, r := range c.receipts(n) {
		code, _ := r["code"].(string)
		count[fmt.Sprint(r["outcome"], " ", code)]++
	}
	const each, sent = n / users, 3 * (users - 1)
	want := map[string]int{"suppressed opted_out": each, "suppressed capped": n - each - sent, "delivered ": sent}
	if !maps.Equal(count, want) {
		t.Errorf("receipts %v, want %v", count, want)
	}
	mu.Lock()
	defer mu.Unlock()
	for user, triggers := range calls {
		if len(triggers) != 3 {
			t.Errorf("%s has %d messages", user, len(triggers))
		}
	}
	if len(calls) != users-1 {
		t.Errorf("%d users were called", len(calls))
	}
	if reads, users := p.reads.Load(), p.users.Load(); reads >= users {
		t.Errorf("the store was asked %d times about %d events", reads, users)
	}
}
