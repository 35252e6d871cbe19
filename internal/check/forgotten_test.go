package check

import (
	"testing"
	"time"
)

// TestReceiptForNothingKeepsNoTrigger checks that a finished trigger may be forgotten a horizon after its end, although
// a receipt came in between that nothing waited for. An owner forgets it without a tombstone when a register comes
// before its sweep (seed 49 of TestSeeds, about once in 60 runs).
func TestReceiptForNothingKeepsNoTrigger(t *testing.T) {
	const horizon = 24 * time.Hour
	for _, c := range []struct {
		name  string
		event event // 23 h after the end
		kept  bool  // an hour and a second later
	}{
		{"late", event{kind: evPostponed, reason: "late"}, false},
		{"of a channel without receipts", event{kind: evDelivered, reason: "no_receipts"}, false},
		{"a worker's own word", event{kind: evDelivered, reason: "worker_late"}, true},
		{"a refused command", event{kind: evRejected, reason: "already_fired"}, false},
	} {
		l := &life{o: &Options{Horizon: horizon, Epsilon: time.Second}}
		l.adopt(&event{kind: evFired, state: fired, occurred: 1})
		c.event.state, c.event.occurred = fired, (horizon - time.Hour).Milliseconds()
		l.adopt(&c.event)
		if kept := !l.mayBeForgotten((horizon + time.Second).Milliseconds()); kept != c.kept {
			t.Errorf("%s: kept: %t, want %t", c.name, kept, c.kept)
		}
	}
}
