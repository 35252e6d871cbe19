package explain

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// What became of one occurrence is told by what is about it, and by nothing that came later.
func TestExplainOccurrence(t *testing.T) {
	const monday, tuesday = `"occurrence":"mon"`, `"occurrence":"tue"`
	history := []string{
		`{"type":"trigger.registered",` + monday + `,"scheduled_at":"2026-11-19T15:00:00.000Z"}`,
		`{"type":"occurrence.fired",` + monday + `,"attempt":1,"channel":"push","due_topic":"due.push"}`,
		`{"type":"delivery.suppressed",` + monday + `,"attempt":1,"channel":"push","reason":"opted_out"}`,
		`{"type":"occurrence.fired",` + tuesday + `,"attempt":1,"channel":"push","due_topic":"due.push"}`,
		`{"type":"delivery.delivered",` + tuesday + `,"attempt":1,"channel":"push"}`,
	}
	series := state(trigger.Pending, func(s *trigger.State) {
		due(time.Hour)(s)
		s.Series.Occurrence = "wed"
		s.Done = []trigger.Firing{{Occurrence: "sun", At: noon - 9_000_000, Topic: "due.push"}}
		s.Live = []trigger.Live{
			{Kind: trigger.LiveSnoozed, Occurrence: "snz-0-1", Nominal: noon + 60_000, Due: noon + 60_000},
			{Kind: trigger.LiveInFlight, Occurrence: "sat", Attempt: 2, Due: noon + 5000},
		}
	})
	for _, row := range []struct {
		occurrence string
		state      *trigger.State
		code       Code
		cites      string
		says       string
	}{
		{"mon", series, Suppressed, "0-3", "Not sent: the push worker decided against it: the user has opted out"},
		{"mon", nil, Suppressed, "0-3", "the user has opted out"},
		{"tue", series, Delivered, "0-5", "Delivered: the push worker says so"},
		{"wed", series, Scheduled, sourceState, "Scheduled: it fires Fri 2026-11-20 13:00 UTC."},
		{"sun", series, Fired, sourceState, "Only a history knows what became of it. Next: Fri"},
		{"sat", series, InFlight, sourceState, "attempt 2: no receipt yet"},
		{"snz-0-1", series, Scheduled, sourceState, "Scheduled: it fires Fri 2026-11-20 12:01 UTC."},
		{"thu", series, Unknown, "", "Nothing is known of occurrence thu of k: neither its owner nor its newest"},
	} {
		in := &Input{
			ID: "k", Occurrence: row.occurrence, State: row.state, Events: events(t, history...), History: true,
			Now: noon,
		}
		a := Explain(in)
		cites := ""
		if len(a.Evidence) > 0 {
			cites = cmp.Or(a.Evidence[0].EventID, a.Evidence[0].Source)
		}
		if a.Code != row.code || cites != row.cites || !strings.Contains(a.Sentence, row.says) {
			t.Errorf("%s: %s, cites %q: %s", row.occurrence, a.Code, cites, a.Sentence)
		}
		if undecided := row.code == Unknown || cites == sourceState; Undecided(in) != undecided {
			t.Errorf("%s: undecided %v", row.occurrence, !undecided)
		}
	}
	moved := Explain(&Input{
		ID: "k", Occurrence: "mon", State: series, Events: events(t, history[0]), History: true, Now: noon,
	})
	if moved.Code != Skipped || !strings.Contains(moved.Sentence, "planned anew before it went out") {
		t.Errorf("planned anew: %s, %s", moved.Code, moved.Sentence)
	}
}
