package webhook

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
)

// What one endpoint holds up comes back one after the other, at the rate, and never before the
// breaker lets calls out.
func TestReturns(t *testing.T) {
	var r returns
	now := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	for i := range 10_000 {
		want := time.Minute + time.Duration(i)*10*time.Millisecond
		if got := r.after(now, time.Minute, 100); got != want {
			t.Fatalf("event %d is away for %v, want %v", i, got, want)
		}
	}
	now = now.Add(2 * time.Minute) // 60 s of 100 s of them are still to come
	if got, want := r.after(now, time.Second, 100), 40*time.Second; got != want {
		t.Errorf("behind those that wait: %v, want %v", got, want)
	}
	now = now.Add(time.Hour)
	if got, want := r.after(now, time.Second, 100), time.Second; got != want {
		t.Errorf("when all are back: %v, want %v", got, want)
	}
}

// A queue that is too long comes back over half an hour, and what the breaker asks for is kept.
func TestReturnsAreBounded(t *testing.T) {
	var r returns
	now := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	var first, second int // half hours
	for range 10_000 {
		switch away := r.after(now, time.Minute, 1); {
		case away > longestAway:
			t.Fatalf("away for %v", away)
		case away < longestAway/2:
			first++
		default:
			second++
		}
	}
	if first != 1740 { // a second each from the first minute on
		t.Errorf("%d of 10,000 come back in the first half hour", first)
	}
	if got := r.after(now, 5*time.Hour, 1); got != 5*time.Hour {
		t.Errorf("an endpoint that is closed for 5 h: %v", got)
	}
}

// A herd behind an open breaker, a paused endpoint or a rate does not come back at once.
func TestHerdComesBackInTurn(t *testing.T) {
	for name, c := range map[string]struct {
		answer int
		origin Origin
		limit  int // events within a second
	}{
		"open":   {answer: 500, limit: 1000},
		"paused": {answer: 200, origin: Origin{Paused: true}, limit: 1000},
		"rate":   {answer: 200, origin: Origin{Rate: 10}, limit: 20},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newTestWorker(t, with(status(c.answer)), func(o *Options) {
				o.Origin = func(string) Origin { return c.origin }
			})
			e := due("k", to("https://a.example/"))
			for range 20 {
				w.one(t, e)
			}
			for range 30 {
				w.limiter("https://a.example", 10).Reserve() // others have the next turns
			}
			start := time.Now()
			most := 0
			by := map[int]int{}
			for range 10_000 {
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
