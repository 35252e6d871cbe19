package topics

import (
	"fmt"
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

// TestFarTimes: however far away a time is, it is refused by the name of what is
// wrong with it. The difference of two instants 292 years apart overflows.
func TestFarTimes(t *testing.T) {
	now, _ := parseMoment("2026-11-20T09:00:00Z")
	for _, op := range []string{
		`{"op":"register","fire_at":%q}`,
		`{"op":"register","fire_at":%q,"timezone":"Europe/Berlin"}`, `{"op":"snooze","until":%q}`,
	} {
		for year := 1; year < 10_000; year += 4 {
			at := fmt.Sprintf("%04d-06-05T04:03:02Z", year)
			if op[len(op)-2] != 'q' {
				at = at[:len(at)-1]
			}
			rec := &Record{
				Topic: "waterclock.commands", Timestamp: now.instant, Key: []byte("k"),
				Value: fmt.Appendf(nil, op, at),
			}
			_, err := DecodeCommand(rec, Limits{}, nil)
			var want trigger.Code
			switch {
			case year < 2026:
				want = trigger.CodeInThePast
			case year > 2127:
				want = trigger.CodeBeyondHorizon
			}
			var have trigger.Code
			if e, ok := err.(*trigger.Error); ok {
				have = e.Code
			}
			if have != want {
				t.Errorf("%s: %q, want %q", rec.Value, have, want)
			}
		}
	}
}
