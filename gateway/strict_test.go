package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/topics"
)

// What schemathesis found: requests that meant nothing, or two things, and
// were answered as if they meant one.
func TestNothingIsOverlooked(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/s", at(""))
	const backwards = "from=2061-01-01T00:00:00Z&to=2060-01-01T00:00:00Z"
	for _, c := range []struct {
		name, method, path, body, match string
		status                          int
		field                           string
	}{
		{"a number left empty", "GET", "/v1/triggers?limit=", "", "", 400, "limit"},
		{"a user left empty", "GET", "/v1/triggers?user_id=", "", "", 400, "user_id"},
		{"a user left empty beside others", "GET", "/api/reminders?user_id=&status=pending", "", "", 400, "user_id"},
		{"a channel left empty", "GET", "/v1/triggers?channel=", "", "", 400, "channel"},
		{"from left empty", "GET", "/v1/triggers?from=", "", "", 400, "from"},
		{"to left empty", "GET", "/v1/triggers?from=2060-01-01T00:00:00Z&to=", "", "", 400, "to"},
		{"from after to", "GET", "/v1/triggers?" + backwards, "", "", 400, "from"},
		{"from after to, of reminders", "GET", "/api/reminders?" + backwards, "", "", 400, "from"},
		{"from after to, of dead letters", "GET", "/v1/dead-letters?" + backwards, "", "", 400, "from"},
		{"from after to, of refused commands", "GET", "/v1/rejected?" + backwards, "", "", 400, "from"},
		{"from after to, of audit records", "GET", "/v1/audit?" + backwards, "", "", 400, "from"},
		{"from after to, of notifications", "GET", "/v1/users/u/notifications?" + backwards, "", "", 400, "from"},
		{"from at to", "GET", "/v1/triggers?from=2060-01-01T00:00:00Z&to=2060-01-01T00:00:00Z", "", "", 200, ""},
		{"a cursor left empty, which is the first page", "GET", "/v1/triggers?cursor=", "", "", 200, ""},
		{"a parameter twice", "GET", "/v1/triggers?limit=1&limit=2", "", "", 400, "limit"},
		{"a tag twice", "GET", "/v1/triggers?tag=a:1&tag=b:2", "", "", 200, ""},
		{"a parameter of nobody", "GET", "/v1/triggers/s/events?lmit=1", "", "", 400, "lmit"},
		{"a parameter where there are none", "PUT", "/v1/triggers/s?if_absent=1", at(""), "", 400, "if_absent"},
		{"a query that breaks", "GET", "/v1/triggers?limit=%zz", "", "", 400, ""},
		{"state by both its names", "GET", "/api/reminders?status=pending&state=FIRED", "", "", 200, ""},
		{"an empty patch at another revision", "PATCH", "/v1/triggers/s", `{}`, `"7"`, 412, "if_revision"},
		{
			"an empty patch at another revision, in the body", "PATCH", "/v1/triggers/s", `{"if_revision":7}`, "", 409,
			"if_revision",
		},
		{
			"an empty patch with a revision that is none", "PATCH", "/v1/triggers/s", `{"if_revision":"x"}`, "", 422,
			"if_revision",
		},
		{"an empty patch at this revision", "PATCH", "/v1/triggers/s", `{}`, `"1"`, 200, ""},
		{"an empty patch at one of two", "PATCH", "/v1/triggers/s", `{}`, `"7", "1"`, 200, ""},
		{"a wrong body at another revision", "PATCH", "/v1/triggers/s", `{"exclude":{}}`, `"7", "8"`, 422, "exclude"},
		{"a wrong body at no revision", "PUT", "/v1/triggers/s", `{"dealy":"1h"}`, `"7", "8"`, 422, "dealy"},
		{"a wrong verb body at any revision", "POST", "/v1/triggers/nobody:rezone", `{}`, `*`, 422, "timezone"},
		{"a calendar by two names", "PUT", "/v1/calendars/a", `{"name":"b","dates":[]}`, "", 422, "name"},
		{"a calendar whose name is none", "PUT", "/v1/calendars/a", `{"name":{},"dates":[]}`, "", 422, "name"},
	} {
		header := []string{"", ""}
		if c.match != "" {
			header = []string{"If-Match", c.match}
		}
		a := w.call(c.method, c.path, c.body, header...)
		if a.status != c.status || c.field != "" && a.get(t, "field") != c.field {
			t.Errorf("%s: %d %s, want %d about %q", c.name, a.status, a.body, c.status, c.field)
		}
	}
}

// A header that would make a write another one is read, or refused.
func TestNoHeaderIsOverlooked(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/h", at(""))
	for _, c := range []struct{ name, method, path, body, header, value, field string }{
		{"a key of a patch", "PATCH", "/v1/triggers/h", `{"payload":1}`, "Idempotency-Key", "k", "Idempotency-Key"},
		{
			"a key of a snooze", "POST", "/v1/triggers/h:snooze", `{"for":"1h"}`, "Idempotency-Key", "k",
			"Idempotency-Key",
		},
		{
			"a key of a reminder's snooze", "POST", "/api/reminders/h/snooze", `{"minutes":1}`, "Idempotency-Key", "k",
			"Idempotency-Key",
		},
		{
			"a key of a batch", "POST", "/v1/triggers:batch", `{"id":"h","op":"run_now"}`, "Idempotency-Key", "k",
			"Idempotency-Key",
		},
		{"an empty key", "POST", "/v1/triggers", at(""), "Idempotency-Key", "", "Idempotency-Key"},
		{"a condition of a batch", "POST", "/v1/triggers:batch", at(`,"id":"h"`), "If-Match", `"1"`, "If-Match"},
		{"a condition of a calendar", "PUT", "/v1/calendars/c", `{"dates":[]}`, "If-None-Match", "*", "If-None-Match"},
		{
			"no patch of what is not there", "PATCH", "/v1/triggers/h", `{"payload":1}`, "If-None-Match", "*",
			"If-None-Match",
		},
		{"no cancel of what is not there", "DELETE", "/v1/triggers/h", ``, "If-None-Match", "*", "If-None-Match"},
	} {
		a := w.call(c.method, c.path, c.body, c.header, c.value)
		if a.status != http.StatusBadRequest || a.get(t, "field") != c.field {
			t.Errorf("%s: %d %s", c.name, a.status, a.body)
		}
	}
	if a := w.must(422, "PATCH", "/v1/triggers/h", `{"payload":1,"idempotency_key":"k"}`); a.get(t,
		"field") != "idempotency_key" {
		t.Errorf("a key in a patch: %s", a.body)
	}
	w.must(http.StatusCreated, "POST", "/api/reminders", `{"id":"r","delay":"1h"}`, "If-None-Match", "*")
	w.must(http.StatusPreconditionFailed, "POST", "/api/reminders", `{"id":"r","delay":"1h"}`, "If-None-Match", "*")
	if s := w.state("h"); s.Revision != 1 || len(s.Live) != 0 {
		t.Errorf("something was done: %+v", s)
	}
	w.must(http.StatusOK, "PUT", "/v1/calendars/c", `{"dates":[]}`, "Idempotency-Key", "k") // repeats do no harm
	w.must(http.StatusOK, "DELETE", "/v1/triggers/r", ``, "Idempotency-Key", "k")
	req, _ := http.NewRequest("POST", w.url+"/v1/triggers", strings.NewReader(at("")))
	req.Header["Idempotency-Key"] = []string{"one", "two"}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("two keys: %d", resp.StatusCode)
	}
}

// x:pause is a verb and no id: who has such an id spells it x%3Apause.
func TestAPathMeansOneThing(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/x%3Apause", at(""))
	w.must(http.StatusOK, "GET", "/v1/triggers/x%3Apause", "")
	w.must(http.StatusOK, "POST", "/v1/triggers/x%3Apause:pause", "")
	w.must(http.StatusCreated, "PUT", "/v1/triggers/x", at(""))
	for _, id := range []string{"x%3Apause", "x%3apause"} {
		if a := w.must(http.StatusMethodNotAllowed, "POST", "/v1/triggers/"+id, ""); !strings.Contains(
			a.header.Get("Allow"), "PATCH") {
			t.Errorf("POST %s: Allow %q", id, a.header.Get("Allow"))
		}
	}
	if a := w.must(http.StatusOK, "GET", "/v1/triggers/x", ""); !strings.Contains(a.body, `"PENDING"`) {
		t.Errorf("a POST to the id x%%3Apause has paused x: %s", a.body)
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/x:fly", at("")) // no verb: no harm
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		if a := w.must(http.StatusMethodNotAllowed, method, "/v1/triggers/x:pause",
			""); a.header.Get("Allow") != "POST" {
			t.Errorf("%s: Allow %q", method, a.header.Get("Allow"))
		}
	}
	if a := w.must(http.StatusNoContent, "OPTIONS", "/v1/triggers/x:pause", ""); a.header.Get("Allow") != "POST" {
		t.Errorf("Allow %q", a.header.Get("Allow"))
	}
}

// A body in a content coding is refused as such, not read as garbled JSON.
func TestContentEncoding(t *testing.T) {
	w := newWorld(t, nil)
	for _, path := range []string{"/v1/triggers", "/v1/triggers:batch", "/v1/preview"} {
		a := w.must(http.StatusUnsupportedMediaType, "POST", path, "\x1f\x8b\x08", "Content-Encoding", "gzip")
		if a.header.Get("Accept-Encoding") != "identity" {
			t.Errorf("%s: headers %v", path, a.header)
		}
	}
	w.must(http.StatusCreated, "POST", "/v1/triggers", at(""), "Content-Encoding", "identity")
}

// Two keys that are not UTF-8 would be one in JSON.
func TestIdempotencyKeyIsText(t *testing.T) {
	w := newWorld(t, nil)
	for _, key := range []string{"\xff", "\xfe"} {
		w.must(http.StatusBadRequest, "PUT", "/v1/triggers/x", at(""), "Idempotency-Key", key)
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/x", at(""), "Idempotency-Key", "ä")
}

// A command that Kafka does not take for its size is too large, however often
// it is sent again.
func TestCommandLargerThanARecord(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Limits.Payload = topics.MaxPayload })
	wide := `{"delay":"1d","tags":{` + strings.Repeat(" ", 1_100_000) + `}}`
	a := w.must(http.StatusRequestEntityTooLarge, "PUT", "/v1/triggers/x", wide)
	if a.get(t, "code") != "too_large" || a.get(t, "trigger_id") != "x" {
		t.Errorf("answer %s", a.body)
	}
	if a := w.must(http.StatusOK, "POST", "/v1/triggers:batch", wide); a.get(t, "code") != "too_large" {
		t.Errorf("line %s", a.body)
	}
}
