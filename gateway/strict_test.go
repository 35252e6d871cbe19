package gateway

import (
	"net/http"
	"testing"
)

// What schemathesis found: requests that meant nothing, or two things, and
// were answered as if they meant one.
func TestNothingIsOverlooked(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/s", at(""))
	for _, c := range []struct {
		name, method, path, body, match string
		status                          int
		field                           string
	}{
		{"a number left empty", "GET", "/v1/triggers?limit=", "", "", 400, "limit"},
		{"a parameter twice", "GET", "/v1/triggers?limit=1&limit=2", "", "", 400, "limit"},
		{"a tag twice", "GET", "/v1/triggers?tag=a:1&tag=b:2", "", "", 200, ""},
		{"a parameter of nobody", "GET", "/v1/triggers/s/events?lmit=1", "", "", 400, "lmit"},
		{"a parameter where there are none", "PUT", "/v1/triggers/s?if_absent=1", at(""), "", 400, "if_absent"},
		{"a query that breaks", "GET", "/v1/triggers?limit=%zz", "", "", 400, ""},
		{"state by both its names", "GET", "/api/reminders?status=pending&state=FIRED", "", "", 200, ""},
		{"an empty patch at another revision", "PATCH", "/v1/triggers/s", `{}`, `"7"`, 412, "if_revision"},
		{"an empty patch at another revision, in the body", "PATCH", "/v1/triggers/s", `{"if_revision":7}`, "", 409, "if_revision"},
		{"an empty patch with a revision that is none", "PATCH", "/v1/triggers/s", `{"if_revision":"x"}`, "", 422, "if_revision"},
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

// x:pause is a verb and no id: who has such an id spells it x%3Apause.
func TestAPathMeansOneThing(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/x%3Apause", at(""))
	w.must(http.StatusOK, "GET", "/v1/triggers/x%3Apause", "")
	w.must(http.StatusOK, "POST", "/v1/triggers/x%3Apause:pause", "")
	w.must(http.StatusCreated, "PUT", "/v1/triggers/x:fly", at("")) // no verb: no harm
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		if a := w.must(http.StatusMethodNotAllowed, method, "/v1/triggers/x:pause", ""); a.header.Get("Allow") != "POST" {
			t.Errorf("%s: Allow %q", method, a.header.Get("Allow"))
		}
	}
	if a := w.must(http.StatusNoContent, "OPTIONS", "/v1/triggers/x:pause", ""); a.header.Get("Allow") != "POST" {
		t.Errorf("Allow %q", a.header.Get("Allow"))
	}
}
