package gateway

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/preferences"
)

// counted is a store that does not answer, and counts who asks.
type counted struct {
	away

	n int
}

func (c *counted) Get(ctx context.Context, users []preferences.User) ([]*preferences.Preferences, error) {
	c.n++
	return c.away.Get(ctx, users)
}

// A register with a user and no channel goes to the first channel that the user prefers.
func TestPreferredChannel(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Preferences = testStore(t) })
	w.must(http.StatusOK, "PUT", "/v1/preferences/ada", `{"preferred_channels":["webhook","SMS","push"]}`)
	w.must(http.StatusOK, "PUT", "/v1/preferences/bob", `{"preferred_channels":["webhook"]}`)
	for name, c := range map[string]struct{ body, want string }{
		"none named":      {`"user_id":"ada"`, "sms"}, // webhook would need a callback
		"null":            {`"user_id":"ada","channel":null,"escalation":null,"callback":null`, "sms"},
		"a channel":       {`"user_id":"ada","channel":"push"`, "push"},
		"the default":     {`"user_id":"ada","channel":"default"`, "default"},
		"an escalation":   {`"user_id":"ada","escalation":[{"channel":"email"}]`, "email"},
		"a callback":      {`"user_id":"ada","callback":{"url":"https://example.com/"}`, "webhook"},
		"nobody":          {`"payload":1`, "default"},
		"an unknown user": {`"user_id":"eve"`, "default"},
		"webhook alone":   {`"user_id":"bob"`, "default"},
		"nobody, by null": {`"user_id":null`, "default"},
	} {
		t.Run(name, func(t *testing.T) {
			id := strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", "")
			w.must(http.StatusCreated, "PUT", "/v1/triggers/"+id, `{"delay":"1h",`+c.body+`}`)
			if got := w.must(http.StatusOK, "GET", "/v1/triggers/"+id, "").get(t, "channel"); got != c.want {
				t.Errorf("it goes to %s, want %s", got, c.want)
			}
		})
	}
	a := w.must(http.StatusUnprocessableEntity, "PUT", "/v1/triggers/x", `{"delay":"1h","user_id":"a\u0000"}`)
	if a.get(t, "field") != "user_id" {
		t.Error(a.body)
	}
	w.must(http.StatusUnprocessableEntity, "PUT", "/v1/triggers/x", `{"delay":"1h","user_id":7}`)
}

// What a user prefers is not compared as content: a repeat is one, whatever the user
// prefers by then. A patch keeps the channel, and another content takes the new one.
func TestPreferredIsNotContent(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Preferences = testStore(t) })
	prefer := func(channel string) {
		w.must(http.StatusOK, "PUT", "/v1/preferences/ada", `{"preferred_channels":["`+channel+`"]}`)
	}
	const body = `{"delay":"1h","user_id":"ada","payload":{"n":1}}`
	want := func(channel, revision string) {
		t.Helper()
		a := w.must(http.StatusOK, "GET", "/v1/triggers/k", "")
		if got := a.get(t, "channel"); got != channel || a.get(t, "revision") != revision {
			t.Fatalf("it goes to %s at revision %s, want %s at %s", got, a.get(t, "revision"), channel, revision)
		}
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/k", body)
	want("default", "1")
	prefer("push")
	w.must(http.StatusOK, "PUT", "/v1/triggers/k", body)
	want("default", "1")
	w.must(http.StatusOK, "PUT", "/v1/triggers/k", strings.Replace(body, `"n":1`, `"n":2`, 1))
	want("push", "2")
	prefer("sms")
	w.must(http.StatusOK, "PUT", "/v1/triggers/k", strings.Replace(body, `"n":1`, `"n":2`, 1))
	want("push", "2")
	w.must(http.StatusOK, "PATCH", "/v1/triggers/k", `{"payload":{"n":3}}`)
	want("push", "3")
}

// While the store is away, such a register is refused, and nothing is written. One that
// says where it goes is not held up. A batch asks once.
func TestPreferredAway(t *testing.T) {
	store := &counted{}
	w := newWorld(t, func(o *Options) { o.Preferences = store })
	a := w.must(http.StatusServiceUnavailable, "PUT", "/v1/triggers/k", `{"delay":"1h","user_id":"ada"}`)
	if d := a.get(t, "detail"); !strings.Contains(d, "preferred_channels") || strings.Contains(a.body, "secret") ||
		a.header.Get("Retry-After") == "" {
		t.Error(a.body)
	}
	w.must(http.StatusNotFound, "GET", "/v1/triggers/k", "")
	w.must(http.StatusCreated, "PUT", "/v1/triggers/k", `{"delay":"1h","user_id":"ada","channel":"push"}`)
	store.n = 0
	a = w.must(http.StatusOK, "POST", "/v1/triggers:batch",
		strings.Repeat(`{"delay":"1h","user_id":"ada"}`+"\n", 3)+`{"delay":"1h"}`)
	if strings.Count(a.body, `"status":503`) != 3 || strings.Count(a.body, `"status":201`) != 1 || store.n != 1 {
		t.Errorf("the store was asked %d times: %s", store.n, a.body)
	}
}

// What is kept of a user does not parse: that user's register is refused with what to do,
// and the other lines of a batch go on. PUT mends it.
func TestPreferredUnreadable(t *testing.T) {
	store := testStore(t)
	poison := &preferences.Preferences{Quiet: &preferences.Quiet{From: 5000, To: 5001}}
	if err := store.Put(t.Context(), preferences.User{Tenant: "default", ID: "ada"}, poison); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(o *Options) { o.Preferences = store })
	a := w.must(http.StatusOK, "POST", "/v1/triggers:batch",
		`{"delay":"1h","user_id":"ada"}`+"\n"+`{"delay":"1h","user_id":"bob"}`+"\n")
	if strings.Count(a.body, `"status":503`) != 1 || strings.Count(a.body, `"status":201`) != 1 ||
		!strings.Contains(a.body, "cannot be parsed") {
		t.Error(a.body)
	}
	a = w.must(http.StatusServiceUnavailable, "GET", "/v1/preferences/ada", "")
	if d := a.get(t, "detail"); !strings.Contains(d, "PUT") {
		t.Error(a.body)
	}
	w.must(http.StatusOK, "PUT", "/v1/preferences/ada", `{"preferred_channels":["push"]}`)
	w.must(http.StatusOK, "GET", "/v1/preferences/ada", "")
	w.must(http.StatusCreated, "PUT", "/v1/triggers/k", `{"delay":"1h","user_id":"ada"}`)
}
