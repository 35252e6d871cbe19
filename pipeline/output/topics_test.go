package output

import (
	"testing"

	"github.com/waterclock/waterclock/topics"
)

// TestIsDue: none of our own topics is ever taken for a channel's.
func TestIsDue(t *testing.T) {
	n := topics.Names{Prefix: "waterclock."}
	d := &Topics{Config: Config{Names: n}}
	for _, ours := range []string{n.State(), n.Events(), n.Rejected(), n.DeadLetter(), n.Commands(), n.Receipts()} {
		if d.IsDue(ours) {
			t.Errorf("%s is ours", ours)
		}
	}
	if !d.IsDue(n.Due("push")) || !d.IsDue("theirs") {
		t.Error("a channel's topic may be called anything")
	}
}
