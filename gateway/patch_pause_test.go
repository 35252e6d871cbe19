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
			"state": "PAUSED", "note": "holiday", "tags": `{"x":"z"}`, "payload": `{"a":1}`, "revision": "3"}},
		{"a one-shot stays paused", at(`,"payload":{"a":1}`), "pause", ``, `{"payload":{"b":2}}`, map[string]string{
			"state": "PAUSED", "payload": `{"a":1,"b":2}`, "fire_at": farAhead, "next_fire_at": ""}},
		{"with a new time too", at(""), "pause", ``, `{"fire_at":"2060-01-01T00:00:00Z","payload":1}`, map[string]string{
			"state": "PAUSED", "payload": "1", "fire_at": "2060-01-01T00:00:00.000Z"}},
		{"a new time alone", at(""), "pause", ``, `{"fire_at":"2060-01-01T00:00:00Z"}`, map[string]string{
			"state": "PAUSED", "fire_at": "2060-01-01T00:00:00.000Z"}},
		{"to a rule", at(`,"payload":1`), "pause", ``, `{"recurrence":"FREQ=DAILY","start":"2060-01-01T00:00:00Z","payload":2}`, map[string]string{
			"state": "PAUSED", "payload": "2", "recurrence": "FREQ=DAILY"}},
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
