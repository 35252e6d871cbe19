package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// search is what a text finds, as kind:trigger:user:state.
func (w *world) search(q string, header ...string) (found []string) {
	w.t.Helper()
	a := w.must(http.StatusOK, "GET", "/v1/search?q="+url.QueryEscape(q), "", header...)
	for _, item := range strings.SplitAfter(a.body, "}")[:strings.Count(a.body, `"kind"`)] {
		part := func(name string) string {
			_, rest, _ := strings.Cut(item, `"`+name+`":"`)
			value, _, _ := strings.Cut(rest, `"`)
			return value
		}
		found = append(found, part("kind")+":"+part("trigger_id")+":"+part("user_id")+":"+part("state"))
	}
	return found
}

// That a history does not answer is no proof that there is nothing of this name.
func TestSearchWhileTheHistoryIsAway(t *testing.T) {
	log := &keptEvents{}
	w := newWorld(t, func(o *Options) { o.History = log })
	w.must(http.StatusCreated, "PUT", "/v1/triggers/tea", `{"channel":"sms","delay":"1h"}`)
	for _, q := range []string{"forgotten", "tea"} {
		for _, away := range []error{nil, errors.New("the history is away")} {
			log.mu.Lock()
			log.err = away
			log.mu.Unlock()
			a := w.must(http.StatusOK, "GET", "/v1/search?q="+q, "")
			if got := strings.Contains(a.body, `"history_silent":true`); got != (away != nil) {
				t.Errorf("%s, the history's error %v: %s", q, away, a.body)
			}
		}
	}
}

// A record is found by its place also on topic receipts. That Kafka does not answer for one is no proof that there is
// none.
func TestSearchOfARecord(t *testing.T) {
	w := newWorld(t, nil)
	receipts := topics.Names{}.Receipts()
	if err := addTopic(w, receipts); err != nil {
		t.Fatal(err)
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/tea", `{"channel":"sms","delay":"1h"}`)
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	rec := &kgo.Record{Topic: receipts, Key: []byte("tea"), Value: []byte(`{}`)}
	if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
		t.Fatal(err)
	}
	q := topics.Source(rec.Topic, rec.Partition, rec.Offset)
	if got := strings.Join(w.search(q), " "); got != "record:tea::PENDING" {
		t.Errorf("%s finds %q", q, got)
	}
	w.cluster.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		return nil, errors.New("its leader is away"), true
	})
	a := w.must(http.StatusOK, "GET", "/v1/search?fresh=false&q="+url.QueryEscape(q), "")
	if !strings.Contains(a.body, `"items":[]`) || !strings.Contains(a.body, `"kafka_silent":true`) {
		t.Errorf("while Kafka does not answer: %s", a.body)
	}
}

// Whatever a person has at hand is found: a key, a user, a ce_id, the place of a record.
func TestSearch(t *testing.T) {
	due := topics.Names{}.Due("sms")
	log := &keptEvents{all: []topics.Event{event("old", 10, 1, "trigger.erased")}}
	notified := keptNotifications{{Tenant: "default", Trigger: "gone", ID: "gone@o", User: "eve"}}
	w := newWorld(t, func(o *Options) { o.History, o.Notifications = log, notified })
	if err := addTopic(w, due); err != nil {
		t.Fatal(err)
	}
	put := func(id, user string) {
		w.must(http.StatusCreated, "PUT", "/v1/triggers/"+id, `{"channel":"sms","delay":"1h","user_id":"`+user+`"}`)
	}
	put("hold-1", "ada")
	put("hold-2", "ada")
	put("a@b%231", "bob")
	w.must(http.StatusCreated, "PUT", "/v1/triggers/daily", `{"channel":"sms","recurrence":"FREQ=DAILY;BYHOUR=9",`+
		`"start":"2060-06-01T09:00","timezone":"Europe/Berlin","user_id":"cyd"}`)
	w.must(http.StatusOK, "POST", "/v1/triggers/hold-2:pause", "")
	fire := &trigger.Fire{
		Key: idKey("hold-1"), Spec: &trigger.Spec{UserID: "ada", Channel: "sms", Priority: trigger.Normal},
		Occurrence: "2026-11-20T14:00:00.000Z", Attempt: 1, Channel: "sms", Nominal: 1, Fired: 1,
	}
	sent := w.produceDue(t, due, fire)
	foreign := *fire
	foreign.Key = "acme/t"
	theirs := w.produceDue(t, due, &foreign)
	command := ""
	for _, r := range w.commands(t) {
		if string(r.Key) == "hold-2" {
			command = topics.Source(r.Topic, r.Partition, r.Offset)
		}
	}
	for _, row := range []struct{ name, q, want string }{
		{"key", "hold-1", "trigger:hold-1:ada:PENDING"},
		{"key with blanks around", "  hold-1\n", "trigger:hold-1:ada:PENDING"},
		{"hostile key", "a@b#1", "trigger:a@b#1:bob:PENDING"},
		{"user", "ada", "user::ada: trigger:hold-1:ada:PENDING trigger:hold-2:ada:PAUSED"},
		{"user who has only notifications", "eve", "user::eve:"},
		{"ce_id", "hold-1@2026-11-20T14:00:00.000Z#0", "occurrence:hold-1:ada:PENDING"},
		{"notification id", "hold-1@2026-11-20T14:00:00.000Z", "occurrence:hold-1:ada:PENDING"},
		{"ce_id of a hostile key", "a@b#1@2026-11-20T14:00:00.000Z#0", "occurrence:a@b#1:bob:PENDING"},
		{"command", command, "record:hold-2:ada:PAUSED"},
		{"due event", sent, "record:hold-1:ada:PENDING"},
		{"due event of another tenant", theirs, ""},
		{"only in the history", "old", "trigger:old::"},
		{"nothing", "nobody", ""},
		{"behind the end", "waterclock.commands/0/99999", ""},
		{"no such partition", "waterclock.commands/99/0", ""},
		{"no topic of receipts", "waterclock.receipts/0/0", ""},
		{"no such topic", "waterclock.due.none/0/0", ""},
		{"a topic that is not searched", "waterclock.state/0/0", ""},
		{"hostile numbers", "waterclock.commands/-1/99999999999999999999", ""},
		{"another tenant's key", "acme/t", ""},
		{"another tenant's ce_id", "acme/t@o#0", ""},
		{"markup", "<script>\u202e", ""},
	} {
		if got := strings.Join(w.search(row.q), " "); got != row.want {
			t.Errorf("%s: %q finds %q, want %q", row.name, row.q, got, row.want)
		}
	}
	a := w.must(http.StatusOK, "GET", "/v1/search?q=daily", "")
	for _, want := range []string{`"next_fire_at":"2060-06-01T07:00:00.000Z"`, `"timezone":"Europe/Berlin"`} {
		if !strings.Contains(a.body, want) {
			t.Errorf("%s is not in %s", want, a.body)
		}
	}
	for _, q := range []string{"", "%20", strings.Repeat("x", maxQuery+1)} {
		if a := w.must(http.StatusBadRequest, "GET", "/v1/search?q="+q, ""); a.get(t, "field") != "q" {
			t.Errorf("%.20s: %s", q, a.body)
		}
	}
}

// addTopic makes a topic of one partition.
func addTopic(w *world, name string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...))
	if err != nil {
		return err
	}
	defer cl.Close()
	_, err = kadm.NewClient(cl).CreateTopic(context.Background(), 1, 1, nil, name)
	return err
}

// produceDue writes a due event, and is its place.
func (w *world) produceDue(t *testing.T, topic string, f *trigger.Fire) string {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	r := &kgo.Record{Topic: topic}
	var headers []trigger.Header
	r.Key, r.Value, headers = topics.DueRecord(f, topics.DueEnv{})
	for _, h := range headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return topics.Source(r.Topic, r.Partition, r.Offset)
}

// Nothing that another tenant has is found, however it is named.
func TestSearchOfAnotherTenant(t *testing.T) {
	notified := keptNotifications{{Tenant: "acme", Trigger: "acme/gone", ID: "acme/gone@o", User: "told"}}
	w := newWorld(t, func(o *Options) { o.Auth, o.Notifications = testKeys(t), notified })
	acme, blue := []string{"Authorization", "Bearer " + keyA}, []string{"Authorization", "Bearer " + keyB}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(`,"user_id":"u"`), acme...)
	command := ""
	for _, r := range w.commands(t) {
		command = topics.Source(r.Topic, r.Partition, r.Offset)
	}
	for q, want := range map[string]string{
		"t": "trigger:t:u:PENDING", "acme/t": "trigger:t:u:PENDING", "acme/t@o#0": "occurrence:t:u:PENDING",
		"u": "user::u: trigger:t:u:PENDING", "told": "user::told:", command: "record:t:u:PENDING",
	} {
		if got := strings.Join(w.search(q, acme...), " "); got != want {
			t.Errorf("%q finds %q, want %q", q, got, want)
		}
		if got := w.search(q, blue...); got != nil {
			t.Errorf("blue: %q finds %q", q, got)
		}
	}
}
