package topics

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

func TestNotes(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	nine := trigger.At(time.Date(2026, 3, 9, 9, 0, 0, 0, time.UTC))
	utc := []string{"no timezone was given: its times are UTC, the next is 09:00 UTC"}
	for body, want := range map[string][]string{
		`{"op":"register","recurrence":"cron:0 9 * * 1"}`:                                 utc,
		`{"op":"register","recurrence":"FREQ=DAILY","start":"2026-03-03T09:00"}`:          utc,
		`{"op":"register","recurrence":"FREQ=HOURLY;BYHOUR=9"}`:                           utc,
		`{"op":"register","recurrence":"cron:@daily"}`:                                    utc,
		`{"op":"reschedule","recurrence":"cron:0 9 * * 1"}`:                               utc,
		`{"op":"register","recurrence":"cron:0 9 * * 1","timezone":"UTC"}`:                nil,
		`{"op":"register","recurrence":"FREQ=DAILY","start":"2026-03-03T09:00:00Z"}`:      nil,
		`{"op":"register","recurrence":"FREQ=DAILY","start":"2026-03-03T09:00:00+01:00"}`: nil,
		`{"op":"register","recurrence":"every:15m"}`:                                      nil,
		`{"op":"register","recurrence":"cron:*/5 * * * *"}`:                               nil,
		`{"op":"register","recurrence":"RRULE:FREQ=HOURLY"}`:                              nil,
		`{"op":"register","delay":"5m"}`:                                                  nil,
		`{"op":"register","fire_at":"2026-03-09T09:00:00Z"}`:                              nil,
		`{"op":"cancel"}`: nil,
		`{"op":"register","fire_at":"2026-03-02T11:40","timezone":"UTC","expires_after":"1h"}`: {"its time passed 20m0s ago: it is due at once"},
		`{"op":"register","fire_at":"2026-03-02T11:40","timezone":"UTC","calendars":{"names":["us"]}}`: {
			"its time passed 20m0s ago: it is due at once",
			"calendars has no effect on a time that fires once: it needs a recurrence",
		},
		`{"op":"register","fire_at":"2026-03-02T11:40:00Z"}`: {"its time passed 20m0s ago: it is due at once"},
	} {
		c, err := DecodeCommand(&Record{Key: []byte("k"), Value: []byte(body), Timestamp: trigger.At(now)}, Limits{},
			nil)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		next := nine
		if c.Spec != nil && c.Spec.When.Kind == trigger.WhenInstant {
			next = c.Spec.When.FireAt
		} else if c.Spec != nil && c.Spec.When.Kind == trigger.WhenLocal {
			next = trigger.At(now.Add(-20 * time.Minute))
		}
		if got := notesOf(c, next, false); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

func notesOf(c *trigger.Command, next trigger.Instant, repeat bool) []string {
	if c.Spec == nil {
		return nil
	}
	return Notes(&c.Spec.When, c.From.Append, next, repeat)
}

func TestNotesOfARepeat(t *testing.T) {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	c, err := DecodeCommand(&Record{
		Key:   []byte("k"),
		Value: []byte(`{"op":"register","fire_at":"2026-03-02T11:40:00Z"}`), Timestamp: trigger.At(now),
	}, Limits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := notesOf(c, c.Spec.When.FireAt, true); got != nil {
		t.Errorf("%q", got)
	}
}

// What our workers cannot send is said when it is registered, and not only when it fires.
func TestNoteContent(t *testing.T) {
	for _, c := range []struct{ channel, payload, names string }{
		{"push", `{"title":"x"}`, ""},
		{"sms", `{"body":"x","title":""}`, ""},
		{"email", `{"template_id":"x"}`, ""},
		{"orders", ``, ""},
		{"webhook", `{"a":1}`, ""},
		{"push", ``, "channel push"},
		{"sms", `"x"`, "channel sms"},
		{"email", `{"title":"","body":null}`, "channel email"},
		{"push", `{"Title":"x"}`, "channel push"}, // the workers' names have one spelling
	} {
		got := NoteContent(&trigger.Spec{Channel: c.channel, Payload: []byte(c.payload)})
		if (got == "") != (c.names == "") || !strings.Contains(got, c.names) {
			t.Errorf("%s %s: %q", c.channel, c.payload, got)
		}
	}
	steps := []trigger.Step{{Channel: "orders"}, {Channel: "sms"}}
	if got := NoteContent(&trigger.Spec{Channel: "orders", Escalation: steps}); !strings.Contains(got, "channel sms") {
		t.Errorf("a step: %q", got)
	}
}
