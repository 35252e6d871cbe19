package engine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// TestNewerFormatIsNewsOnce: that a newer version has written is news once, and again when it says something else. It
// ends by an upgrade alone, and every try meets it again.
func TestNewerFormatIsNewsOnce(t *testing.T) {
	newer := func(format int) error { return fmt.Errorf("standby: format %d: %w", format, topics.ErrNewer) }
	var tail tail
	for i, c := range []struct {
		err  error
		news bool
	}{
		{newer(6), true},
		{newer(6), false},
		{newer(6), false},
		{newer(7), true},
		{newer(7), false},
		{errors.New("the brokers are away"), true},
		{errors.New("the brokers are away"), true},
		{newer(7), true},
	} {
		if got := tail.news(c.err); got != c.news {
			t.Errorf("%d: %v is news: %v", i, c.err, got)
		}
	}
}

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
