package check

import (
	"testing"
	"time"
)

// Only the engine's settings have a channel's jitter_low, so a trigger of priority low may be planned as late as the
// setting allows: a day.
func TestJitterOfPriorityLow(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		name     string
		what     what
		later    time.Duration
		reported int
	}{
		{"low, within the bound", what{priority: "low"}, day, 0},
		{"low, beyond it", what{priority: "low"}, day + time.Millisecond, 1},
		{"low, with a jitter of its own", what{priority: "low", jitter: 1000}, time.Minute, 1},
		{"normal", what{}, time.Millisecond, 1},
	} {
		l := &life{v: &verifier{h: &History{}, report: &Report{Counts: map[Class]int64{}}}, o: &Options{}}
		l.body = &command{what: c.what}
		l.checkNext(&event{kind: evRegistered, state: pending, scheduled: 1000, next: 1000 + c.later.Milliseconds()})
		if l.failed != c.reported {
			t.Errorf("%s: %d reported, want %d", c.name, l.failed, c.reported)
		}
	}
}
