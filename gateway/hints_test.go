package gateway

import (
	"net/http"
	"strings"
	"testing"
)

// A refusal names the field as the caller wrote it, and advises what is right.
func TestHints(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/s", `{"recurrence":"FREQ=DAILY","start":"2060-01-01T09:00"}`)
	for _, c := range []struct {
		name, method, path, body string
		status                   int
		code, field, says        string
	}{
		{
			"a tag", "POST", "/v1/triggers", `{"delay":"1m","tags":{"k":1}}`, 422, "invalid", "tags",
			"tags must be an object of strings",
		},
		{
			"tags", "POST", "/v1/triggers", `{"delay":"1m","tags":["k"]}`, 422, "invalid", "tags",
			"tags must be an object of strings",
		},
		{
			"a header", "POST", "/v1/triggers", `{"delay":"1m","headers":{"A":1}}`, 422, "invalid", "headers",
			"headers must be an object of strings",
		},
		{
			"a date", "POST", "/v1/triggers", `{"recurrence":"every:1h","exclude":[1]}`, 422, "invalid", "exclude",
			"exclude must be a list of strings",
		},
		{"state", "GET", "/v1/triggers?state=nope", ``, 400, "invalid", "state", "state is one or more of"},
		{
			"state of a reminder", "GET", "/api/reminders?state=nope", ``, 400, "invalid", "state",
			"state is one or more of",
		},
		{
			"status of a reminder", "GET", "/api/reminders?state=pending&status=nope", ``, 400, "invalid", "status",
			"status is one or more of",
		},
		{
			"dates of a calendar", "PUT", "/v1/calendars/us", `{"dates":["25 Dec"]}`, 422, "invalid", "dates",
			"is no date",
		},
		{
			"name of a calendar", "PUT", "/v1/calendars/US", `{"dates":[]}`, 422, "invalid", "name",
			"a calendar's name is",
		},
		{
			"no date to skip", "POST", "/v1/triggers/s:skip", `{"occurrence":"x"}`, 422, "invalid", "occurrence",
			"no local date",
		},
		{
			"a date that is none", "POST", "/v1/triggers/s:skip", `{"occurrence":"2060-02-30"}`, 422, "invalid",
			"occurrence", "",
		},
		{
			"a date without an occurrence", "POST", "/v1/triggers/s:skip", `{"occurrence":"2059-01-01"}`, 404,
			"not_found",
			"occurrence", "",
		},
		{
			"no date for a reminder to skip", "PATCH", "/api/reminders/s", `{"skip":"x"}`, 422, "invalid", "skip",
			"no local date",
		},
		{
			"like no field of a register", "POST", "/v1/triggers", `{"delay":"1m","foo":1}`, 422, "unknown_field",
			"foo",
			`"foo" is no field`,
		},
		{
			"like a field of a snooze", "POST", "/v1/triggers/s:snooze", `{"foo":"1m"}`, 422, "unknown_field", "foo",
			"did you mean for?",
		},
		{
			"like a field of a register", "POST", "/v1/triggers", `{"dealy":"1m"}`, 422, "unknown_field", "dealy",
			"did you mean delay?",
		},
		{
			"an id by another name", "POST", "/v1/triggers", `{"delay":"1m","trigger_id":"x"}`, 422, "unknown_field",
			"trigger_id", "is id in the body of a POST",
		},
		{
			"an id by yet another name", "PUT", "/v1/triggers/x", `{"delay":"1m","triggerId":"x"}`, 422,
			"unknown_field",
			"triggerId", "the last part of the path",
		},
		{
			"an id of a verb", "POST", "/v1/triggers/s:pause", `{"id":"s"}`, 422, "unknown_field", "id",
			"the last part of the path",
		},
		{
			"an id of a patch", "PATCH", "/v1/triggers/s", `{"trigger_id":"x"}`, 422, "invalid", "id",
			"an id never changes",
		},
		{"an op", "POST", "/v1/triggers", `{"op":"register","delay":"1m"}`, 422, "unknown_field", "op", "omit it"},
		{
			"a unit apart", "POST", "/v1/triggers", `{"delay":"1 month"}`, 422, "invalid", "delay",
			`has " month" where a unit belongs, right behind the number`,
		},
		{
			"no unit", "POST", "/v1/triggers", `{"delay":"1h30"}`, 422, "invalid", "delay",
			"ends in a number without a unit",
		},
		{"no such unit", "POST", "/v1/triggers", `{"delay":"1month"}`, 422, "invalid", "delay", `has the unit "month"`},
		{"a number out of range", "POST", "/v1/triggers", `{"delay":1e999}`, 422, "invalid", "delay", "out of range"},
		{
			"a header of ours", "POST", "/v1/triggers", `{"delay":"1m","headers":{"wc-foo":"x"}}`, 422, "invalid",
			"headers", `"wc-foo" begins with wc-`,
		},
		{
			"a list for lines", "POST", "/v1/triggers:batch", `[]`, 200, "malformed", "",
			"one JSON object per line (NDJSON)",
		},
		{
			"an id with a tenant", "PUT", "/v1/triggers/a%2Fb", `{"delay":"1m"}`, 404, "not_found", "",
			"an id of the default tenant must not contain '/'",
		},
		{
			"an id with a tenant, in the body", "POST", "/v1/triggers", `{"delay":"1m","id":"a/b"}`, 422, "invalid_key",
			"id", "must not contain '/'",
		},
		{"a step up", "PUT", "/v1/triggers/%2E%2E", `{"delay":"1m"}`, 422, "invalid_key", "id", "a part of a path"},
		{
			"a step nowhere", "POST", "/v1/triggers", `{"delay":"1m","id":"."}`, 422, "invalid_key", "id",
			"a part of a path",
		},
		{"a method", "DELETE", "/v1/triggers", ``, 405, "method_not_allowed", "", "use GET, POST"},
		{
			"no zone, beside a delay", "PUT", "/v1/triggers/z", `{"delay":"7m","timezone":"Mars/Olympus"}`, 422,
			"unknown_zone", "timezone", "Mars/Olympus",
		},
		{
			"no zone, beside an instant", "PUT", "/v1/triggers/z",
			`{"fire_at":"2060-01-01T00:00:00Z","timezone":"Mars/Olympus"}`, 422, "unknown_zone", "timezone",
			"Mars/Olympus",
		},
		{
			"no zone, in a patch", "PATCH", "/v1/triggers/s", `{"delay":"7m","timezone":"Mars/Olympus"}`, 422,
			"unknown_zone", "timezone", "Mars/Olympus",
		},
		{
			"called otherwise elsewhere", "POST", "/v1/triggers", `{"cron":"* * * * *"}`, 422, "unknown_field", "cron",
			"did you mean recurrence?",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := w.on(t)
			a := w.must(c.status, c.method, c.path, c.body)
			if a.get(t, "code") != c.code || a.get(t, "field") != c.field ||
				!strings.Contains(a.get(t, "detail"), c.says) {
				t.Errorf("answer %s", a.body)
			}
			if !strings.Contains(c.says, "did you mean") && c.code != "unknown_zone" &&
				strings.Contains(a.body, "did you mean") {
				t.Errorf("a guess without reason: %s", a.body)
			}
		})
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/zone", `{"delay":"7m","timezone":"Europe/Berlin"}`)
	for _, id := range []string{"...", "a.b", ".a"} {
		w.must(http.StatusCreated, "PUT", "/v1/triggers/"+id, `{"delay":"1h"}`)
	}
	for _, occurrence := range []string{
		"2060-01-02", "2060-01-03T09:00", "2060-01-04T09:00:00", "2060-01-05T09:00:00Z",
		"2060-01-06T09:00:00.000Z", "2060-01-07T10:00:00+01:00",
	} {
		w.must(http.StatusOK, "POST", "/v1/triggers/s:skip", `{"occurrence":"`+occurrence+`"}`)
	}
}

// What has ended is not there, and the answer says what became of it.
func TestWritesToWhatHasEnded(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/c", at(""))
	w.must(http.StatusOK, "DELETE", "/v1/triggers/c", "")
	w.must(http.StatusCreated, "PUT", "/v1/triggers/f", at(""))
	w.engine.fire("f")
	for _, c := range []struct{ name, method, path, body, state string }{
		{"a patch", "PATCH", "c", `{"payload":1}`, "CANCELLED"},
		{"a verb", "POST", "c:pause", ``, "CANCELLED"},
		{"a verb of what has fired", "POST", "f:pause", ``, "FIRED"},
		{"a patch of nothing", "PATCH", "none", `{"payload":1}`, ""},
		{"a verb of nothing", "POST", "none:pause", ``, ""},
	} {
		a := w.must(http.StatusNotFound, c.method, "/v1/triggers/"+c.path, c.body)
		if a.get(t, "code") != "not_found" || a.get(t, "state") != c.state || c.state != "" &&
			!strings.Contains(a.get(t, "detail"), "has ended: it is "+c.state) {
			t.Errorf("%s: %s", c.name, a.body)
		}
	}
}
