package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/trigger"
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
			"payload": `{"a":1,"c":3}`, "fire_at": "2060-06-01T07:00:00.000Z",
			"local_time": "2060-06-01T09:00:00[Europe/Berlin]", "headers": `{"x":"y"}`, "revision": "2",
		}},
		{
			"payload to bytes", local, "", `{"payload_base64":"AAE="}`, 200,
			map[string]string{"payload": "", "payload_base64": "AAE="},
		},
		{"header added", local, "", `{"headers":{"z":"w"}}`, 200, map[string]string{"headers": `{"x":"y","z":"w"}`}},
		{
			"tags and user", local, "", `{"tags":{"t":"1"},"user_id":"u"}`, 200,
			map[string]string{"tags": `{"t":"1"}`, "user_id": "u", "fire_at": "2060-06-01T07:00:00.000Z"},
		},
		{
			"zone alone", local, "", `{"timezone":"Asia/Tokyo"}`, 200,
			map[string]string{"fire_at": "2060-06-01T00:00:00.000Z", "payload": `{"a":1,"b":2}`},
		},
		{
			"wall time alone", local, "", `{"fire_at":"2060-06-02T10:00"}`, 200,
			map[string]string{"fire_at": "2060-06-02T08:00:00.000Z", "timezone": "Europe/Berlin"},
		},
		{
			"to an instant", local, "", `{"fire_at":"2060-06-02T10:00:00Z","timezone":null}`, 200,
			map[string]string{"fire_at": "2060-06-02T10:00:00.000Z", "timezone": "", "local_time": ""},
		},
		{
			"to a rule", local, "", `{"recurrence":"every:1h","start":"2060-01-01T00:00:00Z"}`, 200,
			map[string]string{"recurrence": "every:1h", "fire_at": "2060-01-01T00:00:00.000Z"},
		},
		{
			"time and content", local, "", `{"fire_at":"2060-06-02T10:00","payload":7}`, 200,
			map[string]string{"fire_at": "2060-06-02T08:00:00.000Z", "payload": "7"},
		},
		{"nothing", local, "", `{}`, 200, map[string]string{"revision": "1"}},
		{
			"after a snooze the instant stays", local, `{"until":"2060-07-01T00:00:00Z"}`, `{"payload":1}`, 200,
			map[string]string{"fire_at": "2060-07-01T00:00:00.000Z", "payload": "1"},
		},
		{
			"rule keeps its plan", daily, "", `{"payload":{"a":2}}`, 200,
			map[string]string{"recurrence": "FREQ=DAILY", "fire_at": "2060-06-01T07:00:00.000Z", "payload": `{"a":2}`},
		},
		{
			"rule keeps its start", daily, "", `{"recurrence":"FREQ=WEEKLY"}`, 200,
			map[string]string{"recurrence": "FREQ=WEEKLY", "start": "2060-06-01T09:00:00"},
		},
		{
			"rule to one shot", daily, "", `{"fire_at":"2060-09-01T09:00"}`, 200,
			map[string]string{"recurrence": "", "fire_at": "2060-09-01T07:00:00.000Z"},
		},
		{
			"delay to instant of a delay", `{"delay":"1000d"}`, "", `{"payload":1}`, 200,
			map[string]string{"delay": "", "payload": "1"},
		},
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

// To remove what is not there changes nothing (RFC 7396): neither the plan, nor
// what a snooze has moved, nor the revision.
func TestPatchOfWhatIsNotThere(t *testing.T) {
	const snooze = `{"until":"2060-07-01T00:00:00Z"}`
	for _, c := range []struct{ name, register, snooze, patch string }{
		{"fire_at of a delay", `{"delay":"1000d"}`, "", `{"fire_at":null}`},
		{"recurrence of a delay", `{"delay":"1000d"}`, "", `{"recurrence":null}`},
		{"delay of what was snoozed", `{"fire_at":"2060-06-01T09:00:00Z"}`, snooze, `{"delay":null}`},
		{
			"dst of what was snoozed", `{"fire_at":"2060-06-01T09:00","timezone":"Europe/Berlin"}`, snooze,
			`{"dst":null,"calendars":null}`,
		},
		{"timezone of an instant", `{"fire_at":"2060-06-01T09:00:00Z"}`, "", `{"timezone":null}`},
		{
			"all of a rule", `{"fire_at":"2060-06-01T09:00","timezone":"Europe/Berlin"}`, "",
			`{"recurrence":null,"start":null,"until":null,"count":null,"include":null,"exclude":null}`,
		},
		{"count and dst of a rule", `{"recurrence":"every:1h"}`, "", `{"count":null,"dst":null}`},
		{
			"content of a delay", `{"delay":"1000d"}`, "",
			`{"tags":null,"payload":null,"payload_base64":null,"headers":null,"user_id":null,"callback":null}`,
		},
		{"a tag of a delay", `{"delay":"1000d","tags":{"a":"1"}}`, "", `{"tags":{"b":null}}`},
		{"a header of a delay", `{"delay":"1000d","headers":{"a":"1"}}`, "", `{"headers":{"b":null}}`},
		{
			"a member of a payload", `{"delay":"1000d","payload":{"a":{"b":1}}}`, "",
			`{"payload":{"a":{"c":null},"d":null}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.must(http.StatusCreated, "PUT", "/v1/triggers/p", c.register)
			if c.snooze != "" {
				w.must(http.StatusOK, "POST", "/v1/triggers/p:snooze", c.snooze)
			}
			before := w.must(http.StatusOK, "GET", "/v1/triggers/p", "").body
			w.must(http.StatusOK, "PATCH", "/v1/triggers/p", c.patch)
			if now := w.must(http.StatusOK, "GET", "/v1/triggers/p", "").body; now != before {
				t.Errorf("it was %sand is %s", before, now)
			}
		})
	}
}

// To remove what is there says what it says, and may leave no time at all.
func TestPatchRemoves(t *testing.T) {
	for _, c := range []struct {
		name, register, patch string
		want                  int
		code                  string
	}{
		{"the only delay", `{"delay":"1000d"}`, `{"delay":null}`, 422, "conflicting_time"},
		{"the only instant", `{"fire_at":"2060-06-01T09:00:00Z"}`, `{"fire_at":null}`, 422, "conflicting_time"},
		{"the only rule", `{"recurrence":"every:1h"}`, `{"recurrence":null}`, 422, "conflicting_time"},
		{
			"the zone of a wall time", `{"fire_at":"2060-06-01T09:00","timezone":"Europe/Berlin"}`, `{"timezone":null}`,
			422, "invalid",
		},
		{
			"a rule beside dates",
			`{"recurrence":"FREQ=DAILY","include":["2060-06-01T09:00"],"start":"2060-05-01T09:00"}`,
			`{"recurrence":null}`, 200, "",
		},
		{"a count", `{"recurrence":"FREQ=DAILY","count":3}`, `{"count":null}`, 200, ""},
		{"a field nobody knows", `{"delay":"1000d"}`, `{"dealy":null}`, 422, "unknown_field"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.must(http.StatusCreated, "PUT", "/v1/triggers/p", c.register)
			a := w.must(c.want, "PATCH", "/v1/triggers/p", c.patch)
			if c.code != "" && a.get(t, "code") != c.code || c.code == "" && a.get(t, "revision") != "2" {
				t.Errorf("answer %s", a.body)
			}
		})
	}
}

// Patches without a condition that meet are all made, one after the other.
func TestPatchesThatMeet(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/p", at(""))
	const n = 20
	answers := make(chan answer, n)
	for i := range n {
		go func() {
			answers <- w.call("PATCH", "/v1/triggers/p", fmt.Sprintf(`{"tags":{"t%d":"1"}}`, i))
		}()
	}
	for range n {
		if a := <-answers; a.status != http.StatusOK {
			t.Errorf("answer %d %s", a.status, a.body)
		}
	}
	if got := len(w.state("p").Spec.Tags); got != n {
		t.Errorf("%d tags of %d", got, n)
	}
}

// stale reads a trigger at a revision it does not have.
type stale struct{ *engine }

func (o stale) Get(ctx context.Context, key trigger.Key) (*trigger.State, error) {
	st, err := o.engine.Get(ctx, key)
	if st != nil {
		old := *st
		old.Revision++ // any other than the one it is at
		st = &old
	}
	return st, err
}

// Who set no condition is told of none: to send the patch again is all there is
// to do.
func TestPatchOfWhatNeverRests(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/p", at(""))
	_, url := w.gateway(stale{w.engine}, func(o *Options) { o.AnswerWithin = 500 * time.Millisecond })
	a := w.callAt(url, "PATCH", "/v1/triggers/p", `{"payload":1}`)
	if a.status != http.StatusServiceUnavailable || a.get(t, "field") != "" || a.header.Get("Retry-After") != "1" ||
		a.get(t, "trigger_id") != "p" {
		t.Errorf("answer %d %s", a.status, a.body)
	}
	if a := w.callAt(url, "PATCH", "/v1/triggers/p", `{"payload":1}`, "If-Match",
		`"2"`); a.status != http.StatusPreconditionFailed {
		t.Errorf("with a condition %d %s", a.status, a.body)
	}
}

func TestPatchKeepsWhatIsNotJSON(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/d",
		`{"delay":"1000d","payload":"old","headers":{"content-type":"text/x","k":"v"}}`)
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
	w.must(http.StatusCreated, "PUT", "/v1/triggers/s",
		`{"recurrence":"FREQ=DAILY","start":"2060-06-01T09:00","timezone":"Europe/Berlin"}`)
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
	if a := w.must(http.StatusConflict, "PATCH", "/v1/triggers/f", `{"payload":1}`); a.get(t,
		"code") != "already_fired" || a.get(t, "state") != "FIRED" {
		t.Errorf("answer %s", a.body)
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/c", at(""))
	w.must(http.StatusOK, "DELETE", "/v1/triggers/c", "")
	w.must(http.StatusNotFound, "PATCH", "/v1/triggers/c", `{"payload":1}`)
}

// What fires between the read and the reschedule is too late to change, as it would be a moment later.
func TestPatchOfWhatFiresMeanwhile(t *testing.T) {
	is := func(code trigger.Code, status trigger.Status) error {
		p := problem.New(http.StatusNotFound, code, "", "no pending trigger")
		p.State = status.String()
		return p
	}
	for _, c := range []struct {
		err  error
		want int
	}{
		{is(trigger.CodeNotFound, trigger.Fired), http.StatusConflict},
		{is(trigger.CodeNotFound, trigger.Expired), http.StatusConflict},
		{is(trigger.CodeNotFound, trigger.Cancelled), http.StatusNotFound},
		{problem.NotFound("t"), http.StatusNotFound},
	} {
		p := problem.Of(firedMeanwhile("t", c.err))
		if p.Status != c.want || c.want == http.StatusConflict && p.Code != trigger.CodeAlreadyFired {
			t.Errorf("%v: %d %s, want %d", c.err, p.Status, p.Code, c.want)
		}
	}
	if err := firedMeanwhile("t", nil); err != nil {
		t.Error(err)
	}
}

// The examples of RFC 7396, appendix A.
func TestMergePatchOfTheRFC(t *testing.T) {
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		// Section 1: what is no object replaces the target as it is, also where objects stand in it.
		{`{}`, `{"a":[{"b":null}]}`, `{"a":[{"b":null}]}`},
		{`{"a":[1]}`, `{"a":[{"b":null}]}`, `{"a":[{"b":null}]}`},
		{`{"a":{"b":1}}`, `{"a":{"b":[[{"c":null}]],"d":null}}`, `{"a":{"b":[[{"c":null}]]}}`},
	} {
		got, err := mergePatch(jsontext.Value(c[0]), jsontext.Value(c[1]))
		if err != nil {
			t.Errorf("%s patched by %s: %v", c[0], c[1], err)
			continue
		}
		var have, want any
		if json.Unmarshal(got, &have) != nil || json.Unmarshal([]byte(c[2]), &want) != nil ||
			!reflect.DeepEqual(have, want) {
			t.Errorf("%s patched by %s is %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

// What a merge patch does not name keeps its bytes, and of members with one name the last counts.
func TestMergePatchKeepsBytes(t *testing.T) {
	for _, c := range [][3]string{
		{
			`{"h":"<&>\u003c","n":1.50e1, "x":{ "y" : [1, 2] }}`, `{"t":"<"}`,
			`{"h":"<&>\u003c","n":1.50e1,"x":{ "y" : [1, 2] },"t":"<"}`,
		},
		{`{"\u0061":1,"b":{"c":"<","d":2}}`, `{"a":[ 1 ],"b":{"d":null}}`, `{"\u0061":[ 1 ],"b":{"c":"<"}}`},
		{`{"a":1,"a":2,"b":1,"b":2}`, `{"a":3,"c":4,"c":{"d":null}}`, `{"a":3,"b":1,"b":2,"c":{}}`},
		{`{"a":1,"a":2}`, `{"a":null}`, `{}`},
		{"{\"\":1,\"\u2028\":2}", `{"":2}`, "{\"\":2,\"\u2028\":2}"},
	} {
		if got, err := mergePatch(jsontext.Value(c[0]), jsontext.Value(c[1])); err != nil || string(got) != c[2] {
			t.Errorf("%s patched by %s is %s, want %s; %v", c[0], c[1], got, c[2], err)
		}
	}
}

// A patch of one member of a payload leaves the bytes of the others, which the limit counts.
func TestPatchKeepsThePayloadsBytes(t *testing.T) {
	w := newWorld(t, nil)
	html := `{"h":"` + strings.Repeat("<", 1000)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/p", `{"delay":"1000d","payload":`+html+`"}}`)
	w.must(http.StatusOK, "PATCH", "/v1/triggers/p", `{"payload":{"lines":[{"sku":"a","discount":null}]}}`)
	want := html + `","lines":[{"sku":"a","discount":null}]}`
	if got := string(w.state("p").Spec.Payload); got != want {
		t.Errorf("the payload is %s\nwant %s", got, want)
	}
}

// rfcMerge is the pseudocode of RFC 7396, section 2.
func rfcMerge(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	merged := map[string]any{}
	t, _ := target.(map[string]any)
	maps.Copy(merged, t)
	for name, v := range p {
		if delete(merged, name); v != nil {
			merged[name] = rfcMerge(t[name], v)
		}
	}
	return merged
}

// drawJSON draws a value that has many objects, and few names.
func drawJSON(rng *rand.Rand, depth int) any {
	switch n := rng.IntN(8); {
	case n == 0:
		return nil
	case n == 1:
		return float64(rng.IntN(3))
	case n == 2 && depth > 0:
		return []any{drawJSON(rng, depth-1)}
	case depth > 0:
		m := map[string]any{}
		for range rng.IntN(4) {
			m[string(rune('a'+rng.IntN(4)))] = drawJSON(rng, depth-1)
		}
		return m
	}
	return "<"
}

// Any value patched by any other is what the pseudocode of the RFC makes of it, and what changes nothing does not.
func TestMergePatchAsThePseudocode(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 5000 {
		target, patch := drawJSON(rng, 4), drawJSON(rng, 4)
		before, _ := json.Marshal(target)
		by, _ := json.Marshal(patch)
		got, err := mergePatch(before, by)
		var have any
		if want := rfcMerge(target, patch); err != nil || json.Unmarshal(got, &have) != nil ||
			!reflect.DeepEqual(have, want) {
			t.Fatalf("%s patched by %s is %s, %v", before, by, got, err)
		}
		if nothing, err := changesNothing(by, before); err != nil || nothing && !reflect.DeepEqual(have, target) {
			t.Fatalf("%s patched by %s is %s, and that changes nothing; %v", before, by, got, err)
		}
	}
}
