package gateway

import (
	"net/http"
	"strings"
	"testing"
)

// What may surprise is said once it has been decided, by every door.
func TestNotesInAnswers(t *testing.T) {
	w := newWorld(t, nil)
	past := `{"fire_at":"2026-11-20T09:00:00Z"}`
	for _, c := range []struct{ method, path, body, note string }{
		{"PUT", "/v1/triggers/a", `{"delay":"1h","channel":"oders"}`, "channel oders is new"},
		{"PUT", "/v1/triggers/b", `{"delay":"1h","channel":"oders"}`, ""}, // the one before created it
		{"PUT", "/v1/triggers/c", `{"delay":"1h"}`, ""},
		{"POST", "/v1/triggers", past, "its time passed "},
		{
			"PUT", "/v1/triggers/d", `{"recurrence":"cron:0 9 * * 1"}`,
			"no timezone was given: its times are UTC, the next is 09:00 UTC",
		},
		// a repeat says what its content means
		{"PUT", "/v1/triggers/d", `{"recurrence":"cron:0 9 * * 1"}`, "no timezone was given"},
		{"PUT", "/v1/triggers/e", `{"recurrence":"cron:0 9 * * 1","timezone":"Europe/Berlin"}`, ""},
		{"PATCH", "/v1/triggers/e", `{"tags":{"a":"b"}}`, ""},
		{"POST", "/v1/triggers:batch", `{"id":"f","delay":"1h","channel":"mials"}`, "channel mials is new"},
		{"POST", "/api/reminders", `{"title":"x","recurrence":"FREQ=DAILY"}`, "no timezone was given"},
	} {
		got := w.call(c.method, c.path, c.body)
		if got.status >= http.StatusBadRequest {
			t.Fatalf("%s %s %s: %d %s", c.method, c.path, c.body, got.status, got.body)
		}
		if has := strings.Contains(got.body, `"notes"`); has != (c.note != "") ||
			!strings.Contains(got.body, c.note) {
			t.Errorf("%s %s %s answers %s, want the note %q", c.method, c.path, c.body, got.body, c.note)
		}
	}
}
