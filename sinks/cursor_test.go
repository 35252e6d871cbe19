package sinks

import (
	"math"
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

func TestCursors(t *testing.T) {
	for _, c := range []EventCursor{{}, {1, 0}, {math.MaxInt64, math.MaxInt64}, {1795251600000000, 12}} {
		if got, err := ParseEventCursor(c.String()); err != nil || got != c {
			t.Errorf("%+v comes back as %+v, %v", c, got, err)
		}
	}
	for _, c := range []MinuteCursor{{}, {1, "", ""}, {1795251600000, "acme", "acme/ü\x00"}, {-1, "a", "b"}} {
		if got, err := ParseMinuteCursor(c.String()); err != nil || got != c {
			t.Errorf("%+v comes back as %+v, %v", c, got, err)
		}
	}
	one, other := EventCursor{1, 2}.String(), MinuteCursor{1, "t", "k"}.String()
	for _, bad := range []string{"!", "ZQ", one + "AA", one[:3], other} {
		if c, err := ParseEventCursor(bad); err == nil {
			t.Errorf("%q is an event cursor: %+v", bad, c)
		}
	}
	for _, bad := range []string{"!", "bQ", "bQL_", one} {
		if c, err := ParseMinuteCursor(bad); err == nil {
			t.Errorf("%q is a minute cursor: %+v", bad, c)
		}
	}
}

func FuzzCursors(f *testing.F) {
	f.Add(EventCursor{1, 2}.String())
	f.Add(MinuteCursor{trigger.Instant(7), "t", "k"}.String())
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := ParseEventCursor(s); err == nil {
			if second, err := ParseEventCursor(c.String()); err != nil || second != c {
				t.Fatalf("%+v comes back as %+v, %v", c, second, err)
			}
		}
		if c, err := ParseMinuteCursor(s); err == nil {
			if second, err := ParseMinuteCursor(c.String()); err != nil || second != c {
				t.Fatalf("%+v comes back as %+v, %v", c, second, err)
			}
		}
	})
}
