package gateway

import (
	"net/http"
	"testing"
)

// A merge patch changes only what it names: the rest of the trigger goes on.
func TestPatchLeavesTheRest(t *testing.T) {
	const hourly = `{"recurrence":"every:1h","payload":{"a":1}}`
	for _, c := range []struct {
		name, register, verb, body, patch string
		show                              map[string]string // of GET afterwards
	}{
		{"a series stays paused", hourly, "pause", `{"note":"holiday"}`, `{"tags":{"x":"z"}}`, map[string]string{
			"state": "PAUSED", "note": "holiday", "tags": `{"x":"z"}`, "payload": `{"a":1}`, "revision": "3",
		}},
		{"a one-shot stays paused", at(`,"payload":{"a":1}`), "pause", ``, `{"payload":{"b":2}}`, map[string]string{
			"state": "PAUSED", "payload": `{"a":1,"b":2}`, "fire_at": farAhead, "next_fire_at": "",
		}},
		{
			"with a new time too", at(""), "pause", ``, `{"fire_at":"2060-01-01T00:00:00Z","payload":1}`,
			map[string]string{
				"state": "PAUSED", "payload": "1", "fire_at": "2060-01-01T00:00:00.000Z",
			},
		},
		{"a new time alone", at(""), "pause", ``, `{"fire_at":"2060-01-01T00:00:00Z"}`, map[string]string{
			"state": "PAUSED", "fire_at": "2060-01-01T00:00:00.000Z",
		}},
		{
			"to a rule", at(`,"payload":1`), "pause", ``,
			`{"recurrence":"FREQ=DAILY","start":"2060-01-01T00:00:00Z","payload":2}`,
			map[string]string{
				"state": "PAUSED", "payload": "2", "recurrence": "FREQ=DAILY",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.must(http.StatusCreated, "PUT", "/v1/triggers/p", c.register)
			w.must(http.StatusOK, "POST", "/v1/triggers/p:"+c.verb, c.body)
			w.must(http.StatusOK, "PATCH", "/v1/triggers/p", c.patch)
			g := w.must(http.StatusOK, "GET", "/v1/triggers/p", "")
			for path, want := range c.show {
				if got := g.get(t, path); got != want {
					t.Errorf("%s is %q, want %q", path, got, want)
				}
			}
			w.must(http.StatusOK, "PUT", "/v1/triggers/p", `{"delay":"1h"}`)
			if got := w.must(http.StatusOK, "GET", "/v1/triggers/p", "").get(t, "state"); got != "PENDING" {
				t.Errorf("a PUT leaves it %s: replacing ends a pause", got)
			}
		})
	}
}

// What was asked for once is not what it is now: a patch back to it counts.
func TestPatchBackToWhatWasRegistered(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/b", at(`,"payload":1`))
	w.must(http.StatusOK, "PATCH", "/v1/triggers/b", `{"fire_at":"2060-01-01T00:00:00Z"}`)
	if a := w.must(http.StatusOK, "PATCH", "/v1/triggers/b", at(`,"payload":1`)); a.get(t, "fire_at") != farAhead {
		t.Errorf("answer %s", a.body)
	}
}

// Neither a zone nor dst moves what is planned for an instant.
func TestPatchOfClocksKeepsAnInstant(t *testing.T) {
	for _, c := range []struct{ name, register, snooze, patch, revision string }{
		{"dst of a delay", `{"delay":"1000d","payload":1}`, "", `{"dst":{"gap":"skip"}}`, "2"},
		{"zone of a delay", `{"delay":"1000d","payload":1}`, "", `{"timezone":"Asia/Tokyo"}`, "2"},
		{"zone and content of a delay", `{"delay":"1000d"}`, "", `{"timezone":"Asia/Tokyo","payload":1}`, "2"},
		{"dst of an instant", at(`,"payload":1,"dst":{"overlap":"both"}`), "", `{"dst":{"gap":"skip"}}`, "2"},
		// of no use, so nothing changes
		{"zone of an instant", at(`,"payload":1`), "", `{"timezone":"Asia/Tokyo"}`, "1"},
		{
			"of what was snoozed", `{"fire_at":"2060-06-01T09:00","timezone":"Europe/Berlin","payload":1}`,
			`{"for":"1h"}`,
			`{"dst":{"gap":"skip"}}`, "3",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.must(http.StatusCreated, "PUT", "/v1/triggers/i", c.register)
			if c.snooze != "" {
				w.must(http.StatusOK, "POST", "/v1/triggers/i:snooze", c.snooze)
			}
			before := w.state("i").Series
			a := w.must(http.StatusOK, "PATCH", "/v1/triggers/i", c.patch)
			if got := w.state("i").Series; got.At != before.At || got.MissedUntil != before.MissedUntil {
				t.Errorf("planned %+v, then %+v", before, got)
			}
			if a.get(t, "revision") != c.revision || string(w.state("i").Spec.Payload) != "1" {
				t.Errorf("answer %s, payload %s", a.body, w.state("i").Spec.Payload)
			}
		})
	}
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/i", at(`,"dst":{"overlap":"both"}`))
	w.must(http.StatusOK, "PATCH", "/v1/triggers/i", `{"dst":{"gap":"skip"}}`)
	if got := w.must(http.StatusOK, "GET", "/v1/triggers/i", "").get(t,
		"dst"); got != `{"gap":"skip","overlap":"both"}` {
		t.Errorf("dst %s", got)
	}
	w.must(http.StatusUnprocessableEntity, "PATCH", "/v1/triggers/i", `{"fire_at":null}`)
	w.must(http.StatusUnprocessableEntity, "PATCH", "/v1/triggers/i", `{"count":2}`)
}
