package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/logtest"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// publisher writes events to the partition of a trigger.
func (w *world) publisher(key string) func(list ...topics.Event) {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(cl.Close)
	return func(list ...topics.Event) {
		w.t.Helper()
		for _, e := range list {
			b, _ := json.Marshal(e)
			if err := cl.ProduceSync(w.t.Context(), &kgo.Record{
				Topic: topics.Names{}.Events(), Partition: topics.Partition([]byte(key), testPartitions),
				Key: []byte(e.Trigger), Value: b,
			}).FirstErr(); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// What the history has not read yet comes from the topic, each event once.
func TestFollow(t *testing.T) {
	log := &keptEvents{all: []topics.Event{
		event("e", 10, 1, "trigger.registered"),
		event("e", 12, 2, "trigger.paused"),
	}, next: 1}
	w := newWorld(t, func(o *Options) { o.History = log })
	publish := w.publisher("e")
	publish(log.all[0], log.all[1], event("other", 13, 1, "trigger.registered"), event("e", 14, 3, "trigger.resumed"))
	req, _ := http.NewRequestWithContext(t.Context(), "GET", w.url+"/v1/triggers/e/events?follow=1", nil)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("status %d, type %q", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(resp.Body)
	next := func(prefix string) string {
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), prefix); ok {
				return text
			}
		}
		t.Fatal("the stream ended")
		return ""
	}
	for _, want := range []string{"trigger.registered", "trigger.paused", "trigger.resumed"} {
		if got := next("event: "); got != want {
			t.Fatalf("event %q, want %q", got, want)
		}
	}
	publish(event("e", 15, 4, "occurrence.fired"))
	id := next("id: ")
	var e topics.Event
	if err := json.Unmarshal([]byte(next("data: ")), &e); err != nil || e.Type != "occurrence.fired" || e.Seq != 4 {
		t.Fatalf("event %+v, %v", e, err)
	}
	publish(event("e", 16, 5, "trigger.completed"))
	for _, c := range []struct{ cursor, lastEventID string }{{"", id}, {id, ""}, {"x", id}} {
		resumed, _ := http.NewRequestWithContext(t.Context(), "GET",
			w.url+"/v1/triggers/e/events?follow=1&cursor="+c.cursor, nil)
		resumed.Header.Set("Last-Event-ID", c.lastEventID)
		resp, err := http.DefaultClient.Do(resumed)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		lines = bufio.NewScanner(resp.Body)
		if got := next("event: "); got != "trigger.completed" {
			t.Errorf("after %+v comes %q", c, got)
		}
	}
}

// A history that has read nothing of a partition yet is behind what is in the topic: a
// stream that is opened right after the first register misses nothing.
func TestFollowBeforeTheHistory(t *testing.T) {
	log := &keptEvents{all: []topics.Event{event("e", 10, 1, "trigger.registered")}}
	w := newWorld(t, func(o *Options) { o.History = log })
	w.publisher("e")(log.all[0], event("e", 12, 2, "trigger.paused"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", w.url+"/v1/triggers/e/events?follow=1", nil)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got []string
	for lines := bufio.NewScanner(resp.Body); len(got) < 2 && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			got = append(got, text)
		}
	}
	if !slices.Equal(got, []string{"trigger.registered", "trigger.paused"}) {
		t.Errorf("events %v", got)
	}
}

// brokenOff is a history that has a first event, and does not answer who asks for those behind it.
type brokenOff struct{ *keptEvents }

func (h brokenOff) Events(_ context.Context, _ string, _ trigger.Key, after EventCursor, _ int, _ int64) (
	[]topics.Event, bool, error,
) {
	if after != (EventCursor{}) {
		return nil, false, errors.New("timeout")
	}
	return h.all[:1], true, nil
}

// A stream ends where the history breaks off. If it went on with the topic, the id of its next event would hide for
// ever what lies between.
func TestFollowEndsWhereTheHistoryBreaksOff(t *testing.T) {
	log := brokenOff{&keptEvents{all: []topics.Event{
		event("e", 10, 1, "trigger.registered"),
		event("e", 12, 2, "trigger.paused"),
	}, next: 2}}
	w := newWorld(t, func(o *Options) { o.History = log })
	w.publisher("e")(log.all[0], log.all[1], event("e", 14, 3, "trigger.resumed"))
	req, _ := http.NewRequestWithContext(t.Context(), "GET", w.url+"/v1/triggers/e/events?follow=1", nil)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got []string
	lines := bufio.NewScanner(resp.Body)
	for len(got) < 2 && lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			got = append(got, text)
		}
	}
	if !slices.Equal(got, []string{"trigger.registered"}) || lines.Err() != nil {
		t.Errorf("events %v, %v", got, lines.Err())
	}
}

// hungUp is a history whose caller hangs up while it answers.
type hungUp struct {
	*keptEvents
	hangUp func()
}

func (h hungUp) Events(ctx context.Context, _ string, _ trigger.Key, after EventCursor, _ int, _ int64) (
	[]topics.Event, bool, error,
) {
	if after != (EventCursor{}) {
		h.hangUp()
		<-ctx.Done()
		return nil, false, ctx.Err()
	}
	return h.all[:1], true, nil
}

// Nobody is warned of a caller that has hung up: the history is not to blame.
func TestFollowOfACallerThatHangsUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	history := hungUp{&keptEvents{all: []topics.Event{event("e", 10, 1, "trigger.registered")}, next: 1}, cancel}
	log := &logtest.Buffer{}
	w := newWorld(t, func(o *Options) { o.History, o.Logger = history, slog.New(slog.NewTextHandler(log, nil)) })
	w.publisher("e")(history.all[0])
	req := httptest.NewRequestWithContext(ctx, "GET", "http://127.0.0.1/v1/triggers/e/events?follow=1", nil)
	answer := httptest.NewRecorder()
	w.server.Handler().ServeHTTP(answer, req)
	if !strings.Contains(answer.Body.String(), "trigger.registered") || strings.Contains(log.String(), "stream") {
		t.Errorf("answer\n%s\nlog\n%s", answer.Body, log)
	}
}

// following opens the stream of a trigger's events with a key. It is open until ctx ends.
func (w *world) following(ctx context.Context, t *testing.T, id, key string) io.Reader {
	t.Helper()
	req, _ := http.NewRequestWithContext(ctx, "GET", w.url+"/v1/triggers/"+id+"/events?follow=1", nil)
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the stream: %d", resp.StatusCode)
	}
	return resp.Body
}

// endless is a history that always has one more event.
type endless struct{ *keptEvents }

func (endless) Events(ctx context.Context, _ string, key trigger.Key, after EventCursor, _ int, _ int64) (
	[]topics.Event, bool, error,
) {
	time.Sleep(time.Millisecond)
	next := event(string(key), max(after.EventUS-firstEventUS, 0)+1, after.Seq+1, "trigger.edited")
	return []topics.Event{next}, true, ctx.Err()
}

// A replay ends with the key, as what follows it does.
func TestReplayEndsWithItsKey(t *testing.T) {
	defer func(d time.Duration) { admitEvery = d }(admitEvery)
	admitEvery = 20 * time.Millisecond
	eve := strings.Repeat("e", 40)
	keys := &keysOf{}
	keys.set(t, "acme "+eve+" viewer eve\n")
	w := newWorld(t, func(o *Options) { o.Auth, o.History = keys, endless{&keptEvents{next: 1}} })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	stream := w.following(ctx, t, "e", eve)
	keys.set(t, "acme "+strings.Repeat("b", 40)+" writer bob\n")
	if _, err := io.Copy(io.Discard, stream); err != nil {
		t.Errorf("the replay goes on: %v", err)
	}
}

// noPosition is a history that does not say how far it has read.
type noPosition struct{ *keptEvents }

func (noPosition) Next(context.Context, int32) (int64, error) { return 0, errors.New("timeout") }

// A stream does not begin at a guess: what the history has still to read would be missing.
func TestFollowNeedsThePositionOfTheHistory(t *testing.T) {
	log := noPosition{&keptEvents{all: []topics.Event{event("e", 10, 1, "trigger.registered")}}}
	w := newWorld(t, func(o *Options) { o.History = log })
	req, _ := http.NewRequestWithContext(t.Context(), "GET", w.url+"/v1/triggers/e/events?follow=1", nil)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("status %d", resp.StatusCode)
	}
	if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), "history") {
		t.Errorf("%s, %v", body, err)
	}
}

// TestFollowComesBackWithoutHistory: what happened while the caller was away comes from the topic.
func TestFollowComesBackWithoutHistory(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.History = nil })
	w.must(http.StatusCreated, "PUT", "/v1/triggers/e", at(""))
	seen, away := event("e", 10, 1, "trigger.paused"), event("e", 12, 2, "trigger.resumed")
	w.publisher("e")(seen, away)
	req, _ := http.NewRequestWithContext(t.Context(), "GET", w.url+"/v1/triggers/e/events?follow=1", nil)
	req.Header.Set("Last-Event-ID", cursorOf(&seen).String())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	w.publisher("e")(event("e", 14, 3, "trigger.completed"))
	var got []string
	for lines := bufio.NewScanner(resp.Body); lines.Scan() && !slices.Contains(got, "trigger.completed"); {
		if text, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			got = append(got, text)
		}
	}
	if want := []string{"trigger.resumed", "trigger.completed"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Following asks for the same trigger as listing: one that has neither a state
// nor a history is not there.
func TestFollowOfNothing(t *testing.T) {
	log := &keptEvents{}
	for name, history := range map[string]History{"with a history": log, "without": nil} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.History = history })
			for _, path := range []string{
				"/v1/triggers/none/events?follow=1",
				"/v1/triggers/acme%2Fx/events?follow=true",
			} {
				if a := w.must(http.StatusNotFound, "GET", path, ""); a.get(t, "code") != "not_found" {
					t.Errorf("%s: %s", path, a.body)
				}
			}
			for _, value := range []string{"2", "yes", "", "TRUE"} {
				if a := w.must(http.StatusBadRequest, "GET", "/v1/triggers/none/events?follow="+value, ""); a.get(t,
					"field") != "follow" {
					t.Errorf("follow=%s: %s", value, a.body)
				}
			}
		})
	}
	log.all = []topics.Event{event("gone", 10, 1, "trigger.registered")}
	w := newWorld(t, func(o *Options) { o.History = log })
	w.must(http.StatusOK, "GET", "/v1/triggers/gone/events?follow=0", "")
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, _ := http.NewRequestWithContext(ctx, "GET", w.url+"/v1/triggers/gone/events?follow=1", nil)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("what the history alone knows: status %d", resp.StatusCode)
	}
}

func TestFollowersAreBounded(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Followers = 1 })
	w.must(http.StatusCreated, "PUT", "/v1/triggers/e", at(""))
	req, _ := http.NewRequestWithContext(t.Context(), "GET", w.url+"/v1/triggers/e/events?follow=1", nil)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	w.must(http.StatusServiceUnavailable, "GET", "/v1/triggers/e/events?follow=1", "")
}

// A credential that is taken away, or has other rights, ends its stream, idle or busy.
func TestFollowEndsWithItsKey(t *testing.T) {
	defer func(d time.Duration) { admitEvery = d }(admitEvery)
	admitEvery = 20 * time.Millisecond
	eve, bob := strings.Repeat("e", 40), strings.Repeat("b", 40)
	both := "acme " + eve + " viewer eve\nacme " + bob + " writer bob\n"
	keys := &keysOf{}
	keys.set(t, both)
	w := newWorld(t, func(o *Options) { o.Auth = keys })
	w.must(http.StatusCreated, "PUT", "/v1/triggers/e", at(""), "Authorization", "Bearer "+bob)
	for name, after := range map[string]string{
		"revoked": "acme " + bob + " writer bob\n", "fewer rights": strings.Replace(both, "viewer", "support", 1),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		keys.set(t, both)
		stream := w.following(ctx, t, "e", eve)
		ended := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, stream)
			ended <- err
		}()
		select {
		case err := <-ended:
			t.Fatalf("%s: it ended before: %v", name, err)
		case <-time.After(5 * admitEvery):
		}
		keys.set(t, after)
		if err := <-ended; err != nil {
			t.Errorf("%s: the stream goes on: %v", name, err)
		}
	}
}

// A stream says that it lives also while its partition is busy with others.
func TestFollowIsKeptAliveBesideOthers(t *testing.T) {
	defer func(was time.Duration) { keepAlive = was }(keepAlive)
	keepAlive = 500 * time.Millisecond
	log := &keptEvents{all: []topics.Event{event("e", 10, 1, "trigger.registered")}, next: 1}
	w := newWorld(t, func(o *Options) { o.History = log })
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	go func() {
		others := &kgo.Record{
			Topic: topics.Names{}.Events(), Partition: topics.Partition([]byte("e"), testPartitions),
			Key: []byte("other"), Value: []byte("{}"),
		}
		for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			r := *others
			cl.ProduceSync(ctx, &r)
		}
	}()
	req, _ := http.NewRequestWithContext(ctx, "GET", w.url+"/v1/triggers/e/events?follow=1", nil)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), ":") {
			return
		}
	}
	t.Error("the stream was silent for 5 s, ten times as long as it may be")
}

// A stream whose topic cannot be read ends; it would ask resumed, and write that
// it lives, thousands of times a second.
func TestFollowWhatCannotBeRead(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/e", at(""))
	w.cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		return refuseFetch(req.(*kmsg.FetchRequest)), nil, true
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", w.url+"/v1/triggers/e/events?follow=1", nil)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := 0
	for scan := bufio.NewScanner(resp.Body); scan.Scan(); {
		lines++
	}
	if resp.StatusCode != http.StatusOK || ctx.Err() != nil || lines > 4 {
		t.Errorf("status %d, %d lines, %v", resp.StatusCode, lines, ctx.Err())
	}
}

// refuseFetch says of each partition that its reader may not.
func refuseFetch(req *kmsg.FetchRequest) *kmsg.FetchResponse {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	for _, topic := range req.Topics {
		to := kmsg.NewFetchResponseTopic()
		to.Topic, to.TopicID = topic.Topic, topic.TopicID
		for _, p := range topic.Partitions {
			refused := kmsg.NewFetchResponseTopicPartition()
			refused.Partition, refused.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
			to.Partitions = append(to.Partitions, refused)
		}
		resp.Topics = append(resp.Topics, to)
	}
	return resp
}
