package gateway

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/forecast"
	"github.com/waterclock/waterclock/internal/lateness"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// reach is how a route is asked for what another tenant has.
type reach struct {
	bodies []string // that would do something; {id} stands for the other's trigger
	query  string
	empty  string // what a list must say: that there is nothing
	own    bool   // it answers of the caller's own trigger of that id
}

// reaches is each route with a caller. One that is not here fails the test.
var reaches = map[string]reach{
	"POST /v1/triggers": {bodies: []string{
		`{"id":"acme/t","delay":"1m"}`, `{"id":"/t","delay":"1m"}`,
		`{"id":"../acme/t","delay":"1m"}`,
	}},
	"POST /v1/triggers:batch": {bodies: []string{
		`{"id":"acme/t","delay":"1m"}`, `{"id":"acme/t","op":"cancel"}`,
		`{"id":"t","op":"cancel"}`, `{"id":"t","op":"pause"}`,
		`{"id":"t","op":"run_now"}`, `{"id":"t","op":"snooze","for":"1m"}`, `{"id":"t","op":"reschedule","delay":"1m"}`,
		`{"id":"t","op":"rezone","timezone":"UTC"}`,
	}},
	"PUT /v1/triggers/{id}":    {bodies: []string{`{"delay":"1m","if_revision":1}`}},
	"GET /v1/triggers/{id}":    {},
	"PATCH /v1/triggers/{id}":  {bodies: []string{`{"payload":1}`, `{"delay":"1m"}`}},
	"DELETE /v1/triggers/{id}": {},

	"POST /v1/triggers/{id}:snooze": {bodies: []string{`{"for":"1m"}`}}, "POST /v1/triggers/{id}:skip": {},
	"POST /v1/triggers/{id}:pause":  {},
	"POST /v1/triggers/{id}:resume": {}, "POST /v1/triggers/{id}:run": {},
	"POST /v1/triggers/{id}:rezone": {bodies: []string{`{"timezone":"Asia/Tokyo"}`}},
	"POST /v1/triggers/{id}:ack":    {}, "POST /v1/triggers/{id}:reveal": {},
	"POST /v1/triggers/{id}:erase": {own: true},

	"GET /v1/triggers/{id}/events": {}, "GET /v1/triggers/{id}/occurrences": {},
	"GET /v1/triggers/{id}/explain": {own: true}, // it says that the caller has no such trigger

	"GET /v1/search":     {query: "?q=t", empty: `"items":[]`},
	"GET /v1/triggers":   {query: "?user_id=u", empty: `"items":[]`},
	"GET /api/reminders": {query: "?user_id=u", empty: `"items":[]`},
	"GET /v1/upcoming":   {query: "?bucket=366d&n=100", empty: `"count":0`},
	"POST /v1/preview":   {bodies: []string{`{"delay":"1m"}`}}, // knows no triggers

	"POST /api/reminders":             {bodies: []string{`{"id":"acme/t","title":"x","delay":"1m"}`}},
	"GET /api/reminders/{id}":         {},
	"PATCH /api/reminders/{id}":       {bodies: []string{`{"title":"x"}`, `{"skip":"2060-01-01"}`}},
	"DELETE /api/reminders/{id}":      {},
	"POST /api/reminders/{id}/snooze": {bodies: []string{`{"minutes":1}`}},

	"GET /v1/forecast":     {query: "?bucket=1h&n=3&by=channel", empty: `"nominal":0,"due":0}`},
	"GET /v1/lateness":     {empty: `"fires":0,"items":[`},
	"GET /v1/live":         {query: "?n=1", empty: `"fires":0,"facts":0`}, // its facts: TestLiveOfTenants
	"GET /v1/rejected":     {empty: `"items":[]`},
	"GET /v1/dead-letters": {empty: `"items":[]`}, "POST /v1/dead-letters:redrive": {bodies: []string{
		`{"all":true}`, `{"tenant":"acme"}`, `{"trigger_id":"t"}`, `{"trigger_id":"acme/t"}`, `{"tenant":"acme","trigger_id":"t"}`,
	}},

	"GET /v1/preferences/{user}": {empty: `"addresses":{}`}, "PUT /v1/preferences/{user}": {bodies: []string{
		`{"timezone":"Asia/Tokyo"}`,
	}},

	"GET /v1/users/{user}/notifications":   {query: "?content=1", empty: `"items":[]`},
	"GET /v1/notifications/{notification}": {},

	"DELETE /v1/users/{user}": {own: true}, "GET /v1/users/{user}/erasure": {own: true},

	// Of the whole cluster, by design: calendars are shared, partitions an operator's.
	"GET /v1/calendars": {}, "GET /v1/calendars/{name}": {},
	"PUT /v1/calendars/{name}": {bodies: []string{`{"dates":[]}`}}, "DELETE /v1/calendars/{name}": {},
	"GET /v1/partitions": {}, "GET /v1/audit": {},
	"GET /v1/whoami":    {},
	"GET /v1/watermark": {},
	"GET /v1/tzdata":    {},
	"GET /v1/endpoints": {},
	"GET /v1/settings":  {}, "GET /v1/channels": {}, "DELETE /v1/channels/{name}": {},
	"POST /v1/endpoints:test": {}, "POST /v1/reconcile": {},
}

// What another tenant has is not there: by no route, in no list, and by no
// record that one tenant can make the gateway write.
func TestTenantsCannotMeet(t *testing.T) {
	log := &keptEvents{all: []topics.Event{event("acme/t", 10, 1, "trigger.registered")}}
	store := testStore(t)
	w := newWorld(t, func(o *Options) {
		o.Auth, o.History, o.Letters, o.Preferences = testKeys(t), log, acmeLetters{}, store
		o.Notifications = keptNotifications{{
			Tenant: "acme", Trigger: "acme/t", ID: "acme/t@o", User: "u", CreatedAt: 1_795_000_000_000,
			Content: &topics.NotificationContent{Title: "only acme knows"},
		}}
	})
	bearer := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(`,"user_id":"u","payload":"only acme knows"`),
		bearer(keyA)...)
	const preferred = `{"locale":"de","addresses":{"push":[{"provider":"fcm","token":"only-acme-knows"}]}}`
	kept := w.must(http.StatusOK, "PUT", "/v1/preferences/u", preferred, bearer(keyA)...).body
	before := *w.state("acme/t")
	expects := forecast.NewBuilder(forecast.Frames[1], time.Now().UnixMilli())
	soon := time.Now().Add(time.Minute).UnixMilli()
	expects.Add(forecast.Key{Tenant: "acme", Channel: "only acme knows"}, soon, soon)
	w.engine.expects[0][1] = expects.Picture()
	w.engine.late[0].Count(time.Now().UnixMilli(), []lateness.Fired{{Tenant: "acme", Channel: "only acme knows"}})
	routes := newRouteTable(&parts{}).all()
	// those that make triggers of one's own under such ids come last
	slices.SortStableFunc(routes, func(a, b *route) int {
		return strings.Count(b.pattern, "{id}") - strings.Count(a.pattern, "{id}")
	})
	for _, r := range routes {
		if r.right == 0 {
			continue // nobody's: healthz, docs, schemas
		}
		name := r.method + " " + r.pattern
		how, known := reaches[name]
		if !known {
			t.Errorf("%s: nobody has said how one tenant could reach another by it", name)
			continue
		}
		for _, key := range []string{keyB, keyD} {
			w.reach(t, r, how, bearer(key))
		}
	}
	if after := w.state("acme/t"); after.Revision != before.Revision || after.Seq != before.Seq ||
		after.Status != trigger.Pending {
		t.Errorf("touched: %+v", after)
	}
	if got := w.must(http.StatusOK, "GET", "/v1/preferences/u", "", bearer(keyA)...).body; got != kept {
		t.Errorf("preferences were %s, and are %s", kept, got)
	}
	same := w.must(http.StatusCreated, "POST", "/v1/triggers", at(""),
		append(bearer(keyA), "Idempotency-Key", "k")...).get(t, "trigger_id")
	if other := w.must(http.StatusCreated, "POST", "/v1/triggers", at(""),
		append(bearer(keyB), "Idempotency-Key", "k")...).get(t, "trigger_id"); other == same {
		t.Errorf("one idempotency key of two tenants means one id, %s", same)
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(""), bearer(keyB)...)
	if w.state("blue/t") == nil || w.state("acme/t").Revision != before.Revision {
		t.Error("the same id of two tenants is one trigger")
	}
	acme := 0
	for _, r := range w.commands(t) { // those of acme are the two it wrote itself
		if trigger.Key(r.Key).Tenant() == "acme" {
			acme++
		}
	}
	if acme != 2 {
		t.Errorf("%d commands for acme, which wrote two", acme)
	}
}

// acmeLetters is a history in which only acme has a dead letter.
type acmeLetters struct{}

func (acmeLetters) Letters(_ context.Context, q topics.LetterQuery) (page topics.LetterPage, err error) {
	if q.Tenant == "" || q.Tenant == "acme" {
		page.Items = []topics.Letter{{
			Tenant: "acme", Trigger: "acme/t", DueID: "only acme knows", Attempt: 1, FailedAt: 1,
		}}
	}
	return page, nil
}

func (acmeLetters) LettersNext(context.Context) (letters, events map[int32]int64, err error) {
	return nil, nil, nil
}

// reach asks a route for acme's trigger in every spelling.
func (w *world) reach(t *testing.T, r *route, how reach, header []string) {
	ids := []string{"t"}
	if strings.Contains(r.pattern, "{id}") {
		ids = []string{"t", "acme%2Ft", "%2Ft", "..%2Facme%2Ft", "acme/t"}
	}
	if strings.Contains(r.pattern, "{notification}") {
		ids = []string{"t@o", "acme%2Ft@o", "%2Ft@o", "..%2Facme%2Ft@o", "acme/t@o"}
	}
	if strings.Contains(r.pattern, "{user}") {
		ids = []string{"u", "acme%2Fu", "%2Fu", "..%2Facme%2Fu"}
	}
	bodies := how.bodies
	if bodies == nil {
		bodies = []string{""}
	}
	for _, id := range ids {
		named := strings.NewReplacer("{id}", id, "{user}", id, "{notification}", id, "{name}", "shared")
		path := named.Replace(r.pattern) + how.query
		for _, body := range bodies {
			a := w.call(r.method, path, body, header...)
			if strings.Contains(strings.ReplaceAll(a.body, "-", " "), "only acme knows") ||
				how.empty != "" && !strings.Contains(a.body, how.empty) ||
				strings.Contains(a.body, `"count":1`) {
				t.Errorf("%s %s %s tells %s", r.method, path, body, a.body)
			}
			named := strings.Contains(r.pattern, "{id}") ||
				strings.Contains(r.pattern, "{notification}")
			if named && !how.own && a.status < 400 || a.status >= 500 {
				t.Errorf("%s %s %s: %d %s", r.method, path, body, a.status, a.body)
			}
		}
	}
}

// commands are all records of topic commands.
func (w *world) commands(t *testing.T) []*kgo.Record {
	t.Helper()
	var want int64
	w.engine.set(func() {
		for _, n := range w.engine.read {
			want += n
		}
	})
	return w.records(topics.Names{}.Commands(), int(want))
}
