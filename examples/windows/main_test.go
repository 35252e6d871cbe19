package main

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A window counts what was due in it, once: not what went out again, and not what nobody planned.
func TestWhatCounts(t *testing.T) {
	w := newWindows(1, time.Minute)
	for _, event := range []string{
		`"step":0,"attempt":1,"occurrence":"o"`,
		`"step":0,"attempt":1,"occurrence":"o","first_fired_at":"2026-11-25T12:00:10Z"`,
		`"step":0,"attempt":1,"occurrence":"postponed","first_fired_at":"2026-11-25T12:00:07Z"`,
		`"step":0,"attempt":2,"occurrence":"retried","first_fired_at":"2026-11-25T12:00:07Z"`,
		`"step":1,"attempt":1,"occurrence":"step"`,
		`"step":0,"attempt":1,"occurrence":"snz-1-2"`,
		`"step":0,"attempt":1,"occurrence":"run-1-2"`,
	} {
		event += `,"type":"occurrence.fired","channel":"push","occurred_at":"2026-11-25T12:00:10Z"`
		if err := w.count(kgo.StringRecord("{" + event + "}")); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.counts[time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)]["push"]; n != 2 {
		t.Errorf("%d were due, want 2", n)
	}
}
