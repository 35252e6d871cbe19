package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
)

// Who floods us without a credential does not hide what a tenant tries.
func TestStrangersHideNoTrespass(t *testing.T) {
	heard := &keptAudit{}
	w := newWorld(t, func(o *Options) { o.Auth, o.AuditRate, o.Listener = testKeys(t), 0.1, heard })
	for range 20 {
		w.must(http.StatusUnauthorized, "GET", "/v1/triggers/x", "", "Authorization", "Bearer nobody")
	}
	before := heard.recorded.Load()
	w.must(http.StatusNotFound, "GET", "/v1/triggers/blue%2Fx", "", "Authorization", "Bearer "+keyA)
	if before != 1 || heard.recorded.Load() != 2 {
		t.Errorf("%d were recorded, then %d", before, heard.recorded.Load())
	}
}

// Where channels are fixed a register on another is refused before it is written. One
// whose topic exists is a channel.
func TestFixedChannels(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.FixedChannels = true })
	a := w.must(http.StatusUnprocessableEntity, "PUT", "/v1/triggers/x", `{"delay":"1h","channel":"typo"}`)
	if a.get(t, "code") != "unknown_channel" || a.get(t, "field") != "channel" || w.state(idKey("x")) != nil {
		t.Error(a.body)
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/d", `{"delay":"1h"}`)
	w.createTopic(topics.Names{}.Due("made"))
	w.must(http.StatusCreated, "PUT", "/v1/triggers/m", `{"delay":"1h","channel":"made"}`)
}

// A channel that a command created is listed, and removed once no trigger names it.
func TestRemoveChannel(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Channels = map[string]string{"sms": topics.Names{}.Due("sms")} })
	w.createTopic(topics.Names{}.Due("made"))
	w.createTopic(topics.HighLane(topics.Names{}.Due("made")))
	list := w.must(http.StatusOK, "GET", "/v1/channels", "").body
	if !strings.Contains(list, `"name":"made"`) || !strings.Contains(list, `"name":"sms"`) || strings.Contains(list,
		`.high"`) {
		t.Error(list)
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/m", `{"delay":"1h","channel":"made"}`)
	used := w.must(http.StatusConflict, "DELETE", "/v1/channels/made", "")
	if used.get(t, "trigger_count") != "1" || !strings.Contains(used.body, `"m"`) {
		t.Error(used.body)
	}
	w.must(http.StatusOK, "DELETE", "/v1/triggers/m", "")
	w.must(http.StatusConflict, "DELETE", "/v1/channels/sms", "")
	w.must(http.StatusNotFound, "DELETE", "/v1/channels/none", "")
	w.must(http.StatusOK, "DELETE", "/v1/channels/made", "")
	if list := w.must(http.StatusOK, "GET", "/v1/channels", "").body; strings.Contains(list, "made") {
		t.Error(list)
	}
}

func (w *world) createTopic(name string) {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...))
	if err != nil {
		w.t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(w.t.Context(), testPartitions, 1, nil, name); err != nil {
		w.t.Fatal(err)
	}
}

// keptAudit counts the attempts that went on record.
type keptAudit struct {
	NoListener
	recorded atomic.Int64
}

func (k *keptAudit) Audited(onRecord bool) {
	if onRecord {
		k.recorded.Add(1)
	}
}

// A refused forecast says nothing of others' rows either. Keys of the default tenant stand among those
// of all others, so its reads pass them.
func TestRefusalsSayNothingOfOthers(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth, o.ReadBudget = testKeys(t), 20 })
	as := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	for i := range 40 {
		w.must(http.StatusCreated, "PUT", fmt.Sprintf("/v1/triggers/a%d", i), `{"delay":"1d"}`, as(keyA)...)
	}
	const path = "/v1/upcoming?n=1440&bucket=366d"
	none := w.must(http.StatusOK, "GET", path, "", as(keyD)...) // the budget is not for what others have
	if strings.Contains(none.body, "looked_at") || strings.Contains(none.body, `"count":1`) {
		t.Errorf("nothing is its own, and it is told %s", none.body)
	}
	refused := w.must(http.StatusRequestEntityTooLarge, "GET", path, "", as(keyA)...)
	if got, err := strconv.Atoi(refused.get(t, "looked_at")); err != nil || got < 10 || got > 80 {
		t.Errorf("of its own triggers and occurrences, 80 in all, it is told %s", refused.body)
	}
}

// A page says nothing of what else was visited for it, so that no tenant finds out by it when another's
// triggers fire. Operators see all tenants, and how many rows a page took.
func TestPagesSayNothingOfOthers(t *testing.T) {
	now := time.Now()
	w := newWorld(t, func(o *Options) { o.Auth, o.Now = testKeys(t), func() time.Time { return now } })
	as := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	paths := []string{"/v1/triggers?sort=next_fire", "/v1/triggers", "/v1/triggers?key_prefix=m", "/v1/rejected"}
	body := `{"fire_at":"2060-01-01T09:00","timezone":"UTC"}`
	w.must(http.StatusCreated, "PUT", "/v1/triggers/mine", body, as(keyB)...)
	before := map[string]string{}
	for _, path := range paths {
		before[path] = w.must(http.StatusOK, "GET", path, "", as(keyB)...).body
	}
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		w.must(http.StatusCreated, "PUT", "/v1/triggers/"+id, body, as(keyA)...)
	}
	w.refuse(t, "acme/a", "acme/b")
	for _, path := range paths {
		if got := w.must(http.StatusOK, "GET", path, "", as(keyB)...).body; got != before[path] {
			t.Errorf("%s was %s, and beside another's triggers is %s", path, before[path], got)
		}
		if a := w.must(http.StatusOK, "GET", path, "", as(keyO)...); a.get(t, "looked_at") == "" {
			t.Errorf("%s, to an operator: %s", path, a.body)
		}
	}
}

// A request for another host gets nothing, from the console no more than from the API.
func TestConsoleOfForeignHosts(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth, o.Console = testKeys(t), true })
	ask := func(method, path, host string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		r.Host = host
		r.Header.Set("Authorization", "Bearer "+keyA)
		answer := httptest.NewRecorder()
		w.server.Handler().ServeHTTP(answer, r)
		return answer
	}
	for _, c := range []struct {
		method, path string
		status       int // for a host that is ours
	}{
		{"GET", "/console/", 200},
		{"GET", "/console", 302},
		{"GET", "/console/triggers/x", 200},
		{"POST", "/console/session", 200},
		{"DELETE", "/console/session", 204},
		{"GET", "/v1/whoami", 200},
	} {
		if a := ask(c.method, c.path, "localhost:8080"); a.Code != c.status {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.Code, a.Body)
		}
		a := ask(c.method, c.path, "evil.example")
		if a.Code != http.StatusForbidden || a.Header().Get("Set-Cookie") != "" ||
			!strings.Contains(a.Body.String(), "http.hosts") {
			t.Errorf("%s %s of evil.example: %d %s", c.method, c.path, a.Code, a.Body)
		}
	}
}
