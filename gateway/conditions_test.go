package gateway

import (
	"net/http"
	"strings"
	"testing"
)

func TestConditions(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/c", at(""), "If-None-Match", "*")
	for _, c := range []struct {
		name, method, path, body, header, value string
		want                                    int
		code                                    string
	}{
		{"exists", "PUT", "c", at(`,"payload":1`), "If-None-Match", "*", 412, "conflict"},
		{"exists with this content", "PUT", "c", at(""), "If-None-Match", "*", 412, "conflict"},
		{"field: exists with this content", "PUT", "c", at(`,"if_absent":true`), "", "", 200, ""},
		{"field: exists", "PUT", "c", at(`,"payload":1,"if_absent":true`), "", "", 409, "conflict"},
		{"stale", "PUT", "c", at(`,"payload":1`), "If-Match", `"7"`, 412, "conflict"},
		{"field: stale", "PUT", "c", at(`,"payload":1,"if_revision":7`), "", "", 409, "conflict"},
		{"weak is no tag for a write", "PUT", "c", at(`,"payload":1`), "If-Match", `W/"1"`, 412, "conflict"},
		{"without quotes", "PATCH", "c", `{"payload":1}`, "If-Match", `1`, 412, "conflict"},
		{"no revision", "POST", "c:pause", ``, "If-Match", `"abc"`, 400, "invalid"},
		{"garbled", "DELETE", "c", "", "If-Match", `x`, 400, "invalid"},
		{"garbled, one of two", "DELETE", "c", "", "If-Match", `"1", x`, 400, "invalid"},
		{"one of two without quotes", "DELETE", "c", "", "If-Match", `"7", 2`, 412, "conflict"},
		{"left empty", "DELETE", "c", "", "If-Match", ``, 400, "invalid"},
		{"none left empty", "PUT", "c", at(""), "If-None-Match", ``, 400, "invalid"},
		{"of nothing", "PUT", "none", at(""), "If-Match", `"1"`, 412, "conflict"},
		{"verb of nothing", "POST", "none:pause", ``, "If-Match", `"1"`, 404, "not_found"},
		{"a wrong body is said first", "POST", "none:skip", `{"occurrence":{}}`, "If-Match", "*", 422, "invalid"},
		{"a wrong register is said first", "PUT", "c", `{"delay":"x"}`, "If-Match", `"7"`, 422, "invalid"},
		{"patch stale", "PATCH", "c", `{"payload":5}`, "If-Match", `"7"`, 412, "conflict"},
		{"delete stale", "DELETE", "c", "", "If-Match", `"7"`, 412, "conflict"},
		{"any, of nothing", "PUT", "none", at(""), "If-Match", "*", 412, "conflict"},
		{"no such condition", "PUT", "c", at(""), "If-None-Match", `"1"`, 400, "invalid"},
		{"right", "PUT", "c", at(`,"payload":1`), "If-Match", `"1"`, 200, ""},
		{"one of two", "PUT", "c", at(`,"payload":2`), "If-Match", `"1", "2"`, 200, ""},
		{"any", "PUT", "c", at(`,"payload":3`), "If-Match", "*", 200, ""},
		{"patch right", "PATCH", "c", `{"payload":4}`, "If-Match", `"4"`, 200, ""},
		{"not modified", "GET", "c", "", "If-None-Match", `"5"`, 304, ""},
		{"not modified, weakly, one of two", "GET", "c", "", "If-None-Match", `"4", W/"5"`, 304, ""},
		{"modified", "GET", "c", "", "If-None-Match", `"4"`, 200, ""},
		{"delete right", "DELETE", "c", "", "If-Match", `"5"`, 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := w.on(t)
			a := w.must(c.want, c.method, "/v1/triggers/"+c.path, c.body, c.header, c.value)
			if strings.Contains(a.body, "revision 0") {
				t.Errorf("there is no revision 0: %s", a.body)
			}
			if c.code != "" && a.get(t, "code") != c.code {
				t.Errorf("code %s, want %s", a.get(t, "code"), c.code)
			}
		})
	}
}

// A repeat is answered as the first request, also where If-Match names several revisions and none is the present one:
// as under a single revision.
func TestIfMatchOfSeveralRevisionsRepeated(t *testing.T) {
	w := newWorld(t, nil)
	for _, match := range []string{`"1"`, `"1", "7"`, `"7", "1"`} {
		path := "/v1/triggers/" + newID()
		w.must(http.StatusCreated, "PUT", path, at(""))
		first := w.must(http.StatusOK, "PUT", path, at(`,"payload":2`), "If-Match", match)
		repeat := w.must(http.StatusOK, "PUT", path, at(`,"payload":2`), "If-Match", match)
		if repeat.body != first.body {
			t.Errorf("under %s the repeat answers %s", match, repeat.body)
		}
		other := w.must(http.StatusPreconditionFailed, "PUT", path, at(`,"payload":3`), "If-Match", match)
		if !strings.Contains(other.body, "revision 2") {
			t.Errorf("under %s other content answers %s", match, other.body)
		}
		path = "/v1/triggers/" + newID()
		w.must(http.StatusCreated, "PUT", path, at(""))
		for range 2 {
			w.must(http.StatusOK, "DELETE", path, "", "If-Match", match)
		}
	}
}

// RFC 9110, 13.1.2: who asks that nothing be there is told that something is,
// be it the same; but the repeat of a request is told what the request was.
func TestIfNoneMatchOfWhatIsThere(t *testing.T) {
	w := newWorld(t, nil)
	same := at(`,"id":"n"`)
	w.must(http.StatusCreated, "POST", "/v1/triggers", same, "If-None-Match", "*")
	a := w.must(http.StatusPreconditionFailed, "POST", "/v1/triggers", same, "If-None-Match", "*")
	if a.get(t, "code") != "conflict" || a.get(t, "field") != "if_absent" || a.get(t, "trigger_id") != "n" {
		t.Errorf("answer %s", a.body)
	}
	first := w.must(http.StatusCreated, "POST", "/v1/triggers", at(""), "If-None-Match", "*", "Idempotency-Key", "k")
	if repeat := w.must(http.StatusOK, "POST", "/v1/triggers", at(""), "If-None-Match", "*", "Idempotency-Key",
		"k"); repeat.body != first.body {
		t.Errorf("the repeat answers %s", repeat.body)
	}
	w.must(http.StatusPreconditionFailed, "POST", "/v1/triggers", same, "If-None-Match", "*", "Idempotency-Key", "new")
	w.engine.fire("n")
	w.must(http.StatusPreconditionFailed, "POST", "/v1/triggers", same, "If-None-Match", "*")
	w.engine.forget() // then nobody knows whose it is
	w.must(http.StatusAccepted, "PUT", "/v1/triggers/m", at(""), "If-None-Match", "*")
}

// The ETag is the revision, which firing does not change: what has fired since,
// or is planned anew, is not what the caller knows.
func TestIfNoneMatchOfWhatHasFired(t *testing.T) {
	w := newWorld(t, nil)
	for id, body := range map[string]string{
		"once": at(""), "acked": at(`,"channel":"sms"`),
		"rule": `{"recurrence":"every:1h"}`,
	} {
		w.must(http.StatusCreated, "PUT", "/v1/triggers/"+id, body)
		known := w.must(http.StatusOK, "GET", "/v1/triggers/"+id, "")
		w.engine.fire(idKey(id))
		a := w.call("GET", "/v1/triggers/"+id, "", "If-None-Match", known.header.Get("ETag"))
		if a.status != http.StatusOK || a.body == known.body {
			t.Errorf("%s: %d %s", id, a.status, a.body)
		}
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/wait", at(""))
	w.must(http.StatusNotModified, "GET", "/v1/triggers/wait", "", "If-None-Match", `"1"`)
	w.must(http.StatusOK, "DELETE", "/v1/triggers/wait", "")
	w.must(http.StatusNotModified, "GET", "/v1/triggers/wait", "", "If-None-Match", `"2"`)
}
