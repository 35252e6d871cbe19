package webhook

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
)

// calls lets n requests through and says that they failed or not.
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

// Over half of at least 20 within 30 s opens it, for 60 s; then 5 try.
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
		e.is(t, Open) // again for 60 s
		time.Sleep(time.Minute)
		e.calls(t, 3, good)
		e.is(t, Closed)
		trying[3].leave(bad, "") // those of the state before count no more
		trying[4].leave(bad, "")
		e.is(t, Closed)
		if s := e.status(time.Now()); s.InFlight != 0 || s.OK != 23 || s.Failed != 26 {
			t.Errorf("%+v", s)
		}
	})
}

// Failures of longer ago than the window count no more.
func TestBreakerWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint("acme", "https://a.example", DefaultBreaker)
		e.calls(t, 15, bad)
		time.Sleep(40 * time.Second)
		e.calls(t, 15, bad)
		e.is(t, Closed)
	})
}

// Requests that hung since before the breaker opened do not take the places of
// probes, and a probe that was given up does not keep one for ever.
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

// What is remembered is bounded. The oldest goes first, open breakers and calls
// under way last.
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

	open := newEndpoints(DefaultBreaker, 100, time.Hour, time.Now) // all are open: the oldest makes room
	for i := range 300 {
		open.get("acme", fmt.Sprintf("https://%d.example", i)).calls(t, 20, bad)
	}
	if n := len(open.all()); n != 100 {
		t.Errorf("%d endpoints, at most 100", n)
	}
}

// However much others want, a tenant that comes finds places. Who is alone has
// all.
func TestShares(t *testing.T) {
	now := time.Now()
	s := newShares(1000, func() time.Time { return now })
	take := func(tenant string) (n int) {
		for s.running < s.room && s.try(tenant) {
			n++
		}
		return n
	}
	free := func(tenant string, n int) {
		for range n {
			s.leave(tenant)
		}
	}
	if n := take("a"); n != 1000 {
		t.Errorf("alone: %d of 1,000", n)
	}
	free("a", 1000)
	free("b", take("b"))
	if n := take("a"); n != 667 {
		t.Errorf("where another one may come: %d of 1,000", n)
	}
	b, c := take("b"), take("c")
	if b < 200 || c < 70 {
		t.Errorf("those that come get %d and %d", b, c)
	}
	free("a", 667)
	held := map[string]int{"b": b, "c": c}
	for range 5000 { // all want: each has its share, and places are free
		for _, tenant := range []string{"a", "b", "c"} {
			if s.try(tenant) {
				held[tenant]++
			}
		}
	}
	if left := s.room - s.running; left < 100 || held["a"] < 200 {
		t.Errorf("free %d, held %v", left, held)
	}
	for tenant, n := range held {
		free(tenant, n)
	}
	if s.running != 0 || len(s.by) != 0 {
		t.Errorf("left over: %d, %v", s.running, s.by)
	}
	free("a", take("a"))
	now = now.Add(othersCount + time.Minute)
	if n := take("a"); n != 1000 {
		t.Errorf("alone for long: %d of 1,000", n)
	}
}

// Who has its share and waits in vain for more does not wait again for a while: those
// that wait take the places of handlers from all others.
func TestSharesAreNotWaitedForInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShares(100, time.Now)
		ctx := t.Context()
		if !s.enter(ctx, "good") {
			t.Fatal("no place in an empty house")
		}
		s.leave("good")
		for s.enter(ctx, "bad") { // until it has its share; the last one waits
		}
		begun := time.Now()
		for range 1000 {
			if s.enter(ctx, "bad") {
				t.Fatal("over its share")
			}
		}
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("1,000 events of a tenant whose calls hang waited %v", waited)
		}
		if !s.enter(ctx, "good") || time.Since(begun) != 0 {
			t.Error("another tenant waits")
		}
		s.leave("good")
		time.Sleep(shareRest)
		begun = time.Now()
		time.AfterFunc(100*time.Millisecond, func() { s.leave("bad") })
		if !s.enter(ctx, "bad") || time.Since(begun) > 120*time.Millisecond {
			t.Errorf("a place that came free was not taken; waited %v", time.Since(begun))
		}
	})
}

// A tenant's failures do not stop another's calls to the same origin.
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
