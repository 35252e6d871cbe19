package trigger

import (
	"reflect"
	"testing"
	"time"
)

// TestStaleTimers: a timer that its trigger no longer has may still come out of
// the wheel, and does nothing then. Each way to lose one is tried with all that
// the trigger had before.
func TestStaleTimers(t *testing.T) {
	const minute = Instant(60_000)
	for _, c := range []struct {
		name   string
		snooze bool // before it
		keeps  bool // a series keeps its own timer
		stale  func(w *world) Outcome
	}{
		{"cancelled", false, false, order(OpCancel)},
		{"paused", false, false, order(OpPause)},
		{"paused with a snooze beside the series", true, false, order(OpPause)},
		{"snoozed", false, true, order(OpSnooze)},
		{"put off, as its topic refuses it", false, false, func(w *world) Outcome {
			s := w.states["k"]
			return w.machine.PutOff(s, s.Timers(nil)[0], w.now+minute, "refused", false)
		}},
		{"erased", true, false, order(OpErase)},
	} {
		for _, recurrence := range []string{"", "every:1m"} {
			t.Run(c.name+" "+recurrence, func(t *testing.T) {
				w := newWorld(t, instant("2026-03-02T09:00:00Z"))
				when := When{Kind: WhenDelay, DelayText: "1m", Delay: time.Minute}
				if recurrence != "" {
					when = When{Kind: WhenRecurrence, Recurrence: recurrence}
				}
				spec := &Spec{When: when, Channel: "default", UserID: "u", Priority: Normal}
				w.command(&Command{Op: OpRegister, Key: "k", From: w.origin(), Spec: spec, Hash: contentOf(spec)})
				if c.snooze {
					order(OpSnooze)(w)
				}
				had := w.states["k"].Timers(nil)
				now := c.stale(w).State
				for _, old := range had {
					if hasTimer(now, old) != (c.keeps && recurrence != "") {
						t.Errorf("%+v is there: %v", old, hasTimer(now, old))
					}
					if hasTimer(now, old) {
						continue
					}
					if out := w.machine.Due(now, old, old.Due+minute); len(out.Fires) > 0 || out.Changed {
						t.Errorf("%+v went: %+v", old, out)
					}
				}
			})
		}
	}
}

// order is a command of an op alone; a snooze is for five minutes.
func order(op Op) func(*world) Outcome {
	return func(w *world) Outcome {
		c := &Command{Op: op, Key: "k", From: w.origin()}
		if op == OpSnooze {
			c.For = 5 * time.Minute
		}
		return w.command(c)
	}
}

func hasTimer(s *State, t Timer) bool {
	for _, has := range s.Timers(nil) {
		if has == t {
			return true
		}
	}
	return false
}

// TestDecisionsAreApart: two decisions about one state know nothing of each
// other. A turn that is given up leaves nothing behind in the next.
func TestDecisionsAreApart(t *testing.T) {
	w := newWorld(t, instant("2026-03-02T09:00:00Z"))
	spec := &Spec{
		When:    When{Kind: WhenRecurrence, Recurrence: "FREQ=DAILY", Zone: "UTC", Start: "2026-03-02T12:00:00"},
		Channel: "push", UserID: "u", Priority: Normal,
	}
	w.command(&Command{
		Op: OpRegister, Key: "k", From: w.origin(), Spec: spec, Hash: contentOf(spec),
		IdempotencyKey: "i0",
	})
	for i := range 3 { // three of each: an odd number leaves room behind a slice
		replanned := *spec
		replanned.Payload = []byte{byte(i)}
		w.command(&Command{
			Op: OpRegister, Key: "k", From: w.origin(), Spec: &replanned, Hash: contentOf(&replanned),
			IdempotencyKey: string(replanned.Payload),
		})
	}
	for _, day := range []string{"2026-03-05", "2026-03-06", "2026-03-07"} {
		w.command(&Command{Op: OpSkip, Key: "k", From: w.origin(), Occurrence: day})
		w.command(&Command{Op: OpRunNow, Key: "k", From: w.origin()})
		w.advance(w.now.Add(time.Second))
	}
	s := w.states["k"]
	decisions := []func() Outcome{
		func() Outcome {
			return w.machine.Apply(s, &Command{Op: OpSkip, Key: "k", From: w.origin(), Occurrence: "2026-03-08"}, w.now)
		},
		func() Outcome {
			return w.machine.Apply(s, &Command{Op: OpSkip, Key: "k", From: w.origin(), Occurrence: "2026-03-09"}, w.now)
		},
		func() Outcome { return w.machine.Apply(s, &Command{Op: OpRunNow, Key: "k", From: w.origin()}, w.now) },
		func() Outcome {
			return w.machine.Apply(s, &Command{Op: OpSnooze, Key: "k", From: w.origin(), For: time.Hour}, w.now)
		},
		func() Outcome { return w.machine.Apply(s, &Command{Op: OpAck, Key: "k", From: w.origin()}, w.now) },
		func() Outcome { return w.machine.Due(s, s.Timers(nil)[0], s.Timers(nil)[0].Due) },
		func() Outcome {
			other := *spec
			other.Payload = []byte("other")
			return w.machine.Apply(s, &Command{
				Op: OpRegister, Key: "k", From: w.origin(), Spec: &other,
				Hash: contentOf(&other), IdempotencyKey: "other",
			}, w.now)
		},
	}
	for i, first := range decisions {
		out := first()
		copied := deepCopy(out.State)
		for j, second := range decisions {
			if second(); !reflect.DeepEqual(out.State, copied) {
				t.Fatalf("decision %d changed what %d had decided", j, i)
			}
		}
	}
}
