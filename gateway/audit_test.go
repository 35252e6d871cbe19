package gateway

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/waterclock/waterclock/internal/logtest"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Whoever tries for another tenant's trigger gets a 404, and it is on record:
// in the log, and as a refusal under the caller's own tenant for the engine to
// tell. An id of one's own that is not there is nobody's business.
func TestTrespassIsAudited(t *testing.T) {
	h, log := &heard{}, &logtest.Buffer{}
	w := newWorld(t, func(o *Options) {
		o.Auth, o.Listener, o.Tenants, o.Logger = testKeys(t), h, []string{"green"},
			slog.New(slog.NewTextHandler(log, nil))
	})
	w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(""), "Authorization", "Bearer "+keyA)
	before := *w.state("acme/t")
	records := w.commandTail()
	records.next(t)
	for _, c := range []struct{ key, method, path, body, want, detail string }{
		{keyD, "GET", "/v1/triggers/acme%2Ft", "", "default/acme/t/", "GET /v1/triggers/{id}"},
		{keyD, "PUT", "/v1/triggers/acme%2Ft", at(""), "default/acme/t/", "PUT /v1/triggers/{id}"},
		{keyD, "DELETE", "/v1/triggers/acme%2Ft", "", "default/acme/t/", "DELETE /v1/triggers/{id}"},
		{keyD, "POST", "/v1/triggers/acme%2Ft:run", "", "default/acme/t/", "POST /v1/triggers/{id}:run"},
		{keyD, "GET", "/v1/triggers/acme%2Ft/events", "", "default/acme/t/", "GET /v1/triggers/{id}/events"},
		{keyD, "DELETE", "/api/reminders/acme%2Ft", "", "default/acme/t/", "DELETE /api/reminders/{id}"},
		{
			keyD, "POST", "/v1/triggers:batch", `{"id":"acme/t","op":"cancel"}`, "default/acme/t/",
			"POST /v1/triggers:batch",
		},
		{keyB, "GET", "/v1/triggers/acme%2Ft", "", "blue/acme/t/", "GET /v1/triggers/{id}"},
		{keyB, "GET", "/v1/triggers/green%2Ft", "", "blue/green/t/", "GET /v1/triggers/{id}"},
		{keyB, "GET", "/v1/triggers/default%2Ft", "", "blue/default/t/", "GET /v1/triggers/{id}"},
	} {
		a := w.call(c.method, c.path, c.body, "Authorization", "Bearer "+c.key)
		if a.status != http.StatusNotFound && !strings.HasSuffix(c.path, ":batch") {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
		}
		r := records.next(t)
		rec := topics.Record{Key: r.Key, Value: r.Value}
		for _, x := range r.Headers {
			rec.Headers = append(rec.Headers, trigger.Header{Key: x.Key, Value: x.Value})
		}
		got, ok := topics.Refused(&rec)
		if !ok || string(r.Key) != c.want || got.Code != trigger.CodeNotFound ||
			got.Detail != "another tenant's trigger: "+c.detail || got.Actor == "" ||
			r.Partition != topics.Partition(r.Key, testPartitions) {
			t.Errorf("%s %s is told as %s %+v, %v", c.method, c.path, r.Key, got, ok)
		}
	}
	recorded := h.audited[true]
	for _, id := range []string{"t", "mine%2Ft", "blue%2Ft", "%2Ft", "acme"} { // not there, and nobody else's
		w.call("GET", "/v1/triggers/"+id, "", "Authorization", "Bearer "+keyB)
	}
	if h.audited[true] != recorded {
		t.Errorf("%d attempts more on record", h.audited[true]-recorded)
	}
	if after := w.state("acme/t"); after.Seq != before.Seq || after.Revision != before.Revision {
		t.Errorf("touched: %+v", after)
	}
	if text := log.String(); strings.Count(text, `event="another tenant's trigger"`) != recorded ||
		!strings.Contains(text, "tenant=blue") || strings.Contains(text, keyB) {
		t.Errorf("the log says %s", text)
	}
}

// Whoever names another tenant where only operators may is refused, and it is a line of the log. To name one's own
// is nobody's business.
func TestNamingAnotherTenantIsAudited(t *testing.T) {
	log := &logtest.Buffer{}
	w := newWorld(t, func(o *Options) {
		o.Auth, o.Letters, o.Logger = testKeys(t), acmeLetters{}, slog.New(slog.NewTextHandler(log, nil))
	})
	for i, c := range []struct{ method, path, body string }{
		{"GET", "/v1/dead-letters?tenant=acme", ""},
		{"POST", "/v1/dead-letters:redrive", `{"tenant":"acme"}`},
		{"GET", "/v1/rejected?tenant=acme", ""},
	} {
		w.must(http.StatusForbidden, c.method, c.path, c.body, "Authorization", "Bearer "+keyB)
		const line = `msg=audit event="another tenant's records" tenant=blue `
		if text := log.String(); strings.Count(text, line) != i+1 || strings.Count(text, " named=acme") != i+1 {
			t.Errorf("%s %s: the log says %s", c.method, c.path, text)
		}
	}
	before := strings.Count(log.String(), "msg=audit")
	w.call("GET", "/v1/dead-letters?tenant=blue", "", "Authorization", "Bearer "+keyB)
	if strings.Count(log.String(), "msg=audit") != before {
		t.Errorf("its own: %s", log.String())
	}
}

// Attempts cannot fill the log or the topic: what is beyond the rate is
// counted, and the next on record says how many.
func TestAuditIsBounded(t *testing.T) {
	h, log := &heard{}, &logtest.Buffer{}
	now := time.Unix(1_800_000_000, 0)
	w := newWorld(t, func(o *Options) {
		o.Auth, o.Listener, o.AuditRate, o.Logger = testKeys(t), h, 0.5, slog.New(slog.NewTextHandler(log, nil))
		o.Now = func() time.Time { return now }
	})
	try := func(n int) {
		for range n {
			w.must(http.StatusNotFound, "GET", "/v1/triggers/acme%2Ft", "", "Authorization", "Bearer "+keyD)
		}
	}
	try(25)
	if h.audited[true] != 5 || h.audited[false] != 20 || strings.Count(log.String(), "msg=audit") != 5 {
		t.Errorf("of 25 attempts %v are told", h.audited)
	}
	now = now.Add(2 * time.Second)
	w.must(http.StatusUnauthorized, "GET", "/v1/triggers/t", "", "Authorization", "Bearer nobody")
	try(1)
	if h.audited[true] != 7 || h.audited[false] != 20 || !strings.Contains(log.String(), "dropped_before=20") {
		t.Errorf("2 s later %v, %s", h.audited, log.String())
	}
	records := w.commandTail()
	for range 5 {
		records.next(t)
	}
}

// A flood of refusals hides nothing: neither what another tenant tries, nor that the
// one who sends it tries others' triggers.
func TestFloodHidesNoTrespass(t *testing.T) {
	h, log := &heard{}, &logtest.Buffer{}
	now := time.Unix(1_800_000_000, 0)
	w := newWorld(t, func(o *Options) {
		o.Auth, o.Listener, o.AuditRate, o.Logger = testKeys(t), h, 0.5, slog.New(slog.NewTextHandler(log, nil))
		o.Now = func() time.Time { return now }
	})
	for range 50 {
		w.must(http.StatusUnauthorized, "GET", "/v1/triggers/t", "", "Authorization", "Bearer nobody")
		w.must(http.StatusForbidden, "GET", "/v1/partitions", "", "Authorization", "Bearer "+keyB)
	}
	for key, tenant := range map[string]string{keyB: "blue", keyD: "default"} {
		w.must(http.StatusNotFound, "GET", "/v1/triggers/acme%2Ft", "", "Authorization", "Bearer "+key)
		if !strings.Contains(log.String(), `event="another tenant's trigger" tenant=`+tenant+" ") {
			t.Errorf("the attempt of %s is not on record", tenant)
		}
	}
	if lines := strings.Count(log.String(), "msg=audit"); lines != 5+5+2 {
		t.Errorf("%d lines", lines)
	}
}

// What is put on record of an attempt, no caller can read: it would tell a name
// that is a tenant's from one that is nobody's.
func TestTrespassNamesNoTenant(t *testing.T) {
	log := &keptEvents{}
	w := newWorld(t, func(o *Options) { o.Auth, o.History = testKeys(t), log })
	records := w.commandTail()
	for _, key := range []string{keyB, keyD} {
		for _, id := range []string{"acme%2Ft", "acme%2F", "acme%2F%2Ft", "acme%2Ft%01", "acme%2F" +
			strings.Repeat("%C3%A4", 90)} {
			w.must(http.StatusNotFound, "GET", "/v1/triggers/"+id, "", "Authorization", "Bearer "+key)
			r := records.next(t)
			if _, err := trigger.ParseKey(r.Key); err == nil || len(r.Key) > trigger.MaxKeyBytes || !utf8.Valid(r.Key) {
				t.Errorf("%s is on record under %q, which may be a trigger", id, r.Key)
			}
			log.mu.Lock()
			// as the engine tells it
			log.all = append(log.all, event(string(r.Key), int64(len(log.all)), 0, "command.rejected"))
			log.mu.Unlock()
		}
	}
	w.must(http.StatusNotFound, "GET", "/v1/triggers/%2F", "", "Authorization", "Bearer "+keyD)
	if r := records.next(t); string(r.Key) != "default/" {
		t.Errorf("on record under %q", r.Key)
	}
	for _, id := range []string{
		"acme%2Ft", "nobody%2Ft", "acme%2Ft%2F", "default%2Facme%2Ft%2F",
		"blue%2Facme%2Ft%2F",
	} {
		w.must(http.StatusNotFound, "GET", "/v1/triggers/"+id+"/events", "", "Authorization", "Bearer "+keyB)
		w.must(http.StatusNotFound, "GET", "/v1/triggers/"+id+"/events", "", "Authorization", "Bearer "+keyD)
	}
}

// A line of a batch is an attempt as a request of its own is, be it refused
// here or by the owner.
func TestTrespassInABatch(t *testing.T) {
	h := &heard{}
	w := newWorld(t, func(o *Options) { o.Auth, o.Listener = testKeys(t), h })
	w.must(http.StatusOK, "POST", "/v1/triggers:batch",
		`{"id":"acme/t","op":"cancel"}`+"\n"+`{"id":"acme/t","op":"pause"}`+"\n"+`{"id":"nobody/t","op":"pause"}`,
		"Authorization", "Bearer "+keyB)
	if h.audited[true] != 2 {
		t.Errorf("%d attempts on record, want 2", h.audited[true])
	}
}
