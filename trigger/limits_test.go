package trigger

import (
	"fmt"
	"testing"
	"time"
)

// TestNoRetries: an empty list of retries is one attempt; only without a list
// does the channel's profile count.
func TestNoRetries(t *testing.T) {
	w := newWorld(t, instant("2026-03-02T09:00:00Z"))
	spec := &Spec{
		When: When{Kind: WhenDelay, DelayText: "1m", Delay: time.Minute}, Channel: "webhook", Priority: Normal,
		Callback: &Callback{URL: "https://example.com", Retry: []time.Duration{}},
	}
	w.command(&Command{Op: OpRegister, Key: "k", From: w.origin(), Spec: spec, Hash: contentOf(spec)})
	w.advance(w.now.Add(time.Minute))
	s := w.states["k"]
	out := w.receive("k", &Receipt{Occurrence: s.Live[0].Occurrence, Attempt: 1, Outcome: ReceiptRetry, At: w.now})
	if len(out.Dead) != 1 || w.states["k"].Status != Failed {
		t.Errorf("after its only attempt it is %v with %+v", w.states["k"].Status, w.states["k"].Live)
	}
}

// shortestFor is a machine whose tenants have shortest periods of their own.
func shortestFor(w *world, tenants map[string]time.Duration) {
	w.machine.Timetable.MinPeriod = func(tenant string) time.Duration { return tenants[tenant] }
	w.machine.Timetable.rules = nil // as after a restart
}

func every(minutes string) *Spec {
	return &Spec{
		When:    When{Kind: WhenRecurrence, Recurrence: "every:" + minutes, Start: "2026-03-02T09:30:00", Zone: "UTC"},
		Channel: "default", Priority: Normal,
	}
}

// TestShortestPeriodOfTenants: what one tenant may register, another may not,
// whoever came first.
func TestShortestPeriodOfTenants(t *testing.T) {
	w := newWorld(t, instant("2026-03-02T09:00:00Z"))
	shortestFor(w, map[string]time.Duration{"small": time.Minute, "big": time.Hour})
	for _, k := range []Key{"big/a", "small/b", "big/c"} {
		spec := every("10m")
		out := w.command(&Command{Op: OpRegister, Key: k, From: w.origin(), Spec: spec, Hash: contentOf(spec)})
		if refused := out.Rejected != nil && out.Rejected.Code == CodePeriodTooShort; refused != (k.Tenant() == "big") {
			t.Errorf("%s: %v", k, out.Rejected)
		}
	}
}

// TestShortestPeriodRaised: a limit is asked about what is registered from then
// on. A series that was accepted goes on.
func TestShortestPeriodRaised(t *testing.T) {
	w := newWorld(t, instant("2026-03-02T09:00:00Z"))
	shortestFor(w, map[string]time.Duration{DefaultTenant: time.Minute})
	spec := every("10m")
	w.command(&Command{Op: OpRegister, Key: "k", From: w.origin(), Spec: spec, Hash: contentOf(spec)})
	shortestFor(w, map[string]time.Duration{DefaultTenant: time.Hour})
	fired := 0
	w.observe = func(_ Instant, _ *State, out Outcome) { fired += len(out.Fires) }
	w.advance(w.now.Add(2 * time.Hour))
	if s := w.states["k"]; fired != 10 || s.Status != Pending {
		t.Errorf("%d fired, and it is %v: %s", fired, s.Status, s.Note)
	}
}

// TestDatesBehindManySteps: dates that fired in one zone do not fire again in another, beside a rule that has thousands
// of occurrences before them there.
func TestDatesBehindManySteps(t *testing.T) {
	w := newWorld(t, instant("2026-03-02T02:59:50Z"))
	shortestFor(w, map[string]time.Duration{DefaultTenant: 10 * time.Second})
	var dates []string
	for i := range 20 {
		dates = append(dates, fmt.Sprintf("2026-03-02T12:00:%02d", i))
	}
	fired := map[string]int{}
	w.observe = func(_ Instant, _ *State, out Outcome) {
		for i := range out.Fires {
			fired[out.Fires[i].Occurrence]++
		}
	}
	register := func(zone, rule string) {
		spec := &Spec{
			When:    When{Kind: WhenRecurrence, Recurrence: rule, Include: dates, Zone: zone},
			Channel: "default", Priority: Normal, Misfire: FireAll,
		}
		w.command(&Command{Op: OpRegister, Key: "k", From: w.origin(), Spec: spec, Hash: contentOf(spec)})
	}
	register("Asia/Tokyo", "")
	w.advance(instant("2026-03-02T03:00:30Z"))
	register("America/New_York", "every:10s")
	w.advance(instant("2026-03-02T17:00:25Z"))
	for _, date := range dates {
		if fired[date] != 1 {
			t.Errorf("%s fired %d times", date, fired[date])
		}
	}
	if len(fired) < 5000 {
		t.Errorf("%d occurrences fired", len(fired))
	}
}
