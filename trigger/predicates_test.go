package trigger

import (
	"strings"
	"testing"
)

// TestParseKeyAtItsEdges: control characters are refused, and their neighbours are not.
func TestParseKeyAtItsEdges(t *testing.T) {
	for _, c := range []struct {
		key  string
		good bool
	}{
		{strings.Repeat("k", MaxKeyBytes), true},
		{strings.Repeat("k", MaxKeyBytes+1), false},
		{"a\x1fb", false},
		{"a b", true},
		{"a~b", true},
		{"a\x7fb", false},
		{"a\u0080b", false},
		{"a\u009fb", false},
		{"a\u00a0b", true},
		{"a\nb", false},
	} {
		if _, err := ParseKey([]byte(c.key)); (err == nil) != c.good {
			t.Errorf("%q: %v", c.key, err)
		}
	}
}

// TestGoesTo: a trigger goes to its channel, and to those of its escalation.
func TestGoesTo(t *testing.T) {
	s := &Spec{Channel: "push", Escalation: []Step{{Channel: "push"}, {Channel: "sms"}}}
	for channel, want := range map[string]bool{"push": true, "sms": true, "email": false} {
		if s.GoesTo(channel) != want {
			t.Errorf("%s: %v", channel, !want)
		}
	}
	if plain := (&Spec{Channel: "push"}); !plain.GoesTo("push") || plain.GoesTo("sms") {
		t.Error("a trigger without escalation goes to its channel alone")
	}
}

// TestWaitsForReceipt: only a timer of an open occurrence may be made stale by a receipt. A timer
// that belongs to nothing waits for none.
func TestWaitsForReceipt(t *testing.T) {
	flying := Live{Kind: LiveInFlight, Occurrence: "a", Due: 1000}
	snoozed := Live{Kind: LiveSnoozed, Occurrence: "b", Due: 1000}
	stepped := Live{Kind: LiveInFlight, Occurrence: "c", Due: 5000, NextStep: 2000, Step: 0}
	s := &State{Status: Pending, Live: []Live{flying, snoozed, stepped}}
	live := func(due Instant, occurrence string) Timer {
		return Timer{Kind: TimerLive, Due: due, Occurrence: occurrence}
	}
	for _, c := range []struct {
		name  string
		timer Timer
		want  bool
	}{
		{"the time-out of the first occurrence", live(1000, flying.timerName()), true},
		{"its time-out of another attempt", live(999, flying.timerName()), false},
		{"a snooze", live(1000, snoozed.timerName()), false},
		{"the next step", live(2000, stepped.nextStepName()), true},
		{"the time-out beside the next step", live(5000, stepped.timerName()), true},
		{"the next step of another time", live(2001, stepped.nextStepName()), false},
		{"unknown", live(1000, "z"), false},
		{"the series", Timer{Kind: TimerSeries, Due: 1000, Occurrence: flying.timerName()}, false},
	} {
		if got := s.WaitsForReceipt(c.timer); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
