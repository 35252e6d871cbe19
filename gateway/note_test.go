package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/trigger"
)

// A note in the body, or the query of a DELETE, is the detail of the event, over every route.
func TestNotesAreDetails(t *testing.T) {
	w := newWorld(t, nil)
	var mu sync.Mutex
	var details []string
	w.engine.seen = func(_ *kgo.Record, facts []trigger.Fact) {
		mu.Lock()
		defer mu.Unlock()
		for _, f := range facts {
			if f.Detail != "" {
				details = append(details, string(f.Type)+" "+f.Detail)
			}
		}
	}
	const why = "asked by phone, & sure"
	note := `"note":"` + why + `"`
	rule := `"recurrence":"FREQ=DAILY","start":"2060-01-01T09:00","timezone":"UTC","payload":{"a":1}`
	for _, c := range []struct{ method, path, body, want string }{
		{"PUT", "/v1/triggers/n", `{` + rule + `,` + note + `}`, "trigger.registered"},
		{"POST", "/v1/triggers/n:skip", `{` + note + `}`, "occurrence.skipped"},
		{"POST", "/v1/triggers/n:snooze", `{"for":"1h",` + note + `}`, "occurrence.snoozed"},
		{"POST", "/v1/triggers/n:pause", `{` + note + `}`, "trigger.paused"},
		{"POST", "/v1/triggers/n:resume", `{` + note + `}`, "trigger.resumed"},
		{"POST", "/v1/triggers/n:rezone", `{"timezone":"Asia/Tokyo",` + note + `}`, "trigger.rescheduled"},
		{"PATCH", "/v1/triggers/n", `{"start":"2060-01-01T10:00",` + note + `}`, "trigger.rescheduled"},
		{"PATCH", "/v1/triggers/n", `{"tags":{"a":"b"},` + note + `}`, "trigger.replaced"},
		{"PATCH", "/api/reminders/n", `{"skip":"2060-01-20",` + note + `}`, "occurrence.skipped"},
		{"POST", "/api/reminders/n/snooze", `{"minutes":5,` + note + `}`, "occurrence.snoozed"},
		{"POST", "/v1/triggers:batch", `{"id":"n","op":"pause",` + note + `}`, "trigger.paused"},
		{"DELETE", "/v1/triggers/n?note=" + url.QueryEscape(why), "", "trigger.cancelled"},
		{"POST", "/v1/triggers/n:erase", `{` + note + `}`, "trigger.erased"},
	} {
		mu.Lock()
		details = nil
		mu.Unlock()
		a := w.call(c.method, c.path, c.body)
		mu.Lock()
		if a.status >= 300 || !slices.Equal(details, []string{c.want + " " + why}) {
			t.Errorf("%s %s: %d %s, details %q", c.method, c.path, a.status, a.body, details)
		}
		mu.Unlock()
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/r", at(""))
	if a := w.must(http.StatusOK, "PATCH", "/v1/triggers/r", `{`+note+`}`); a.get(t, "revision") != "1" {
		t.Errorf("a note alone is a change: %s", a.body)
	}
	for _, wrong := range []string{strings.Repeat("x", 513), "", `a\u0007`} {
		a := w.must(http.StatusUnprocessableEntity, "POST", "/v1/triggers/r:pause", `{"note":"`+wrong+`"}`)
		if a.get(t, "field") != "note" {
			t.Errorf("note %q: %s", wrong, a.body)
		}
	}
	w.must(http.StatusOK, "POST", "/v1/triggers/r:run", `{`+note+`}`) // the detail of its firing
	w.must(http.StatusBadRequest, "DELETE", "/v1/triggers/r?note=a", `{"note":"b"}`)
	w.must(http.StatusUnprocessableEntity, "POST", "/v1/dead-letters:redrive",
		`{"all":true,"note":"`+strings.Repeat("x", 513)+`"}`)
}
