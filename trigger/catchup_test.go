package trigger

import (
	"slices"
	"testing"
	"time"
)

// TestCatchingUp: the caller spaces the timers of a missed run under fire_all, and no others.
func TestCatchingUp(t *testing.T) {
	at := instant("2026-03-02T10:00:00Z")
	const jitter = 10_000
	missed := at + jitter + 60_001 // a millisecond past misfire_after
	for _, c := range []struct {
		name   string
		change func(s *State, timer *Timer, now *Instant)
		want   bool
	}{
		{"missed by a millisecond", func(*State, *Timer, *Instant) {}, true},
		{"just not missed", func(_ *State, _ *Timer, now *Instant) { *now-- }, false},
		{"missed but for the jitter", func(_ *State, _ *Timer, now *Instant) { *now -= jitter }, false},
		{"put off until now", func(_ *State, timer *Timer, now *Instant) { timer.Due = *now }, true},
		{"put off", func(_ *State, timer *Timer, now *Instant) { timer.Due = *now + 1 }, false},
		{"a retry", func(_ *State, timer *Timer, _ *Instant) { timer.Kind = TimerLive }, false},
		{"fire_once", func(s *State, _ *Timer, _ *Instant) { s.Spec.Misfire = FireOnce }, false},
		{"a one-shot", func(s *State, _ *Timer, _ *Instant) { s.Spec.When.Kind = WhenInstant }, false},
		{"paused", func(s *State, _ *Timer, _ *Instant) { s.Status = Paused }, false},
		{"stale", func(s *State, _ *Timer, _ *Instant) { s.Series.Occurrence = "another" }, false},
	} {
		s := &State{
			Status: Pending, Spec: Spec{When: When{Kind: WhenRecurrence}, Misfire: FireAll},
			Series: Series{At: at, Jitter: jitter, Occurrence: "planned"},
		}
		timer, now := Timer{Due: at + jitter, Kind: TimerSeries, Occurrence: "planned"}, missed
		c.change(s, &timer, &now)
		if got := newMachine().CatchingUp(s, timer, now); got != c.want {
			t.Errorf("%s: catching up: %v", c.name, got)
		}
	}
}

// TestLatestOfARun: of a missed run, fire_all fires the latest, of those that were not skipped.
func TestLatestOfARun(t *testing.T) {
	for _, c := range []struct {
		name, rule string
		skip       []string
		until      string
		want       []string
	}{
		{"as many as fire", "every:1h", nil, "12:30", []string{"10:00", "11:00", "12:00"}},
		{"one more", "every:1h", nil, "13:30", []string{"11:00", "12:00", "13:00"}},
		{"many more", "every:1h", nil, "20:30", []string{"18:00", "19:00", "20:00"}},
		{"skipped in between", "every:1h", []string{"13:00"}, "15:30", []string{"12:00", "14:00", "15:00"}},
		{"latest two skipped", "every:1h", []string{"14:00", "15:00"}, "15:30", []string{"11:00", "12:00", "13:00"}},
		{"skipped to as many", "every:1h", []string{"11:00"}, "13:30", []string{"10:00", "12:00", "13:00"}},
		{
			"dense, and then sparse", "FREQ=MINUTELY;INTERVAL=20;BYHOUR=10,22", nil, "22:30",
			[]string{"10:40", "22:00", "22:20"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, instant("2026-03-02T09:00:00Z"))
			w.machine.MaxCatchUp = 3
			spec := every("1h")
			spec.When.Recurrence, spec.When.Start, spec.Misfire = c.rule, "2026-03-02T10:00:00", FireAll
			w.command(&Command{Op: OpRegister, Key: "k", From: w.origin(), Spec: spec, Hash: contentOf(spec)})
			for _, at := range c.skip {
				w.command(&Command{Op: OpSkip, Key: "k", From: w.origin(), Occurrence: "2026-03-02T" + at + ":00Z"})
			}
			var got []string
			w.observe = func(_ Instant, _ *State, out Outcome) {
				for _, f := range out.Fires {
					got = append(got, f.Nominal.Time().UTC().Format("15:04"))
				}
			}
			w.outage(instant("2026-03-02T" + c.until + ":00Z"))
			w.advance(w.now.Add(time.Second))
			if !slices.Equal(got, c.want) {
				t.Errorf("fired %v, want %v", got, c.want)
			}
		})
	}
}
