package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/topics"
)

// What may surprise is said once it has been decided, by every door.
func TestNotesInAnswers(t *testing.T) {
	w := newWorld(t, nil)
	past := `{"fire_at":"2026-11-20T09:00:00Z"}`
	for _, c := range []struct{ method, path, body, note string }{
		{"PUT", "/v1/triggers/a", `{"delay":"1h","channel":"oders"}`, "channel oders is new"},
		{"PUT", "/v1/triggers/b", `{"delay":"1h","channel":"oders"}`, ""}, // the one before created it
		{"PUT", "/v1/triggers/c", `{"delay":"1h"}`, ""},
		{"POST", "/v1/triggers", past, "its time passed "},
		{
			"PUT", "/v1/triggers/d", `{"recurrence":"cron:0 9 * * 1"}`,
			"no timezone was given: its times are UTC, the next is 09:00 UTC",
		},
		// a repeat says what its content means
		{"PUT", "/v1/triggers/d", `{"recurrence":"cron:0 9 * * 1"}`, "no timezone was given"},
		{"PUT", "/v1/triggers/e", `{"recurrence":"cron:0 9 * * 1","timezone":"Europe/Berlin"}`, ""},
		{"PATCH", "/v1/triggers/e", `{"tags":{"a":"b"}}`, ""},
		{
			"PUT", "/v1/triggers/push", `{"delay":"1h","channel":"push","payload":{"titel":"x"}}`,
			"the payload has none of title, body and template_id: a worker of channel push",
		},
		{"PUT", "/v1/triggers/push", `{"delay":"1h","channel":"push","payload":{"title":"x"}}`, ""},
		{"PATCH", "/v1/triggers/push", `{"tags":{"a":"b"}}`, ""},
		{"POST", "/v1/triggers:batch", `{"id":"f","delay":"1h","channel":"mials"}`, "channel mials is new"},
		{"POST", "/api/reminders", `{"title":"x","recurrence":"FREQ=DAILY"}`, "no timezone was given"},
	} {
		got := w.call(c.method, c.path, c.body)
		if got.status >= http.StatusBadRequest {
			t.Fatalf("%s %s %s: %d %s", c.method, c.path, c.body, got.status, got.body)
		}
		if has := strings.Contains(got.body, `"notes"`); has != (c.note != "") ||
			!strings.Contains(got.body, c.note) {
			t.Errorf("%s %s %s answers %s, want the note %q", c.method, c.path, c.body, got.body, c.note)
		}
	}
}

// A channel that waits for receipts and that no consumer group reads is said so, by
// every door; with a worker, or where nothing waits, it is not.
func TestNoteOfAChannelThatNobodyServes(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.KnownChannel = func(string) bool { return true }
		o.Awaits = func(name string) (string, bool) { return topics.Names{}.Due(name), name != "default" }
	})
	engines, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.ConsumerGroup("waterclock"),
		kgo.ConsumeTopics(topics.Names{}.Commands()))
	if err != nil {
		t.Fatal(err)
	}
	defer engines.Close()
	eventuallyNil(t, "groups", func() error {
		_, err := kafkapart.TopicsRead(t.Context(), w.server.kafka.Client())
		return err
	})
	const note = "nobody serves channel sms now"
	register := func(path, body string) string {
		a := w.call("PUT", path, body)
		if a.status >= http.StatusBadRequest {
			t.Fatalf("%s: %d %s", body, a.status, a.body)
		}
		return a.body
	}
	sms := `{"delay":"1h","channel":"sms"}`
	if got := register("/v1/triggers/a", sms); !strings.Contains(got, note) {
		t.Errorf("with no worker: %s", got)
	}
	if got := register("/v1/triggers/a", sms); strings.Contains(got, note) {
		t.Errorf("a repeat: %s", got)
	}
	if got := register("/v1/triggers/b", `{"delay":"1h"}`); strings.Contains(got, "nobody") {
		t.Errorf("where nothing waits: %s", got)
	}
	batch := w.must(http.StatusOK, "POST", "/v1/triggers:batch", `{"id":"c","delay":"1h","channel":"sms"}`)
	if !strings.Contains(batch.body, note) {
		t.Errorf("in a batch: %s", batch.body)
	}
	if _, err := kadm.NewClient(w.server.kafka.Client()).CreateTopic(t.Context(), 1, 1, nil,
		topics.Names{}.Due("sms")); err != nil {
		t.Fatal(err)
	}
	worker, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.ConsumerGroup("waterclock.sms"),
		kgo.ConsumeTopics(topics.Names{}.Due("sms")))
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Close()
	i := 0
	eventuallyNil(t, "a register without a note, since a worker serves sms", func() error {
		i++
		if got := register(fmt.Sprintf("/v1/triggers/w%d", i), sms); strings.Contains(got, "nobody") {
			return errors.New(got)
		}
		return nil
	})
}
