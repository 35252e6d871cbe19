package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/test/services"
)

// canary is in all that is to be forgotten, and in nothing else.
const canary = "canary4711"

// TestEraseUser erases a user of dev, which is killed while it does so. Nothing that one can ask
// for tells of the user afterwards, and others' triggers live on.
func TestEraseUser(t *testing.T) {
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusGone)
		fmt.Fprint(w, "no such subscriber: ", canary)
	}))
	t.Cleanup(gone.Close)
	dir := filepath.Join(t.TempDir(), "outbox")
	w := newDevWorld(t, "--outbox", dir)
	user := "ada-" + canary
	wants(t, "preferences", w.call(t, http.MethodPut, "/v1/preferences/"+user,
		`{"addresses":{"email":"`+canary+`@example.com"}}`), 200)
	content := `"user_id":"` + user + `","tags":{"type":"` + canary + `"},"payload":{"title":"` + canary +
		`","body":"b","template_data":{"name":"` + canary + `"}}`
	ids := []string{"mail", "hook", "pending", "series", "paused", "cancelled"}
	register := func(id, rest string) {
		t.Helper()
		wants(t, "register "+id, w.call(t, http.MethodPut, "/v1/triggers/"+id, `{`+rest+`,`+content+`}`), 201)
	}
	register("mail", `"delay":"0s","channel":"email"`)
	register("hook", `"delay":"0s","callback":{"url":"`+gone.URL+`/`+canary+`"}`)
	register("pending", `"delay":"9h"`)
	register("series", `"recurrence":"every:1h"`)
	register("paused", `"recurrence":"every:1h"`)
	wants(t, "pause", w.call(t, http.MethodPost, "/v1/triggers/paused:pause", `{"note":"`+canary+`"}`), 200)
	register("cancelled", `"delay":"9h"`)
	wants(t, "cancel", w.call(t, http.MethodDelete, "/v1/triggers/cancelled", ""), 200)
	for i := range 200 {
		ids = append(ids, fmt.Sprint("more", i))
	}
	var batch strings.Builder
	for _, id := range ids[6:] {
		fmt.Fprintf(&batch, `{"id":%q,"delay":"9h",%s}`+"\n", id, content)
	}
	if a := w.call(t, http.MethodPost, "/v1/triggers:batch", batch.String()); a.status != 200 {
		t.Fatalf("batch: %v", a)
	}
	wants(t, "bob's", w.call(t, http.MethodPut, "/v1/triggers/bobs", `{"delay":"9h","user_id":"bob"}`), 201)
	await(t, "a mail, and the history of it", func() bool {
		a := w.call(t, http.MethodGet, "/v1/users/"+user+"/notifications?content=1", "")
		return len(outbox(t, dir)) > 0 && len(list(a, "items")) == 2 && strings.Contains(a.text, `"body":"b"`)
	})
	await(t, "a dead letter", func() bool {
		return strings.Contains(w.call(t, http.MethodGet, "/v1/dead-letters", "").text, "hook")
	})
	await(t, "the events of all", func() bool {
		return strings.Contains(w.call(t, http.MethodGet, "/v1/triggers/more199/events", "").text, canary)
	})

	erasure := "/v1/users/" + user + "/erasure"
	wants(t, "DELETE", w.call(t, http.MethodDelete, "/v1/users/"+user, ""), 202)
	for range 3 { // at once, and wherever it is then
		w.node.kill()
		w.node.launch()
		w.node.ready(2 * time.Minute)
		if a := w.call(t, http.MethodGet, erasure, ""); a.body["state"] == "done" {
			break
		}
	}
	wants(t, "a new life", w.call(t, http.MethodPut, "/v1/triggers/anew", `{"delay":"9h","user_id":"`+user+`"}`), 201)
	await(t, "the end of the erasure", func() bool {
		return w.call(t, http.MethodGet, erasure, "").body["state"] == "done"
	})
	for _, id := range ids {
		if a := w.call(t, http.MethodGet, "/v1/triggers/"+id, ""); a.status != 404 {
			t.Errorf("%s: %v", id, a)
		}
		a := w.call(t, http.MethodGet, "/v1/triggers/"+id+"/events?limit=1000", "")
		if a.status != 200 || strings.Contains(a.text, canary) || !strings.Contains(a.text, "trigger.erased") ||
			!strings.Contains(a.text, "trigger.registered") {
			t.Errorf("the history of %s: %v", id, a)
		}
	}
	for _, path := range []string{
		"/v1/users/" + user + "/notifications?content=1", "/v1/dead-letters?status=all", "/v1/preferences/" + user,
		"/v1/triggers?tag=type:" + url.QueryEscape(canary), "/v1/triggers?state=CANCELLED",
	} {
		if a := w.call(t, http.MethodGet, path, ""); a.status != 200 || strings.Contains(a.text, canary) {
			t.Errorf("%s: %v", path, a)
		}
	}
	for _, id := range []string{"bobs", "anew"} {
		wants(t, id, w.call(t, http.MethodGet, "/v1/triggers/"+id, ""), 200, "state=PENDING")
	}
}

// TestEraseUserOfTheLogs erases a user of three processes: an engine on a real broker, and two
// gateways on PostgreSQL, of which one is killed half-way. Then PostgreSQL has nothing of the
// user, and neither have the topics, once they are compacted and their records deleted.
func TestEraseUserOfTheLogs(t *testing.T) {
	const n = 2000
	database := services.PostgresDatabase(t)
	settings := []string{"--set", "postgres.url=" + database}
	w := newServeWorld(t, "engine")
	gateway := func(name string) *process {
		p := start(t, name, append(append([]string{"serve", "--roles", "api", "--data-dir", t.TempDir()},
			w.cluster.args...), settings...)...)
		p.ready(2 * time.Minute)
		return p
	}
	w.node = gateway("first")
	user := "ada-" + canary
	wants(t, "preferences", w.call(t, http.MethodPut, "/v1/preferences/"+user,
		`{"timezone":"Asia/Tokyo","addresses":{"email":"`+canary+`@example.com"}}`), 200)
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, `{"id":"t%04d","delay":"9h","user_id":%q,"payload":%q,"tags":{"type":%q}}`+"\n", i, user,
			canary, canary)
	}
	wants(t, "register", w.call(t, http.MethodPost, "/v1/triggers:batch", lines.String()), 200)
	wants(t, "fired", w.call(t, http.MethodPut, "/v1/triggers/fired", `{"delay":"0s","user_id":"`+user+
		`","payload":"`+canary+`"}`), 201)
	await(t, "a due event", func() bool { return has(t, w, "due.default") })
	for _, topic := range []string{"commands", "state", "events", "due.default"} {
		if !has(t, w, topic) {
			t.Fatalf("%s does not have what is to be erased: nothing is tested", topic)
		}
	}
	wants(t, "DELETE", w.call(t, http.MethodDelete, "/v1/users/"+user, ""), 202)
	w.node.kill()
	w.node = gateway("second")
	await(t, "the end of the erasure", func() bool {
		a := w.call(t, http.MethodGet, "/v1/users/"+user+"/erasure", "")
		return a.body["state"] == "done"
	})
	if left := rowsAbout(t, database, canary); left != "" {
		t.Errorf("PostgreSQL has, of the erased user: %s", left)
	}
	emptyLogs(t, w)
	for _, topic := range []string{"commands", "state", "events"} { // each has newer records
		await(t, "nothing of the user on "+topic, func() bool { return !has(t, w, topic) })
	}
	wants(t, "one of them", w.call(t, http.MethodGet, "/v1/triggers/t0007", ""), 404)
}

// has reports whether a record of a topic has the canary, in a transaction of whatever outcome.
func has(t *testing.T, w *world, topic string) bool {
	t.Helper()
	for _, r := range services.ReadTopic(t, w.brokers, w.topic(topic), kgo.ReadUncommitted()) {
		text := string(r.Key) + string(r.Value)
		for _, h := range r.Headers {
			text += string(h.Value)
		}
		if strings.Contains(text, canary) {
			return true
		}
	}
	return false
}

// emptyLogs lets the brokers compact at once, and deletes what they do not compact.
func emptyLogs(t *testing.T, w *world) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	var alter []kadm.AlterConfig
	for name, value := range map[string]string{
		"segment.ms": "100", "min.cleanable.dirty.ratio": "0.0", "min.compaction.lag.ms": "0",
		"max.compaction.lag.ms": "100",
	} {
		alter = append(alter, kadm.AlterConfig{Name: name, Value: &value})
	}
	changed, err := adm.AlterTopicConfigs(t.Context(), alter, w.topic("commands"), w.topic("state"))
	for _, c := range changed {
		err = errors.Join(err, c.Err)
	}
	if err != nil {
		t.Fatal(err)
	}
	ends, err := adm.ListEndOffsets(t.Context(), w.topic("events"), w.topic("due.default"))
	if err != nil {
		t.Fatal(err)
	}
	deleted, err := adm.DeleteRecords(t.Context(), ends.Offsets())
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the deleted records", func() bool {
		starts, err := adm.ListStartOffsets(t.Context(), w.topic("events"), w.topic("due.default"))
		gone := err == nil
		ends.Each(func(end kadm.ListedOffset) {
			at, known := starts.Lookup(end.Topic, end.Partition)
			gone = gone && known && at.Err == nil && at.Offset >= end.Offset
		})
		return gone
	})
	// A segment that is written to is not compacted: new records begin another one.
	for round := range 3 {
		time.Sleep(200 * time.Millisecond)
		for i := range 40 {
			wants(t, "another", w.call(t, http.MethodPut, fmt.Sprintf("/v1/triggers/other%d-%d", round, i),
				`{"delay":"9h"}`), 201)
		}
	}
}
