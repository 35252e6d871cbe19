package webhook

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/internal/egress"
)

// Events that must not be sent are not sent, and the receipt has the reason.
func TestNotSent(t *testing.T) {
	const origin = "https://a.example"
	alive := map[string]error{"owner/away": errors.New("away")}
	for _, row := range []struct {
		name, key, callback string
		about               Origin
		want                worker.Outcome
		code                string
		least               time.Duration
	}{
		{"no callback", "k", "", Origin{}, "failed", CodeNoCallback, 0},
		{"not allowed any more", "k", to("http://a.example/"), Origin{}, "failed", CodeURL, 0},
		{"private", "k", to("https://10.0.0.1/"), Origin{}, "failed", CodeURL, 0},
		{"paused", "k", to(origin + "/x"), Origin{Paused: true}, "postponed", CodePaused, time.Minute},
		{"cancelled", "gone", `{"url":"https://a.example/","recheck":true}`, Origin{}, "suppressed", CodeCancelled, 0},
		{"owner away", "owner/away", `{"url":"https://a.example/","recheck":true}`, Origin{}, "postponed", CodeRecheck, time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			sent := 0
			w := newTestWorker(t, with(func(r *http.Request) (*http.Response, error) {
				sent++
				return status(200)(r)
			}), func(o *Options) {
				o.Origin = func(string) Origin { return row.about }
				o.Live = func(_ context.Context, e *worker.DueEvent) (bool, error) {
					return e.Key == "live", alive[e.Key]
				}
			})
			e := due(row.key, row.callback)
			if row.callback == "" {
				e.Headers = nil
			}
			r := w.one(t, e)
			if r.Outcome != row.want || r.Code != row.code || r.RetryAfter < row.least || r.Detail == "" || sent != 0 {
				t.Errorf("%+v, %d sent", r, sent)
			}
			if strings.Contains(r.Detail, "/x") {
				t.Errorf("the detail has the path of the URL: %s", r.Detail)
			}
		})
	}
	w := newTestWorker(t, with(status(200)), func(o *Options) {
		o.Live = func(context.Context, *worker.DueEvent) (bool, error) { return true, nil }
	})
	if r := w.one(t, due("live", `{"url":"https://a.example/","recheck":true}`)); r.Outcome != worker.OutcomeDelivered {
		t.Errorf("%+v", r)
	}
}

// An origin that was never called, because the settings pause it, is listed nevertheless.
func TestPausedIsListed(t *testing.T) {
	paused := true
	w := newTestWorker(t, with(status(200)), func(o *Options) {
		o.Origin = func(string) Origin { return Origin{Paused: paused} }
	})
	e := due("k", to("https://a.example/"))
	w.one(t, e)
	want := Status{Tenant: "default", Origin: "https://a.example", State: Closed, LastCode: CodePaused}
	s := w.Status()
	w.one(t, e) // which finds nothing new
	if later := w.Status(); len(s) != 1 || s[0].CalledAt.IsZero() || !slices.Equal(s, later) {
		t.Errorf("paused: %+v, then %+v", s, later)
	}
	if want.CalledAt = s[0].CalledAt; s[0] != want {
		t.Errorf("paused: %+v", s)
	}
	paused = false
	w.one(t, e)
	if s := w.Status(); len(s) != 1 || s[0].LastCode != "" || s[0].OK != 1 {
		t.Errorf("not paused any more: %+v", s)
	}
}

// An origin is paused in whatever spelling a callback has its address.
func TestPausedInAnySpelling(t *testing.T) {
	policy := loopback(t, "http://[fd00::5]:8080")
	w := newTestWorker(t, with(status(200)), func(o *Options) {
		o.Policy = policy
		o.Origin = func(origin string) Origin { return Origin{Paused: origin == "http://[fd00::5]:8080"} }
	})
	for _, text := range []string{"http://[fd00::5]:8080/", "http://[fd00:0::5]:8080/x", "http://[FD00:0:0::5]:8080"} {
		if r := w.one(t, due("k", to(text))); r.Code != CodePaused {
			t.Errorf("%s: %+v", text, r)
		}
	}
	if n := len(w.Status()); n != 1 {
		t.Errorf("%d endpoints for one origin", n)
	}
}

// An open breaker postpones events for as long as it is open, and sends nothing.
func TestOpenPostpones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		w := newTestWorker(t, with(func(r *http.Request) (*http.Response, error) {
			sent++
			return status(500)(r)
		}))
		e := due("k", to("https://a.example/"))
		for range 20 {
			w.one(t, e)
		}
		time.Sleep(20 * time.Second)
		r := w.one(t, e)
		if r.Outcome != worker.OutcomePostponed || r.Code != CodeOpen || r.RetryAfter != 40*time.Second || sent != 20 {
			t.Errorf("%+v, %d sent", r, sent)
		}
		s := w.Status()
		if len(s) != 1 || s[0].State != Open || s[0].LastCode != CodeServerError || s[0].Origin != "https://a.example" {
			t.Errorf("%+v", s)
		}
	})
}

// A rate applies to all tenants together. The worker waits for a turn that is soon; the engine
// waits for later ones.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int32
		w := newTestWorker(t, with(func(r *http.Request) (*http.Response, error) {
			sent.Add(1)
			return status(200)(r)
		}), func(o *Options) {
			o.Origin = func(origin string) Origin {
				if origin == "https://slow.example" {
					return Origin{Rate: 10}
				}
				return Origin{}
			}
		})
		var wg sync.WaitGroup
		var postponed atomic.Int32
		for i := range 40 {
			wg.Go(func() {
				either := func(e *worker.DueEvent) { e.Tenant = []string{"a", "b"}[i%2] }
				r := w.one(t, due("k", to("https://slow.example/"), either))
				if r.Outcome == worker.OutcomePostponed {
					postponed.Add(1)
					if r.Code != CodeRate || r.RetryAfter <= rateWait {
						t.Errorf("%+v", r)
					}
				}
			})
		}
		begun := time.Now()
		wg.Wait()
		if n := sent.Load(); n != 11 || postponed.Load() != 29 || time.Since(begun) != time.Second {
			t.Errorf("%d sent, %d postponed in %v", n, postponed.Load(), time.Since(begun))
		}
		if r := w.one(t, due("k", to("https://fast.example/"))); r.Outcome != worker.OutcomeDelivered {
			t.Errorf("%+v", r)
		}
	})
}

// If the worker ends in the middle of a request, there is no result, and another worker gets the
// event.
func TestGivenUp(t *testing.T) {
	w := newTestWorker(t, with(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}))
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := w.Handle(ctx, due("k", to("https://a.example/"))); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if s := w.Status()[0]; s.InFlight != 0 || s.Failed != 0 || w.shares.Running() != 0 {
		t.Errorf("%+v, %d running", s, w.shares.Running())
	}
}

// Requests have the headers of the origin, and the keys of the tenant.
func TestOriginAndTenant(t *testing.T) {
	var got http.Header
	w := newTestWorker(t, with(func(r *http.Request) (*http.Response, error) {
		got = r.Header
		return status(200)(r)
	}), func(o *Options) {
		o.Keys = func(tenant string) Keys {
			if tenant != "acme" {
				return nil
			}
			k, _ := NewKeys(newSecret)
			return k
		}
		o.Origin = func(origin string) Origin {
			if origin != "https://a.example" {
				return Origin{}
			}
			return Origin{Headers: http.Header{"Authorization": {"Bearer x"}}}
		}
	})
	w.one(t, due("acme/k", to("https://A.example:443/"), func(e *worker.DueEvent) { e.Tenant = "acme" }))
	if got.Get("Authorization") != "Bearer x" || got.Get("Webhook-Signature") == "" {
		t.Errorf("%v", got)
	}
	w.one(t, due("k", to("https://b.example/")))
	if got.Get("Authorization") != "" || got.Get("Webhook-Signature") != "" {
		t.Errorf("%v", got)
	}
}

// If a name resolves to an address that is not public, the event has failed, and the receipt says
// so. Tenants must not see the address.
func TestForbiddenAddress(t *testing.T) {
	w := newTestWorker(t, with(func(*http.Request) (*http.Response, error) {
		return nil, &egress.Error{Code: egress.CodeForbiddenAddress, Reason: "a.example leads to 10.0.0.1"}
	}))
	r := w.one(t, due("k", to("https://a.example/")))
	if r.Outcome != worker.OutcomeFailed || r.Code != CodeAddress ||
		!strings.Contains(r.Detail, "an address that may not be called") || strings.Contains(r.Detail, "10.0.0.1") {
		t.Errorf("%+v", r)
	}
}
