package engine

import (
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

// TestBrokersNow: a local clock that is ahead or behind does not make a store younger or older
// than it may be; an empty topic, whose newest append is -1, says nothing.
func TestBrokersNow(t *testing.T) {
	for _, c := range []struct {
		name                            string
		newest, local, earliest, latest trigger.Instant
	}{
		{"the clock is ahead", 1000, 5000, 1000, 5000},
		{"the clock is behind", 5000, 1000, 1000, 5000},
		{"the topic is empty", -1, 5000, 5000, 5000},
	} {
		if earliest, latest := brokersNow(c.newest, c.local); earliest != c.earliest || latest != c.latest {
			t.Errorf("%s: from %d to %d", c.name, earliest, latest)
		}
	}
}
