package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/topics"
)

// leastRoles is each route of /openapi.json with the least role that it needs. "": it needs no
// credential.
var leastRoles = map[string]string{
	"GET /v1/whoami":                       "viewer",
	"GET /v1/triggers":                     "viewer",
	"GET /v1/triggers/{id}":                "viewer",
	"GET /v1/triggers/{id}/events":         "viewer",
	"GET /v1/triggers/{id}/occurrences":    "viewer",
	"GET /v1/triggers/{id}/explain":        "viewer",
	"GET /v1/search":                       "viewer",
	"POST /v1/preview":                     "viewer",
	"GET /v1/upcoming":                     "viewer",
	"GET /v1/channels":                     "viewer",
	"GET /v1/calendars":                    "viewer",
	"GET /v1/tzdata":                       "viewer",
	"GET /v1/calendars/{name}":             "viewer",
	"GET /v1/rejected":                     "viewer",
	"GET /v1/lateness":                     "viewer",
	"GET /v1/live":                         "viewer",
	"GET /v1/forecast":                     "viewer",
	"GET /v1/dead-letters":                 "viewer",
	"GET /v1/users/{user}/notifications":   "viewer",
	"GET /v1/users/{user}/erasure":         "viewer",
	"GET /v1/notifications/{notification}": "viewer",
	"GET /v1/preferences/{user}":           "viewer",
	"GET /api/reminders":                   "viewer",
	"GET /api/reminders/{id}":              "viewer",
	"PATCH /v1/triggers/{id}":              "support", // time fields; others need a writer
	"DELETE /v1/triggers/{id}":             "support",
	"POST /v1/triggers/{id}:snooze":        "support",
	"POST /v1/triggers/{id}:skip":          "support",
	"POST /v1/triggers/{id}:pause":         "support",
	"POST /v1/triggers/{id}:resume":        "support",
	"POST /v1/triggers/{id}:run":           "support",
	"POST /v1/triggers/{id}:rezone":        "support",
	"POST /v1/triggers/{id}:ack":           "support",
	"POST /v1/triggers/{id}:reveal":        "reader",
	"PATCH /api/reminders/{id}":            "support",
	"DELETE /api/reminders/{id}":           "support",
	"POST /api/reminders/{id}/snooze":      "support",
	"POST /v1/dead-letters:redrive":        "support", // of one trigger; others need a writer
	"POST /v1/triggers":                    "writer",
	"PUT /v1/triggers/{id}":                "writer",
	"POST /v1/triggers:batch":              "writer",
	"POST /v1/triggers/{id}:erase":         "writer",
	"POST /api/reminders":                  "writer",
	"PUT /v1/calendars/{name}":             "writer",
	"DELETE /v1/calendars/{name}":          "writer",
	"PUT /v1/preferences/{user}":           "writer",
	"DELETE /v1/users/{user}":              "writer",
	"GET /v1/partitions":                   "operator",
	"GET /v1/audit":                        "operator",
	"GET /v1/watermark":                    "viewer",
	"POST /v1/reconcile":                   "operator",
	"DELETE /v1/channels/{name}":           "operator",
	"GET /v1/settings":                     "operator",
	"GET /v1/endpoints":                    "operator",
	"POST /v1/endpoints:test":              "operator",
	"GET /a/{token}":                       "",
	"POST /a/{token}":                      "",
	"GET /u/{token}":                       "",
	"POST /u/{token}":                      "",
	"POST /v1/providers/twilio/status":     "",
	"GET /asyncapi.json":                   "",
	"GET /docs":                            "",
	"GET /healthz":                         "",
	"GET /metrics":                         "",
	"GET /openapi.json":                    "",
	"GET /readyz":                          "",
	"GET /schemas/{name}":                  "",
}

// rolesWith are the roles that include another one.
var rolesWith = map[string][]string{
	"viewer":   auth.RoleNames(),
	"support":  {"support", "writer", "operator"},
	"reader":   {"reader", "writer", "operator"},
	"writer":   {"writer", "operator"},
	"operator": {"operator"},
}

// keyOf is an API key of tenant acme with one role.
func keyOf(role string) string { return strings.Repeat(role[:1], 40) + "-of-" + role }

func roleKeys(t testing.TB) *auth.Keys {
	var lines strings.Builder
	for _, role := range auth.RoleNames() {
		fmt.Fprintf(&lines, "acme %s %s %s-app\n", keyOf(role), role, role)
	}
	k, err := auth.ReadKeys(strings.NewReader(lines.String()))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func as(role string) []string { return []string{"Authorization", "Bearer " + keyOf(role)} }

// Every route of the OpenAPI document admits the roles that it names, and no other.
func TestLeastRoles(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth = roleKeys(t) })
	paths := description().at("paths").(map[string]any)
	seen := 0
	for path, methods := range paths {
		for method, op := range methods.(map[string]any) {
			name := strings.ToUpper(method) + " " + path
			least, known := leastRoles[name]
			if !known {
				t.Errorf("%s: nobody has said which role it needs", name)
				continue
			}
			seen++
			if least == "" {
				continue
			}
			says, _ := op.(map[string]any)["description"].(string)
			if want := "Needs the role " + least + "."; says != want {
				t.Errorf("%s: the document says %q, want %q", name, says, want)
			}
			for _, role := range auth.RoleNames() {
				a := w.call(strings.ToUpper(method), noSuch.Replace(path)+aQuery[name], aBody[name], as(role)...)
				may, refused := slices.Contains(rolesWith[least], role), a.status == http.StatusForbidden
				if may == refused || a.status == http.StatusUnauthorized {
					t.Errorf("%s as %s: %d %s", name, role, a.status, a.body)
				}
			}
		}
	}
	if seen != len(leastRoles) {
		t.Errorf("%d routes, and %d in leastRoles", seen, len(leastRoles))
	}
}

// noSuch fills in the names of a pattern.
var noSuch = strings.NewReplacer("{id}", "none", "{user}", "none", "{name}", "none", "{notification}", "none@o")

// aBody has the bodies on which the needed right depends.
var aBody = map[string]string{
	"POST /v1/dead-letters:redrive": `{"trigger_id":"none"}`,
	"PATCH /v1/triggers/{id}":       `{"delay":"1h"}`,
	"PATCH /api/reminders/{id}":     `{"skip":"2060-01-01"}`,
}

// aQuery ends a stream.
var aQuery = map[string]string{"GET /v1/live": "?n=1"}

// A role without payloads sees that there is one, and nothing of it, by any route.
func TestPayloadsAreHidden(t *testing.T) {
	registered := event("acme/t", 10, 1, "trigger.registered")
	registered.Payload = []byte(`{"title":"only for readers"}`)
	binary := event("acme/t", 11, 2, "trigger.replaced")
	binary.PayloadBase64 = "b25seSBmb3IgcmVhZGVycw=="
	w := newWorld(t, func(o *Options) {
		o.Auth, o.History = roleKeys(t), &keptEvents{all: []topics.Event{registered, binary}}
		o.Notifications = keptNotifications{{
			Tenant: "acme", Trigger: "acme/t", ID: "acme/t@o", User: "u", CreatedAt: 1_795_000_000_000,
			Channels: map[string]string{},
			Content:  &topics.NotificationContent{Title: "only for readers"},
		}}
	})
	w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(`,"user_id":"u","payload":{"title":"only for readers"}`),
		as("writer")...)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/b", at(`,"payload_base64":"b25seSBmb3IgcmVhZGVycw=="`),
		as("writer")...)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/none", at(``), as("writer")...)
	for path, says := range map[string]string{
		"/v1/triggers/t":                      `"payload_hidden":true`,
		"/v1/triggers/b":                      `"payload_hidden":true`,
		"/v1/triggers":                        `"payload_hidden":true`,
		"/v1/triggers?user_id=u":              `"payload_hidden":true`,
		"/v1/triggers/t/events":               `"payload_hidden":true`,
		"/api/reminders/t":                    `"payload_hidden":true`,
		"/api/reminders":                      `"payload_hidden":true`,
		"/v1/users/u/notifications?content=1": `"content_hidden":true`,
		"/v1/notifications/t@o":               `"content_hidden":true`,
	} {
		for _, role := range auth.RoleNames() {
			a := w.must(http.StatusOK, "GET", path, "", as(role)...)
			hides := role == "viewer" || role == "support"
			shows := strings.Contains(a.body, "only for readers") || strings.Contains(a.body, "b25seSBmb3Ig")
			if hides == shows || strings.Contains(a.body, says) != hides {
				t.Errorf("%s as %s: %s", path, role, a.body)
			}
		}
	}
	if a := w.must(http.StatusOK, "GET", "/v1/triggers/none", "", as("viewer")...); strings.Contains(a.body, "hidden") {
		t.Errorf("of a trigger without a payload: %s", a.body)
	}
	if lines := w.stream(t, "/v1/triggers/t/events?follow=1", 2, as("viewer")...); strings.Contains(lines,
		"only for readers") || strings.Count(lines, `"payload_hidden":true`) != 2 {
		t.Errorf("a stream: %s", lines)
	}
}

// stream reads a stream of events up to the n-th.
func (w *world) stream(t *testing.T, path string, n int, header ...string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(header[0], header[1])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var lines strings.Builder
	for b := make([]byte, 4096); strings.Count(lines.String(), "\n\n") < n; {
		k, err := resp.Body.Read(b)
		lines.Write(b[:k])
		if err != nil {
			t.Fatal(err)
		}
	}
	return lines.String()
}

// Support moves one trigger and redrives it. It writes no content, and nothing about many.
func TestSupportActsOnOne(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth, o.Letters = roleKeys(t), acmeLetters{} })
	w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(`,"payload":{"title":"x"}`), as("writer")...)
	support := as("support")
	w.must(http.StatusOK, "PATCH", "/v1/triggers/t", `{"fire_at":"2060-02-01T00:00:00Z"}`, support...)
	w.must(http.StatusForbidden, "PATCH", "/v1/triggers/t", `{"payload":{"title":"y"}}`, support...)
	w.must(http.StatusForbidden, "PATCH", "/v1/triggers/t", `{"fire_at":"2060-02-02T00:00:00Z","tags":{"a":"b"}}`,
		support...)
	w.must(http.StatusForbidden, "PATCH", "/api/reminders/t", `{"title":"y"}`, support...)
	w.must(http.StatusForbidden, "POST", "/v1/dead-letters:redrive", `{"all":true}`, support...)
	w.must(http.StatusForbidden, "POST", "/v1/dead-letters:redrive", `{"channel":"push","dry_run":true}`, support...)
	w.must(http.StatusOK, "POST", "/v1/triggers/t:snooze", `{"for":"10m"}`, support...)
	if st := w.state("acme/t"); string(st.Spec.Payload) != `{"title":"x"}` {
		t.Errorf("the payload is %s", st.Spec.Payload)
	}
	w.must(http.StatusOK, "DELETE", "/v1/triggers/t", "", support...)
}

func TestWhoami(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth = roleKeys(t) })
	a := w.must(http.StatusOK, "GET", "/v1/whoami", "", as("support")...)
	want := `{"actor":"support-app","tenant":"acme","roles":["support"],"rights":["read","act"],` +
		`"history":false,"topics_prefix":"waterclock."}` + "\n"
	if a.body != want {
		t.Errorf("%s, want %s", a.body, want)
	}
	open := newWorld(t, func(o *Options) {
		o.Names.Prefix, o.Brokers = "w.", Brokers{Addresses: []string{"kafka:9092"}, Auth: true}
	})
	a = open.must(http.StatusOK, "GET", "/v1/whoami", "")
	want = `{"actor":"","tenant":"default","roles":["operator"],"rights":["read","payloads","act","write","operate"],` +
		`"history":false,"topics_prefix":"w.","brokers":["kafka:9092"],"brokers_auth":true}` + "\n"
	if a.body != want {
		t.Errorf("without log-in %s, want %s", a.body, want)
	}
}

// Which names a payload has is closed to support, so the answer to a patch of it says nothing of that.
func TestSupportLearnsNoNames(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth = roleKeys(t) })
	w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(`,"payload":{"title":"x"}`), as("writer")...)
	for path, bodies := range map[string][]string{
		"/v1/triggers/t": {
			`{"payload":{"title":null}}`, `{"payload":{"none":null}}`, `{"payload":{}}`, `{"payload_base64":null}`,
			`{"fire_at":"2060-03-01T00:00:00Z","payload":{"none":null}}`, `{"headers":{"x":null}}`,
		},
		"/api/reminders/t": {`{"title":null}`, `{"body":null}`},
	} {
		for _, body := range bodies {
			a := w.must(http.StatusForbidden, "PATCH", path, body, as("support")...)
			b := w.must(http.StatusForbidden, "PATCH", path, bodies[0], as("support")...)
			if a.body != b.body {
				t.Errorf("%s: %s, and %s: %s", body, a.body, bodies[0], b.body)
			}
		}
	}
	w.must(http.StatusOK, "PATCH", "/v1/triggers/t", `{"fire_at":"2060-03-01T00:00:00Z","note":"x","if_revision":null}`,
		as("support")...)
}

// A role with payloads leaves them out by payload=false: what one shows to a person is shown by :reveal, on record.
func TestPayloadsAreLeftOut(t *testing.T) {
	registered := event("acme/t", 10, 1, "trigger.registered")
	registered.Payload = []byte(`{"title":"only for readers"}`)
	w := newWorld(t, func(o *Options) {
		o.Auth, o.History = roleKeys(t), &keptEvents{all: []topics.Event{registered}}
	})
	w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(`,"user_id":"u","payload":{"title":"only for readers"}`),
		as("writer")...)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/none", at(``), as("writer")...)
	for _, path := range []string{
		"/v1/triggers/t?", "/v1/triggers?", "/v1/triggers?user_id=u", "/v1/triggers?sort=next_fire&fresh=false",
		"/v1/triggers/t/events?",
	} {
		for _, value := range []string{"false", "0", "true", ""} {
			asked := path
			if value != "" {
				asked += "&payload=" + value
			}
			a := w.must(http.StatusOK, "GET", asked, "", as("reader")...)
			hides := value == "false" || value == "0"
			if strings.Contains(a.body, "only for readers") == hides ||
				strings.Contains(a.body, `"payload_hidden":true`) != hides {
				t.Errorf("%s: %s", asked, a.body)
			}
		}
	}
	if a := w.must(http.StatusOK, "GET", "/v1/triggers/none?payload=false", "", as("reader")...); strings.Contains(
		a.body, "hidden") {
		t.Errorf("of a trigger without a payload: %s", a.body)
	}
	w.must(http.StatusBadRequest, "GET", "/v1/triggers/t?payload=no", "", as("reader")...)
	a := w.must(http.StatusOK, "GET", "/v1/triggers/t?payload=true", "", as("viewer")...)
	if strings.Contains(a.body, "only for readers") {
		t.Errorf("a viewer reads a payload: %s", a.body)
	}
	if lines := w.stream(t, "/v1/triggers/t/events?follow=1&payload=false", 1, as("reader")...); strings.Contains(
		lines, "only for readers") || !strings.Contains(lines, `"payload_hidden":true`) {
		t.Errorf("a stream: %s", lines)
	}
}
