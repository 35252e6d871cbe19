package webhook

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
)

// calls makes n requests with the given outcome.
func (e *endpoint) calls(t *testing.T, n int, o outcome) {
	t.Helper()
	for range n {
		p, _, ok := e.enter()
		if !ok {
			t.Fatalf("the breaker is %s", e.status(time.Now()).State)
		}
		p.leave(o, "")
	}
}

func (e *endpoint) is(t *testing.T, want State) {
	t.Helper()
	if got := e.status(time.Now()).State; got != want {
		t.Fatalf("the breaker is %s, want %s", got, want)
	}
}

// The breaker opens for 60 s if over half of at least 20 requests within 30 s failed. Then 5
// probes follow.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint("acme", "https://a.example", DefaultBreaker)
		e.calls(t, 20, good)
		e.calls(t, 20, bad)
		e.is(t, Closed) // half, not over half
		few := newEndpoint("acme", "https://a.example", DefaultBreaker)
		few.calls(t, 19, bad)
		few.is(t, Closed)
		e.calls(t, 1, bad)
		e.is(t, Open)
		if _, wait, ok := e.enter(); ok || wait != time.Minute {
			t.Fatalf("an open breaker lets %v through, wait %v", ok, wait)
		}
		if until := e.status(time.Now()).Until; !until.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("until %v", until)
		}
		time.Sleep(time.Minute)
		e.is(t, HalfOpen)

		var trying []permit
		for range probes {
			p, _, ok := e.enter()
			if !ok {
				t.Fatal("no probe")
			}
			trying = append(trying, p)
		}
		if _, _, ok := e.enter(); ok {
			t.Fatal("a sixth probe")
		}
		for _, p := range trying[:3] {
			p.leave(bad, "")
		}
		e.is(t, Open) // for another 60 s
		time.Sleep(time.Minute)
		e.calls(t, 3, good)
		e.is(t, Closed)
		trying[3].leave(bad, "") // requests from the previous state do not count
		trying[4].leave(bad, "")
		e.is(t, Closed)
		if s := e.status(time.Now()); s.InFlight != 0 || s.OK != 23 || s.Failed != 26 {
			t.Errorf("%+v", s)
		}
	})
}

// Failures before the window do not count.
func TestBreakerWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint("acme", "https://a.example", DefaultBreaker)
		e.calls(t, 15, bad)
		time.Sleep(40 * time.Second)
		e.calls(t, 15, bad)
		e.is(t, Closed)
	})
}

// Requests that hang since before the breaker opened do not take probes' permits, and an
// abandoned probe does not keep one for ever.
func TestBreakerPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint("acme", "https://a.example", DefaultBreaker)
		var hung []permit
		for range 50 {
			p, _, _ := e.enter()
			hung = append(hung, p)
		}
		e.calls(t, 20, bad)
		time.Sleep(time.Minute)
		p, _, ok := e.enter()
		if !ok {
			t.Fatal("no probe")
		}
		for _, h := range hung {
			h.leave(bad, CodeTimeout)
		}
		e.is(t, HalfOpen)
		for range probes - 1 {
			if _, _, ok := e.enter(); !ok {
				t.Fatal("what hung took the probe's place")
			}
		}
		if _, _, ok := e.enter(); ok {
			t.Fatal("what hung made more places")
		}
		p.leave(nothing, "")
		for range 2 * probes {
			if p, _, ok := e.enter(); ok {
				p.leave(nothing, "")
			}
		}
		time.Sleep(time.Minute)
		if _, _, ok := e.enter(); !ok {
			t.Error("probes that were given up keep their places")
		}
	})
}

// The number of endpoints is bounded. The oldest is dropped first; open breakers and endpoints
// with running calls are dropped last.
func TestEndpointsBound(t *testing.T) {
	now := time.Now()
	s := newEndpoints(DefaultBreaker, 10, time.Hour, func() time.Time { return now })
	first := s.get("acme", "https://open.example")
	first.calls(t, 20, bad)
	under, _, _ := s.get("acme", "https://busy.example").enter()
	for i := range 1000 {
		s.get("acme", fmt.Sprintf("https://%d.example", i))
		if n := len(s.all()); n > 10 {
			t.Fatalf("%d endpoints, at most 10", n)
		}
	}
	if s.get("acme", "https://open.example") != first || s.get("acme", "https://busy.example") != under.endpoint {
		t.Error("an open or busy one was forgotten while others were idle")
	}
	now = now.Add(2 * time.Hour)
	s.sweep()
	if all := s.all(); len(all) != 1 || all[0] != under.endpoint {
		t.Errorf("%d left after a long time without calls", len(all))
	}
	under.leave(good, "")

	open := newEndpoints(DefaultBreaker, 100, time.Hour, time.Now) // all are open, so the oldest is dropped
	for i := range 300 {
		open.get("acme", fmt.Sprintf("https://%d.example", i)).calls(t, 20, bad)
	}
	if n := len(open.all()); n != 100 {
		t.Errorf("%d endpoints, at most 100", n)
	}
}

// An open breaker is kept for as long as it is open, and then for as long as others, so that
// probes come first.
func TestSweepKeepsOpenBreakers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := DefaultBreaker
		b.Open = 30 * time.Minute
		s := newEndpoints(b, 10, 10*time.Minute, time.Now)
		s.get("acme", "https://a.example").calls(t, 20, bad)
		s.get("acme", "https://b.example").calls(t, 20, good)
		for _, after := range []time.Duration{11 * time.Minute, 20 * time.Minute} {
			time.Sleep(after)
			s.sweep()
			if n := len(s.all()); n != 1 {
				t.Fatalf("%d endpoints after %v more", n, after)
			}
		}
		s.all()[0].is(t, HalfOpen)
		time.Sleep(10 * time.Minute)
		s.sweep()
		if n := len(s.all()); n != 0 {
			t.Errorf("%d endpoints are kept for ever", n)
		}
	})
}

// Events that a breaker postpones use no turns of their origin's rate, which is one for all
// tenants.
func TestBreakerTakesNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hang chan struct{}
		w := newTestWorker(t, with(func(r *http.Request) (*http.Response, error) {
			if hang != nil && r.URL.Path == "/bad" {
				<-hang
			}
			return status(map[string]int{"/bad": 500, "/good": 200}[r.URL.Path])(r)
		}), func(o *Options) {
			o.Origin = func(string) Origin { return Origin{Rate: 1} }
		})
		mine, other := due("mine/1", to("https://a.example/good")), due("other/1", to("https://a.example/bad"))
		mine.Tenant, other.Tenant = "mine", "other"
		sentAtOnce := func(state State) {
			t.Helper()
			time.Sleep(2 * time.Second) // the next turn is free
			for range 5 {
				if r := w.one(t, other); r.Code != CodeOpen {
					t.Fatalf("%s: %+v", state, r)
				}
			}
			begin := time.Now()
			if r := w.one(t, mine); r.Outcome != worker.OutcomeDelivered || time.Since(begin) != 0 {
				t.Errorf("%s: %+v after %v", state, r, time.Since(begin))
			}
		}
		for range 20 {
			w.one(t, other)
		}
		sentAtOnce(Open)
		time.Sleep(time.Minute)
		hang = make(chan struct{})
		for range probes { // all probes are under way
			go func() { _, _ = w.Handle(context.Background(), other) }()
			time.Sleep(2 * time.Second)
		}
		sentAtOnce(HalfOpen)
		close(hang)
		synctest.Wait()
	})
}

// A tenant's failures do not stop another tenant's calls to the same origin.
func TestBreakerIsATenants(t *testing.T) {
	code := map[string]int{}
	w := newTestWorker(t, with(func(r *http.Request) (*http.Response, error) {
		return status(code[r.URL.Path])(r)
	}))
	code["/bad"], code["/good"] = 500, 200
	mine := func(e *worker.DueEvent) { e.Tenant = "mine" }
	for i := range 25 {
		other := func(e *worker.DueEvent) { e.Tenant = "other" }
		r := w.one(t, due(fmt.Sprintf("other/%d", i), to("https://a.example/bad"), other))
		if want := map[bool]string{true: CodeServerError, false: CodeOpen}[i < 20]; r.Code != want {
			t.Fatalf("call %d: %+v, want %s", i, r, want)
		}
	}
	if r := w.one(t, due("mine/1", to("https://a.example/good"), mine)); r.Outcome != worker.OutcomeDelivered {
		t.Errorf("%+v", r)
	}
	if r := w.one(t, due("mine/1", to("https://b.example/good"), mine)); r.Outcome != worker.OutcomeDelivered {
		t.Errorf("%+v", r)
	}
}
