package check

import (
	"testing"
	"time"
)

// TestReceiptForNothingKeepsNoTrigger checks that a finished trigger may be forgotten a horizon after its end, although
// a receipt came in between that nothing waited for. An owner forgets it without a tombstone when a register comes
// before its sweep (seed 49 of TestSeeds, about once in 60 runs). A cancel of an unknown key is kept a horizon from its
// last repeat.
func TestReceiptForNothingKeepsNoTrigger(t *testing.T) {
	const horizon = 24 * time.Hour
	for _, c := range []struct {
		name  string
		state string
		event event // 23 h after the end
		kept  bool  // an hour and a second later
	}{
		{"late", fired, event{kind: evPostponed, reason: "late"}, false},
		{"of a channel without receipts", fired, event{kind: evDelivered, reason: "no_receipts"}, false},
		{"a worker's own word", fired, event{kind: evDelivered, reason: "worker_late"}, true},
		{"a refused command", fired, event{kind: evRejected, reason: "already_fired"}, false},
		{"a cancel of an unknown key, again", unknown, event{kind: evTooLate, reason: "unknown"}, true},
	} {
		l := &life{o: &Options{Horizon: horizon, Epsilon: time.Second}}
		l.adopt(&event{kind: evFired, state: c.state, occurred: 1})
		c.event.state, c.event.occurred = c.state, (horizon - time.Hour).Milliseconds()
		l.adopt(&c.event)
		if kept := !l.mayBeForgotten((horizon + time.Second).Milliseconds()); kept != c.kept {
			t.Errorf("%s: kept: %t, want %t", c.name, kept, c.kept)
		}
	}
}
