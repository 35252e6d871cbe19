package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/logtest"
	"github.com/waterclock/waterclock/topics"
)

// audited are all acts on record, the oldest first.
func (w *world) audited(t *testing.T, query string, header ...string) (all []AuditRecord) {
	t.Helper()
	for cursor := ""; ; {
		a := w.must(http.StatusOK, "GET", "/v1/audit?"+query+"&cursor="+cursor, "", header...)
		var page AuditRecords
		if err := json.Unmarshal([]byte(a.body), &page); err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Items...)
		if cursor = page.NextCursor; cursor == "" {
			slices.Reverse(all)
			return all
		}
	}
}

func (r AuditRecord) text() string {
	return strings.Join(strings.Fields(fmt.Sprint(r.Actor, " ", r.Verb, " ", r.Trigger, r.Target, " ", r.Status, " ",
		r.Note)), " ")
}

// Whatever a caller does is on record when it is answered, with who, what, to which trigger and
// why; and what it was refused.
func TestActsAreOnRecord(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Auth, o.Preferences, o.Letters = roleKeys(t), testStore(t), acmeLetters{}
		o.CalendarInterval, o.AuditRegisters = time.Nanosecond, true
	})
	const daily = `{"recurrence":"FREQ=DAILY","timezone":"UTC","note":"as asked"}`
	var want []string
	for _, c := range []struct{ role, method, path, body, on string }{
		{"writer", "PUT", "/v1/triggers/t", daily, "register acme/t 201 as asked"},
		{"writer", "POST", "/api/reminders", at(`,"id":"m","title":"x"`), "register acme/m 201"},
		{"support", "POST", "/v1/triggers/t:snooze", `{"for":"1m","note":"the customer has called"}`, "snooze acme/t 200 the customer has called"},
		{"support", "POST", "/v1/triggers/t:skip", ``, "skip acme/t 200"},
		{"support", "POST", "/v1/triggers/t:pause", `{"note":"holiday"}`, "pause acme/t 200 holiday"},
		{"support", "POST", "/v1/triggers/t:resume", ``, "resume acme/t 200"},
		{"support", "POST", "/v1/triggers/t:run", ``, "run_now acme/t 200"},
		{"support", "POST", "/v1/triggers/t:rezone", `{"timezone":"Asia/Tokyo"}`, "rezone acme/t 200"},
		{"support", "POST", "/v1/triggers/t:ack", ``, "ack acme/t 200"},
		{"reader", "POST", "/v1/triggers/t:reveal", `{"note":"to see"}`, "reveal acme/t 200 to see"},
		{"support", "POST", "/v1/triggers/t:reveal", ``, "reveal acme/t 403"},
		{"reader", "POST", "/v1/triggers/none:reveal", ``, "reveal acme/none 404"},
		{"support", "POST", "/api/reminders/m/snooze", `{"minutes":1}`, "snooze acme/m 200"},
		{"support", "PATCH", "/v1/triggers/m", `{"fire_at":"2060-02-01T00:00:00Z"}`, "reschedule acme/m 200"},
		{"support", "PATCH", "/v1/triggers/m", `{"payload":1}`, "patch acme/m 403"},
		{"writer", "PATCH", "/v1/triggers/m", `{"payload":1,"note":"typo"}`, "patch acme/m 200 typo"},
		{"support", "DELETE", "/v1/triggers/m?note=moved", ``, "cancel acme/m 200 moved"},
		{"support", "DELETE", "/v1/triggers/none", ``, "cancel acme/none 404"},
		{"writer", "PUT", "/v1/triggers/t", `{"dealy":"1m"}`, "register acme/t 422"},
		{"writer", "PUT", "/v1/triggers/default%2Ft", `{"delay":"1m"}`, "register acme/default/t 201"},
		{"writer", "PUT", "/v1/calendars/us", `{"dates":["2026-12-25"]}`, "put_calendar calendars/us 200"},
		{"writer", "DELETE", "/v1/calendars/us", ``, "delete_calendar calendars/us 200"},
		{"writer", "PUT", "/v1/preferences/ada", `{}`, "put_preferences preferences/ada 200"},
		{"writer", "DELETE", "/v1/users/ada", ``, "erase_user users/ada 202"},
		{"writer", "POST", "/v1/triggers/t:erase", `{"note":"GDPR"}`, "erase acme/t 200 GDPR"},
		{"writer", "POST", "/v1/dead-letters:redrive", `{"trigger_id":"t","note":"mended"}`, "redrive acme/t 404 mended"},
		{"operator", "POST", "/v1/reconcile", ``, "reconcile 200"},
		{"operator", "DELETE", "/v1/channels/none", ``, "delete_channel channels/none 404"},
		{"viewer", "GET", "/v1/partitions", ``, "get_partitions 403"},
		{"viewer", "DELETE", "/v1/triggers/t", ``, "cancel acme/t 403"},
		{"viewer", "GET", "/v1/triggers/t", ``, ""},
		{"viewer", "GET", "/v1/triggers/none", ``, ""},
		{"viewer", "POST", "/v1/preview", `{"delay":"1m"}`, ""},
	} {
		a := w.call(c.method, c.path, c.body, as(c.role)...)
		if got := a.header.Get(auditAnswer); got != "" {
			t.Errorf("%s %s: the audit is %s", c.method, c.path, got)
		}
		if c.on != "" {
			want = append(want, c.role+"-app "+c.on)
		}
	}
	w.call("GET", "/v1/triggers/t", "", "Authorization", "Bearer nobody")
	want = append(want, " get_trigger triggers/t 401")
	w.untilAudited(t, len(want))
	all := w.audited(t, "limit=7", as("operator")...)
	var got []string
	for _, r := range all {
		got = append(got, r.text())
		if r.Address != "127.0.0.1" || !strings.HasPrefix(r.Agent, "Go-http-client") || r.At == "" ||
			r.Status != http.StatusUnauthorized && (r.Tenant != "acme" || r.Role == "") {
			t.Errorf("%+v", r)
		}
	}
	for i := range want {
		want[i] = strings.TrimSpace(want[i])
	}
	if diff := len(got) - len(want); diff != 0 || !slices.Equal(got, want) {
		t.Errorf("on record are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for query, n := range map[string]int{
		"trigger=m": 6, "trigger=acme%2Fm": 6, "trigger=m&tenant=acme": 6, "trigger=m&tenant=blue": 0,
		"actor=writer-app&verb=register": 4, "tenant=blue": 0, "from=2060-01-01T00:00:00Z": 0,
		"to=2020-01-01T00:00:00Z": 0, "from=2020-01-01T00:00:00Z&to=2060-01-01T00:00:00Z&limit=2": len(want),
	} {
		if got := w.audited(t, query, as("operator")...); len(got) != n {
			t.Errorf("%s: %d, want %d", query, len(got), n)
		}
	}
	a := w.must(http.StatusOK, "GET", "/v1/audit?limit=1&trigger=t", "", as("operator")...)
	w.must(http.StatusBadRequest, "GET", "/v1/audit?limit=1&trigger=m&cursor="+a.get(t, "next_cursor"), "",
		as("operator")...)
	w.must(http.StatusBadRequest, "GET", "/v1/audit?actor=", "", as("operator")...)
	w.must(http.StatusForbidden, "GET", "/v1/audit", "", as("writer")...)
}

// untilAudited waits for records that no answer waits for: of refused attempts.
func (w *world) untilAudited(t *testing.T, n int) {
	t.Helper()
	eventuallyNil(t, "acts on record", func() error {
		end, err := stableEnd(t.Context(), w.server.audit.records.kafka.Client(), topics.Names{}.Audit(), 0)
		if err == nil && end < int64(n) {
			err = fmt.Errorf("%d of %d", end, n)
		}
		return err
	})
}

// Each line of a batch is an act of its own.
func TestBatchIsOnRecord(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth, o.AuditRegisters = testKeys(t), true })
	lines := `{"id":"a","delay":"1h","note":"one"}` + "\n" + `{"id":"b","delay":"1h"}` + "\n" +
		`{"id":"a","op":"cancel","note":"two"}` + "\n" + `{"id":"none","op":"pause"}` + "\n" +
		`{"id":"blue/x","op":"pause"}` + "\n" + `not JSON`
	w.must(http.StatusOK, "POST", "/v1/triggers:batch", lines, "Authorization", "Bearer "+keyA)
	w.untilAudited(t, 4)
	var got []string
	for _, r := range w.audited(t, "", "Authorization", "Bearer "+keyO) {
		got = append(got, strings.TrimSpace(strings.TrimPrefix(r.text(), r.Actor+" ")))
	}
	slices.Sort(got)
	want := []string{
		"cancel acme/a 200 two", "pause acme/blue/x 404", "pause acme/none 404", "register acme/a 201 one",
		"register acme/b 201",
	}
	if !slices.Equal(got, want) {
		t.Errorf("on record are %q, want %q", got, want)
	}
}

// Registers are not on record, unless they were refused; everything that is done to them is.
func TestUnauditedRegisters(t *testing.T) {
	w := newWorld(t, func(*Options) {})
	w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(""))
	w.must(http.StatusOK, "POST", "/v1/triggers:batch", `{"id":"a","delay":"1h"}`)
	w.must(http.StatusUnprocessableEntity, "PUT", "/v1/triggers/t", `{}`)
	w.must(http.StatusOK, "DELETE", "/v1/triggers/t", "")
	w.untilAudited(t, 2)
	var got []string
	for _, r := range w.audited(t, "") {
		got = append(got, r.text())
	}
	if want := []string{"register t 422", "cancel t 200"}; !slices.Equal(got, want) {
		t.Errorf("on record are %q, want %q", got, want)
	}
}

// heardAudit counts what became of records.
type heardAudit struct {
	NoListener
	mu   sync.Mutex
	seen map[string]int
}

func (h *heardAudit) AuditRecord(outcome string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen == nil {
		h.seen = map[string]int{}
	}
	h.seen[outcome]++
}

func (h *heardAudit) count(outcome string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen[outcome]
}

// While the audit topic takes no records, what was under way is answered in time and says so, and
// nothing is done but registers. What was not written is written then.
func TestAuditTakesNothing(t *testing.T) {
	heard, log := &heardAudit{}, &logtest.Buffer{}
	w := newWorld(t, func(o *Options) {
		o.AuditWithin, o.Listener, o.AuditRegisters = 100*time.Millisecond, heard, true
		o.Logger = slog.New(slog.NewTextHandler(log, nil))
	})
	w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(""))
	w.untilAudited(t, 1)
	broken := w.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: topics.Names{}.Audit(), Err: kerr.PolicyViolation, Count: -1,
	})
	began := time.Now()
	a := w.must(http.StatusOK, "POST", "/v1/triggers/t:pause", `{"note":"not written"}`)
	if a.header.Get(auditAnswer) != auditLate || time.Since(began) > 5*time.Second {
		t.Errorf("after %s the header says %q", time.Since(began), a.header.Get(auditAnswer))
	}
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/triggers/t:resume", ""},
		{"PATCH", "/v1/triggers/t", `{"payload":1}`},
		{"DELETE", "/v1/triggers/t", ""},
		{"POST", "/v1/triggers/t:reveal", ""},
		{"POST", "/v1/reconcile", ""},
	} {
		a := w.must(http.StatusServiceUnavailable, c.method, c.path, c.body)
		if a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "audit") {
			t.Errorf("%s %s: %s", c.method, c.path, a.body)
		}
	}
	w.must(http.StatusOK, "GET", "/v1/triggers/t", "")
	if a := w.must(http.StatusCreated, "PUT", "/v1/triggers/u", at("")); a.header.Get(auditAnswer) != "" {
		t.Errorf("a register waited for the audit, which is %s", a.header.Get(auditAnswer))
	}
	a = w.must(http.StatusOK, "POST", "/v1/triggers:batch", `{"id":"v","delay":"1h"}`+"\n"+`{"id":"u","op":"cancel"}`)
	if !strings.Contains(a.body, `"status":201`) || !strings.Contains(a.body, `"status":503`) {
		t.Error(a.body)
	}
	if a := w.must(http.StatusOK, "GET", "/readyz", ""); !strings.Contains(a.body, "audit takes no records") {
		t.Error(a.body)
	}
	if w.state(idKey("u")) == nil || heard.count("late") != 1 || !strings.Contains(log.String(), "not written") {
		t.Errorf("late records: %d; %s", heard.count("late"), log.String())
	}
	broken.Remove()
	eventuallyNil(t, "acts to be accepted", func() error {
		if a := w.call("POST", "/v1/triggers/t:resume", ""); a.status != http.StatusOK {
			return errors.New(a.body)
		}
		return nil
	})
	var got []string
	for _, r := range w.audited(t, "") {
		// Nothing waits for the records of these registers. So they may be sent before or after the
		// topic takes records again.
		if text := r.text(); text != "register u 201" && text != "register v 201" {
			got = append(got, text)
		}
	}
	if want := []string{"register t 201", "pause t 200 not written", "resume t 200"}; !slices.Equal(got, want) {
		t.Errorf("on record are %q, want %q", got, want)
	}
}

// A payload is on record before it is shown. One whose record is not written is not shown.
func TestReveal(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.AuditWithin = 100 * time.Millisecond })
	w.must(http.StatusCreated, "PUT", "/v1/triggers/json", at(`,"payload":{"a":[1,"<b>"]}`))
	w.must(http.StatusCreated, "PUT", "/v1/triggers/binary", at(`,"payload_base64":"/wA="`))
	w.must(http.StatusCreated, "PUT", "/v1/triggers/none", at(""))
	for id, want := range map[string]string{
		"json": `,"payload":{"a":[1,"\u003cb\u003e"]}}`, "binary": `,"payload_base64":"/wA="}`, "none": `"revision":1}`,
	} {
		a := w.must(http.StatusOK, "POST", "/v1/triggers/"+id+":reveal", "")
		if !strings.HasSuffix(strings.TrimSpace(a.body), want) || a.get(t, "trigger_id") != id {
			t.Errorf("%s: %s", id, a.body)
		}
	}
	w.must(http.StatusUnprocessableEntity, "POST", "/v1/triggers/json:reveal", `{"node":"x"}`)
	w.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: topics.Names{}.Audit(), Err: kerr.PolicyViolation, Count: -1,
	})
	a := w.must(http.StatusServiceUnavailable, "POST", "/v1/triggers/json:reveal", `{"note":"unseen"}`)
	if strings.Contains(a.body, "<b>") || !strings.Contains(a.body, "audit") {
		t.Error(a.body)
	}
}

// A cluster that is being upgraded has no audit topic yet: acts go on, the log has them, and
// /readyz says so. When the topic is there it is used.
func TestNoAuditTopic(t *testing.T) {
	heard, log := &heardAudit{}, &logtest.Buffer{}
	now := &clock{at: time.Now()}
	w := newWorld(t, func(o *Options) {
		o.Listener, o.Logger, o.Now = heard, slog.New(slog.NewTextHandler(log, nil)), now.read
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	if _, err := admin.DeleteTopics(t.Context(), topics.Names{}.Audit()); err != nil {
		t.Fatal(err)
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(""))
	for range 3 {
		a := w.call("POST", "/v1/triggers/t:pause", `{"note":"upgraded"}`)
		if a.status >= 300 || a.header.Get(auditAnswer) != auditMissing {
			t.Errorf("%d, %q: %s", a.status, a.header.Get(auditAnswer), a.body)
		}
	}
	if heard.count("missing") != 3 || heard.count("late") != 0 || strings.Count(log.String(), "upgraded") != 3 {
		t.Errorf("%v, the log says %s", heard.seen, log.String())
	}
	a := w.must(http.StatusServiceUnavailable, "POST", "/v1/triggers/t:reveal", "") // it is read on record, or not
	if !strings.Contains(a.body, "topics apply") || strings.Contains(a.body, "payload\":") {
		t.Error(a.body)
	}
	if a := w.must(http.StatusOK, "GET", "/readyz", ""); !strings.Contains(a.body, "topics apply") {
		t.Error(a.body)
	}
	if a := w.must(http.StatusServiceUnavailable, "GET", "/v1/audit", ""); !strings.Contains(a.body, "topics apply") {
		t.Error(a.body)
	}
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, topics.Names{}.Audit()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the use of the topic", func() bool {
		now.add(auditRecheck)
		return w.must(http.StatusOK, "POST", "/v1/triggers/t:pause", "").header.Get(auditAnswer) == ""
	})
	if a := w.must(http.StatusOK, "GET", "/readyz", ""); strings.Contains(a.body, "audit") {
		t.Error(a.body)
	}
}

// A topic that was deleted while acts were recorded refuses acts, and /readyz says what is missing.
// Once it is made again acts are done within seconds: a producer stays with the topic that it knew.
func TestAuditTopicIsRecreated(t *testing.T) {
	for name, missed := range map[string]bool{"an act in between": true, "nothing in between": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.AuditWithin = 100 * time.Millisecond })
			cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...))
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			admin := kadm.NewClient(cl)
			w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(""))
			w.must(http.StatusOK, "POST", "/v1/triggers/t:pause", "")
			w.untilAudited(t, 1)
			if _, err := admin.DeleteTopics(t.Context(), topics.Names{}.Audit()); err != nil {
				t.Fatal(err)
			}
			if missed {
				w.must(http.StatusOK, "POST", "/v1/triggers/t:resume", `{"note":"late"}`)
				w.must(http.StatusServiceUnavailable, "POST", "/v1/triggers/t:pause", "")
				a := w.must(http.StatusOK, "GET", "/readyz", "")
				if !strings.Contains(a.body, "acts over HTTP are refused") ||
					!strings.Contains(a.body, "topics apply") {
					t.Error(a.body)
				}
			}
			if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, topics.Names{}.Audit()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "acts are done", func() bool {
				a := w.call("POST", "/v1/triggers/t:pause", `{"note":"after"}`)
				return a.status == http.StatusOK && a.header.Get(auditAnswer) == ""
			})
			var notes []string
			for _, r := range w.audited(t, "") {
				notes = append(notes, r.Note)
			}
			if missed != slices.Contains(notes, "late") || !slices.Contains(notes, "after") {
				t.Errorf("on record are %q", notes)
			}
			if a := w.must(http.StatusOK, "GET", "/readyz", ""); strings.Contains(a.body, "audit") {
				t.Error(a.body)
			}
		})
	}
}

// clock is one that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// Refused attempts cannot fill the topic, and a flood of refusals does not hide what is tried
// for.
func TestAuditOfRefusalsIsBounded(t *testing.T) {
	heard := &heardAudit{}
	w := newWorld(t, func(o *Options) { o.Auth, o.Listener, o.AuditRate = testKeys(t), heard, 0.1 })
	for range 10 {
		w.must(http.StatusUnprocessableEntity, "PUT", "/v1/triggers/t", `{}`, "Authorization", "Bearer "+keyB)
		w.must(http.StatusUnauthorized, "GET", "/v1/triggers/t", "", "Authorization", "Bearer nobody")
		w.must(http.StatusNotFound, "DELETE", "/v1/triggers/none", "", "Authorization", "Bearer "+keyD)
	}
	w.must(http.StatusNotFound, "GET", "/v1/triggers/acme%2Ft", "", "Authorization", "Bearer "+keyD)
	w.must(http.StatusForbidden, "GET", "/v1/partitions", "", "Authorization", "Bearer "+keyB)
	w.untilAudited(t, 5)
	var got []string
	for _, r := range w.audited(t, "", "Authorization", "Bearer "+keyO) {
		got = append(got, fmt.Sprintf("%s %s%s %d", r.Verb, r.Trigger, r.Target, r.Status))
	}
	slices.Sort(got)
	want := []string{
		"cancel none 404",
		"get_partitions  403", "get_trigger triggers/acme/t 404", "get_trigger triggers/t 401", "register blue/t 422",
	}
	if !slices.Equal(got, want) || heard.count("dropped") != 27 {
		t.Errorf("on record are %q, want %q; %d dropped", got, want, heard.count("dropped"))
	}
}

// One tenant's flood of acts is written behind few records at a time: another tenant's act has at
// most those before it, and is neither late nor refused.
func TestAuditIsFairToTenants(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Auth, o.AuditWithin, o.ProduceWithin = testKeys(t), time.Minute, time.Minute
	})
	flood := []string{"Authorization", "Bearer " + keyA}
	other := []string{"Authorization", "Bearer " + keyB}
	const many = 500 // as many lines as a batch may have undecided here
	var lines, pauses strings.Builder
	for i := range many {
		fmt.Fprintf(&lines, `{"id":"f%d","delay":"1h"}`+"\n", i)
		fmt.Fprintf(&pauses, `{"id":"f%d","op":"pause"}`+"\n", i)
	}
	w.must(http.StatusOK, "POST", "/v1/triggers:batch", lines.String(), flood...)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(""), other...)

	// What Kafka has is tried anew until the fault is gone, and everything else waits behind it.
	broken := w.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: topics.Names{}.Audit(), Err: kerr.NotLeaderForPartition, Count: -1,
	})
	var calls sync.WaitGroup
	calls.Go(func() { w.must(http.StatusOK, "POST", "/v1/triggers:batch", pauses.String(), flood...) })
	w.untilPending(t, "acme", many)
	calls.Go(func() {
		a := w.must(http.StatusOK, "POST", "/v1/triggers/t:pause", "", other...)
		if a.header.Get(auditAnswer) != "" {
			t.Errorf("the audit is %s", a.header.Get(auditAnswer))
		}
	})
	w.untilPending(t, "blue", 1)
	broken.Remove()
	calls.Wait()
	all := w.audited(t, "limit=100&verb=pause", "Authorization", "Bearer "+keyO)
	at := slices.IndexFunc(all, func(r AuditRecord) bool { return r.Tenant == "blue" })
	// Its turn comes behind auditInFlight records. A goroutine hands it to the client, and on a busy
	// machine some of the flood's may overtake that one. Without turns it would be the last.
	if len(all) != many+1 || at < 0 || at > 9*many/10 {
		t.Errorf("of %d records, the other tenant's is number %d", len(all), at)
	}
}

// untilPending waits until a tenant has n records that are not written.
func (w *world) untilPending(t *testing.T, tenant string, n int) {
	t.Helper()
	l := w.server.acts.log
	eventuallyNil(t, "records of "+tenant+" that are not written", func() error {
		got := 0
		l.mu.Lock()
		defer l.mu.Unlock()
		if q := l.queue.tenants[tenant]; q != nil {
			got = q.pending
		}
		if got != n {
			return fmt.Errorf("%d, want %d", got, n)
		}
		return nil
	})
}

// Attempts at others' triggers have a bound of their own on the audit topic, be they lines of a batch that the
// owner refuses or requests beyond what the log takes: they hide no other refusal. Each is recorded once.
func TestFloodOfTrespassesHidesNoRefusal(t *testing.T) {
	for name, flood := range map[string]func(w *world){
		"a batch": func(w *world) {
			lines := strings.Repeat(`{"id":"acme/t","op":"pause"}`+"\n", 20)
			w.must(http.StatusOK, "POST", "/v1/triggers:batch", lines, "Authorization", "Bearer "+keyB)
		},
		"requests": func(w *world) {
			for range 20 {
				w.must(http.StatusNotFound, "POST", "/v1/triggers/acme%2Ft:pause", "", "Authorization", "Bearer "+keyB)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			heard := &heardAudit{}
			w := newWorld(t, func(o *Options) { o.Auth, o.Listener, o.AuditRate = testKeys(t), heard, 0.1 })
			flood(w)
			w.must(http.StatusUnprocessableEntity, "PUT", "/v1/triggers/t", `{}`, "Authorization", "Bearer "+keyB)
			eventually(t, "what becomes of each attempt", func() bool {
				return heard.count("written")+heard.count("dropped") == 21
			})
			var got []string
			for _, r := range w.audited(t, "", "Authorization", "Bearer "+keyO) {
				got = append(got, fmt.Sprintf("%s %s%s %d", r.Verb, r.Trigger, r.Target, r.Status))
			}
			slices.Sort(got)
			if want := []string{"pause blue/acme/t 404", "register blue/t 422"}; !slices.Equal(got, want) {
				t.Errorf("on record are %q, want %q", got, want)
			}
		})
	}
}
