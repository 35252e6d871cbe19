package gateway

import (
	"encoding/json"
	"net/http"
	"reflect"
	"testing"
)

func TestPatch(t *testing.T) {
	const local = `{"fire_at":"2060-06-01T09:00","timezone":"Europe/Berlin","payload":{"a":1,"b":2},"headers":{"x":"y"}}`
	const daily = `{"recurrence":"FREQ=DAILY","start":"2060-06-01T09:00","timezone":"Europe/Berlin","payload":{"a":1}}`
	for _, c := range []struct {
		name, register, before, patch string
		want                          int
		show                          map[string]string // of GET afterwards
	}{
		{"payload merges", local, "", `{"payload":{"b":null,"c":3}}`, 200, map[string]string{
			"payload": `{"a":1,"c":3}`, "fire_at": "2060-06-01T07:00:00.000Z", "local_time": "2060-06-01T09:00:00[Europe/Berlin]", "headers": `{"x":"y"}`, "revision": "2"}},
		{"payload to bytes", local, "", `{"payload_base64":"AAE="}`, 200, map[string]string{"payload": "", "payload_base64": "AAE="}},
		{"header added", local, "", `{"headers":{"z":"w"}}`, 200, map[string]string{"headers": `{"x":"y","z":"w"}`}},
		{"tags and user", local, "", `{"tags":{"t":"1"},"user_id":"u"}`, 200, map[string]string{"tags": `{"t":"1"}`, "user_id": "u", "fire_at": "2060-06-01T07:00:00.000Z"}},
		{"zone alone", local, "", `{"timezone":"Asia/Tokyo"}`, 200, map[string]string{"fire_at": "2060-06-01T00:00:00.000Z", "payload": `{"a":1,"b":2}`}},
		{"wall time alone", local, "", `{"fire_at":"2060-06-02T10:00"}`, 200, map[string]string{"fire_at": "2060-06-02T08:00:00.000Z", "timezone": "Europe/Berlin"}},
		{"to an instant", local, "", `{"fire_at":"2060-06-02T10:00:00Z","timezone":null}`, 200, map[string]string{"fire_at": "2060-06-02T10:00:00.000Z", "timezone": "", "local_time": ""}},
		{"to a rule", local, "", `{"recurrence":"every:1h","start":"2060-01-01T00:00:00Z"}`, 200, map[string]string{"recurrence": "every:1h", "fire_at": "2060-01-01T00:00:00.000Z"}},
		{"time and content", local, "", `{"fire_at":"2060-06-02T10:00","payload":7}`, 200, map[string]string{"fire_at": "2060-06-02T08:00:00.000Z", "payload": "7"}},
		{"nothing", local, "", `{}`, 200, map[string]string{"revision": "1"}},
		{"after a snooze the instant stays", local, `{"until":"2060-07-01T00:00:00Z"}`, `{"payload":1}`, 200, map[string]string{"fire_at": "2060-07-01T00:00:00.000Z", "payload": "1"}},
		{"rule keeps its plan", daily, "", `{"payload":{"a":2}}`, 200, map[string]string{"recurrence": "FREQ=DAILY", "fire_at": "2060-06-01T07:00:00.000Z", "payload": `{"a":2}`}},
		{"rule keeps its start", daily, "", `{"recurrence":"FREQ=WEEKLY"}`, 200, map[string]string{"recurrence": "FREQ=WEEKLY", "start": "2060-06-01T09:00:00"}},
		{"rule to one shot", daily, "", `{"fire_at":"2060-09-01T09:00"}`, 200, map[string]string{"recurrence": "", "fire_at": "2060-09-01T07:00:00.000Z"}},
		{"delay to instant of a delay", `{"delay":"1000d"}`, "", `{"payload":1}`, 200, map[string]string{"delay": "", "payload": "1"}},
		{"unknown field", local, "", `{"payloat":1}`, 422, nil},
		{"no time left", local, "", `{"fire_at":null}`, 422, nil},
		{"two times", local, "", `{"fire_at":"2060-06-02T10:00","delay":"1m"}`, 422, nil},
		{"an id", local, "", `{"id":"z"}`, 422, nil},
		{"wrong type", local, "", `{"tags":[1]}`, 422, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			before := w.must(http.StatusCreated, "PUT", "/v1/triggers/p", c.register)
			if c.before != "" {
				w.must(http.StatusOK, "POST", "/v1/triggers/p:snooze", c.before)
			}
			w.must(c.want, "PATCH", "/v1/triggers/p", c.patch, "Content-Type", "application/merge-patch+json")
			g := w.must(http.StatusOK, "GET", "/v1/triggers/p", "")
			for path, want := range c.show {
				if got := g.get(t, path); got != want {
					t.Errorf("%s is %q, want %q", path, got, want)
				}
			}
			if c.want != http.StatusOK && g.get(t, "fire_at") != before.get(t, "fire_at") {
				t.Errorf("a refused patch moved it to %s", g.get(t, "fire_at"))
			}
		})
	}
}

func TestPatchKeepsWhatIsNotJSON(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/d", `{"delay":"1000d","payload":"old","headers":{"content-type":"text/x","k":"v"}}`)
	at := w.state("d").Series.At
	w.must(http.StatusOK, "PATCH", "/v1/triggers/d", `{"tags":{"a":"b"}}`)
	s := w.state("d")
	if s.Spec.ContentType != "text/x" || len(s.Spec.Headers) != 1 || string(s.Spec.Payload) != `"old"` {
		t.Errorf("spec %+v", s.Spec)
	}
	if s.Series.At != at {
		t.Errorf("the instant moved from %s to %s", at, s.Series.At)
	}
}

func TestPatchKeepsSkips(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/s", `{"recurrence":"FREQ=DAILY","start":"2060-06-01T09:00","timezone":"Europe/Berlin"}`)
	w.must(http.StatusOK, "POST", "/v1/triggers/s:skip", `{"occurrence":"2060-06-03"}`)
	w.must(http.StatusOK, "PATCH", "/v1/triggers/s", `{"payload":1}`)
	got := w.must(http.StatusOK, "GET", "/v1/triggers/s/occurrences?n=3", "")
	want := `{"items":[{"at":"2060-06-01T07:00:00.000Z","local_time":"2060-06-01T09:00:00[Europe/Berlin]","occurrence":"2060-06-01T09:00:00"},` +
		`{"at":"2060-06-02T07:00:00.000Z","local_time":"2060-06-02T09:00:00[Europe/Berlin]","occurrence":"2060-06-02T09:00:00"},` +
		`{"at":"2060-06-04T07:00:00.000Z","local_time":"2060-06-04T09:00:00[Europe/Berlin]","occurrence":"2060-06-04T09:00:00"}]}` + "\n"
	if got.body != want {
		t.Errorf("occurrences %s", got.body)
	}
}

func TestPatchOfFinished(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/f", at(""))
	w.engine.fire("f")
	if a := w.must(http.StatusConflict, "PATCH", "/v1/triggers/f", `{"payload":1}`); a.get(t, "code") != "already_fired" || a.get(t, "state") != "FIRED" {
		t.Errorf("answer %s", a.body)
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/c", at(""))
	w.must(http.StatusOK, "DELETE", "/v1/triggers/c", "")
	w.must(http.StatusNotFound, "PATCH", "/v1/triggers/c", `{"payload":1}`)
}

// The examples of RFC 7396, appendix A.
func TestMergePatchOfTheRFC(t *testing.T) {
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`}, {`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`}, {`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`}, {`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`}, {`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`}, {`{"a":"b"}`, `["c"]`, `["c"]`}, {`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`}, {`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`}, {`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		var v [3]any
		for i := range c {
			if err := json.Unmarshal([]byte(c[i]), &v[i]); err != nil {
				t.Fatal(err)
			}
		}
		if got := mergePatch(v[0], v[1]); !reflect.DeepEqual(got, v[2]) {
			t.Errorf("%s patched by %s is %v, want %s", c[0], c[1], got, c[2])
		}
	}
}
