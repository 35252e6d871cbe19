package gateway

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/waterclock/waterclock/internal/egress"
)

// A null is an absent field, to the description as to what answers: tools hold
// one against the other.
func TestNullIsAbsent(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.TestEndpoint = func(context.Context, string, string, bool) *egress.Report { return &egress.Report{} }
	})
	w.must(http.StatusOK, "PUT", "/v1/calendars/us", `{"dates":["2060-12-25"]}`)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/rule",
		`{"recurrence":"FREQ=DAILY","start":"2060-01-01T09:00","timezone":"UTC"}`)
	inside := map[string]string{
		"dst":      `{"gap":null,"overlap":null}`,
		"callback": `{"url":"https://x.example/","timeout":null,"retry":null}`,
	}
	for _, c := range []struct {
		schema, method, path, base string
		want                       int
	}{
		{"Register", "POST", "/v1/triggers", `{"recurrence":"FREQ=DAILY"}`, 201},
		{"ReminderBody", "POST", "/api/reminders", `{"recurrence":"FREQ=DAILY"}`, 201},
		{"PreviewBody", "POST", "/v1/preview", `{"recurrence":"FREQ=DAILY"}`, 200},
		{"PreviewBody", "POST", "/v1/preview", `{"delay":0}`, 200},
		{"SnoozeBody", "POST", "/v1/triggers/rule:snooze", `{"for":"1m"}`, 200},
		{"SkipBody", "POST", "/v1/triggers/rule:skip", `{}`, 200},
		{"NoteBody", "POST", "/v1/triggers/rule:pause", `{}`, 200},
		{"NoteBody", "POST", "/v1/triggers/rule:resume", `{}`, 200},
		{"NoteBody", "POST", "/v1/triggers/rule:run", `{}`, 200},
		{"RezoneBody", "POST", "/v1/triggers/rule:rezone", `{"timezone":"UTC"}`, 200},
		{"AckBody", "POST", "/v1/triggers/rule:ack", `{}`, 200},
		{"ReminderSnooze", "POST", "/api/reminders/rule/snooze", `{"minutes":1}`, 200},
		{"ReminderSnooze", "POST", "/api/reminders/rule/snooze", `{"for":"1m"}`, 200},
		{"Calendar", "PUT", "/v1/calendars/us", `{"dates":[]}`, 200},
		{"EndpointTest", "POST", "/v1/endpoints:test", `{"url":"https://x.example/"}`, 200},
		{"Patch", "PATCH", "/v1/triggers/rule", `{}`, 200},
		{
			"ReminderPatch", "PATCH", "/api/reminders/rule", `{}`,
			200,
		},
	} {
		s, err := description().schema("components", "schemas", c.schema)
		if err != nil {
			t.Fatal(err)
		}
		properties := description().at("components", "schemas", c.schema, "properties").(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			for _, value := range []string{"null", inside[name]} {
				var body map[string]json.RawMessage
				if err := json.Unmarshal([]byte(c.base), &body); err != nil || body[name] != nil || value == "" {
					continue
				}
				if c.method == "PATCH" && (name == "recurrence" || name == "callback") {
					continue // to remove the rule leaves no time; the rule's channel has no callback
				}
				body[name] = json.RawMessage(value)
				text, _ := json.Marshal(body)
				if err := validate(s, string(text)); err != nil {
					t.Errorf("%s %s: %v", c.schema, text, err)
				}
				if a := w.call(c.method, c.path, string(text)); a.status != c.want {
					t.Errorf("%s %s %s: %d %s", c.method, c.path, text, a.status, a.body)
				}
			}
		}
	}
}

// What a preview takes fits its description.
func TestPreviewsFitTheirSchema(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusOK, "PUT", "/v1/calendars/us", `{"dates":["2060-12-25"]}`)
	s, err := description().schema("components", "schemas", "PreviewBody")
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{
		`{"recurrence":"FREQ=DAILY","n":1}`, `{"recurrence":"FREQ=DAILY","n":10000}`,
		`{"recurrence":"FREQ=DAILY","n":10001}`, `{"recurrence":"FREQ=DAILY","n":0}`,
		`{"recurrence":"FREQ=DAILY","count":0}`, `{"recurrence":"FREQ=DAILY","count":1}`,
		`{"recurrence":"FREQ=DAILY","dst":{"gap":"x"}}`, `{"recurrence":"FREQ=DAILY","dst":{"overlap":"both"}}`,
		`{"recurrence":"FREQ=DAILY","dst":{"gap":""}}`, `{"recurrence":"FREQ=DAILY","dst":{"zap":"skip"}}`,
		`{"recurrence":"FREQ=DAILY","start":1790000000}`, `{"recurrence":"FREQ=DAILY","start":"2060-01-01T09:00"}`,
		`{"delay":-1}`, `{"delay":""}`, `{"fire_at":2060000000}`, `{"fire_at":true}`, `{"recurrence":5}`,
		`{"recurrence":"FREQ=DAILY","include":[null]}`, `{"recurrence":"FREQ=DAILY","include":["2060-01-01"]}`,
		`{"recurrence":"FREQ=DAILY","calendars":{"names":["us"],"on":null}}`,
		`{"recurrence":"FREQ=DAILY","calendars":{"names":null}}`,
		`{"recurrence":"FREQ=DAILY","calendars":{"names":["none"],"on":"sometimes"}}`,
		`{"recurrence":"FREQ=DAILY","until":2060000000}`, `{"delay":0,"id":{}}`,
	} {
		a := w.call("POST", "/v1/preview", body)
		if err := validate(s, body); err != nil && a.status == http.StatusOK {
			t.Errorf("%s is taken: %v", body, err)
		}
	}
}

// A null title is no title, and a null payload no obstacle to one; in a patch
// it removes.
func TestNullsOfReminders(t *testing.T) {
	w := newWorld(t, nil)
	for i, c := range []struct{ body, payload string }{
		{`{"delay":"1d","title":null,"body":null}`, ""},
		{`{"delay":"1d","title":"x","payload":null}`, `{"title":"x"}`},
		{`{"delay":"1d","title":null,"payload":5}`, "5"},
	} {
		id := w.must(http.StatusCreated, "POST", "/api/reminders", c.body).get(t, "reminder_id")
		if got := w.must(http.StatusOK, "GET", "/v1/triggers/"+id, "").get(t, "payload"); got != c.payload {
			t.Errorf("%d: payload %s, want %s", i, got, c.payload)
		}
		if i == 1 {
			w.must(http.StatusOK, "PATCH", "/api/reminders/"+id, `{"title":null,"body":"y"}`)
			if got := w.must(http.StatusOK, "GET", "/v1/triggers/"+id, "").get(t, "payload"); got != `{"body":"y"}` {
				t.Errorf("patched: payload %s", got)
			}
			w.must(http.StatusUnprocessableEntity, "PATCH", "/api/reminders/"+id, `{"title":"x","payload":null}`)
		}
	}
}
