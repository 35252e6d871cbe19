package webhook

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
)

// A herd behind an open breaker, a paused endpoint or a rate does not come back at once.
func TestHerdComesBackInTurn(t *testing.T) {
	for name, c := range map[string]struct {
		answer  int
		origin  Origin
		tenants int
		limit   int // events within a second
	}{
		"open":   {answer: 500, tenants: 1, limit: 1000},
		"paused": {answer: 200, origin: Origin{Paused: true}, tenants: 1, limit: 1000},
		"rate":   {answer: 200, origin: Origin{Rate: 10}, tenants: 1, limit: 20},
		// The rate is one for all tenants, and so is what comes back.
		"rate of many tenants": {answer: 200, origin: Origin{Rate: 10}, tenants: 100, limit: 20},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newTestWorker(t, with(status(c.answer)), func(o *Options) {
				o.Origin = func(string) Origin { return c.origin }
			})
			e := due("k", to("https://a.example/"), func(e *worker.DueEvent) { e.Tenant = "t-0" })
			for range 20 {
				w.one(t, e)
			}
			for range 30 {
				w.limiter("https://a.example", 10).Reserve() // others have the next turns
			}
			start := time.Now()
			most := 0
			by := map[int]int{}
			for i := range 10_000 {
				e.Tenant = fmt.Sprint("t-", i%c.tenants)
				r := w.one(t, e)
				if r.Outcome != worker.OutcomePostponed {
					t.Fatalf("%s: %+v", name, r)
				}
				second := int(time.Now().Add(r.RetryAfter).Sub(start) / time.Second)
				by[second]++
				most = max(most, by[second])
			}
			if most > c.limit {
				t.Errorf("%s: %d come back within one second", name, most)
			}
		})
	}
}

// What finds too many waiting for its endpoint, or its tenant with its share, does not come back at once either.
func TestBusyComesBackInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorker(t, with(status(200)))
		for name, turnAway := range map[string]func(*worker.DueEvent) worker.Result{
			CodeFull: w.overflow, CodeShare: w.slow,
		} {
			start, by := time.Now(), map[int]int{}
			for i := range 10_000 {
				e := due(fmt.Sprint("k-", i), to("https://a.example/"))
				r := turnAway(e)
				if r.Outcome != worker.OutcomePostponed || r.Code != name {
					t.Fatalf("%+v", r)
				}
				second := int(time.Now().Add(r.RetryAfter).Sub(start) / time.Second)
				if by[second]++; by[second] > 1000 {
					t.Fatalf("%s: over 1,000 come back within one second", name)
				}
			}
			if r := turnAway(due("o", to("https://b.example/"), other)); r.RetryAfter > soon {
				t.Errorf("%s: an event of another tenant comes back after %v", name, r.RetryAfter)
			}
			if r := turnAway(due("h", to("https://a.example/"), high)); r.RetryAfter > soon {
				t.Errorf("%s: one of priority high comes back after %v", name, r.RetryAfter)
			}
		}
		time.Sleep(time.Minute)
		for i := range 1000 {
			w.slow(due("o", to("https://b.example/"), func(e *worker.DueEvent) { e.Tenant = fmt.Sprint("t-", i) }))
			time.Sleep(time.Second)
		}
		if len(w.shared) > 64 {
			t.Errorf("%d tenants are remembered", len(w.shared))
		}
	})
}

func other(e *worker.DueEvent) { e.Tenant = "other" }
func high(e *worker.DueEvent)  { e.High = true }

// A tenant that has its share is turned away at a rate, too.
func TestShareComesBackInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorker(t, with(status(200)), func(o *Options) { o.Concurrency = 10 })
		for w.shares.Enter(t.Context(), "default") { // until it has its share, and has waited for more in vain
		}
		start, by := time.Now(), map[int]int{}
		for range 3000 {
			r := w.one(t, due("k", to("https://a.example/")))
			if r.Code != CodeShare {
				t.Fatalf("%+v", r)
			}
			second := int(time.Now().Add(r.RetryAfter).Sub(start) / time.Second)
			if by[second]++; by[second] > 1000 {
				t.Fatal("over 1,000 come back within one second")
			}
		}
	})
}

// A rate that has changed applies to the next call.
func TestRateChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		per := 1.0
		w := newTestWorker(t, with(status(200)), func(o *Options) {
			o.Origin = func(string) Origin { return Origin{Rate: per} }
		})
		sent := func() (n int) {
			begun := time.Now()
			for time.Since(begun) < 10*time.Second {
				if w.one(t, due("k", to("https://a.example/"))).Outcome == worker.OutcomeDelivered {
					n++
				} else {
					time.Sleep(time.Millisecond)
				}
			}
			return n
		}
		slow := sent()
		per = 100
		if fast := sent(); slow > 12 || fast < 900 || fast > 1100 {
			t.Errorf("at 1 a second %d were sent in 10 s, at 100 a second %d", slow, fast)
		}
	})
}

// After a rate was raised, what it holds up comes back at the new rate, not behind what the old one held up.
func TestReturnsOfARaisedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		per := 1.0
		w := newTestWorker(t, with(status(200)), func(o *Options) {
			o.Origin = func(string) Origin { return Origin{Rate: per} }
		})
		heldUp := func(n int) (longest time.Duration) {
			for range 30 {
				w.limiter("https://a.example", per).Reserve() // others have the next turns
			}
			for range n {
				r := w.one(t, due("k", to("https://a.example/")))
				if r.Code != CodeRate {
					t.Fatalf("%+v", r)
				}
				longest = max(longest, r.RetryAfter)
			}
			return longest
		}
		if slow := heldUp(3000); slow < 20*time.Minute {
			t.Fatalf("at 1 a second the last of 3,000 comes back after %v", slow)
		}
		time.Sleep(time.Minute) // the turns of others are over
		per = 20
		if fast := heldUp(100); fast > 10*time.Second {
			t.Errorf("at 20 a second one of 100 comes back after %v", fast)
		}
	})
}

// An event of priority high comes back as soon as it may, however many of the others wait.
func TestHighComesBackFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorker(t, with(status(500)))
		e := due("k", to("https://a.example/"))
		for range 10_000 {
			w.one(t, e)
		}
		high := due("h", to("https://a.example/"), func(e *worker.DueEvent) { e.High = true })
		normal, first := w.one(t, e), w.one(t, high)
		if first.Outcome != worker.OutcomePostponed || first.RetryAfter > time.Minute {
			t.Errorf("high: %+v", first)
		}
		if normal.RetryAfter < 5*time.Second+first.RetryAfter {
			t.Errorf("normal comes back after %v, high after %v", normal.RetryAfter, first.RetryAfter)
		}
	})
}
