package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/forecast"
	"github.com/waterclock/waterclock/internal/logtest"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

func TestPreview(t *testing.T) {
	w := newWorld(t, nil)
	a := w.must(http.StatusOK, "POST", "/v1/preview",
		`{"recurrence":"FREQ=DAILY","start":"2026-03-07T02:30","timezone":"America/New_York","after":"2026-03-07T00:00:00Z","n":2}`)
	want := `{"occurrences":[{"at":"2026-03-07T07:30:00Z","local":"2026-03-07T02:30:00-05:00"},{"at":"2026-03-08T07:30:00Z","local":"2026-03-08T03:30:00-04:00","note":"gap: shifted 1h"}]}` + "\n"
	if a.body != want {
		t.Errorf("answer %s", a.body)
	}
	bad := w.must(http.StatusUnprocessableEntity, "POST", "/v1/preview", `{"recurrence":"FREQ=YEARLY;BYMONTHDAY=3"}`)
	if named := w.must(422, "POST", "/v1/preview", `{"id":"x","delay":"soon"}`); named.get(t, "id") != "x" {
		t.Errorf("answer %s", named.body)
	}
	if bad.get(t, "code") != "disputed_rule" || bad.get(t, "field") != "recurrence" {
		t.Errorf("answer %s", bad.body)
	}
	w.must(http.StatusBadRequest, "POST", "/v1/preview", `[`)
}

func TestOccurrences(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/o", `{"recurrence":"every:1h","start":"2060-01-01T00:00:00Z"}`)
	a := w.must(http.StatusOK, "GET", "/v1/triggers/o/occurrences?n=2", "")
	want := `{"items":[{"at":"2060-01-01T00:00:00.000Z","occurrence":"2060-01-01T00:00:00.000Z"},{"at":"2060-01-01T01:00:00.000Z","occurrence":"2060-01-01T01:00:00.000Z"}]}` + "\n"
	if a.body != want {
		t.Errorf("answer %s", a.body)
	}
	w.must(http.StatusBadRequest, "GET", "/v1/triggers/o/occurrences?n=0", "")
	w.must(http.StatusNotFound, "GET", "/v1/triggers/none/occurrences", "")
	w.must(http.StatusOK, "DELETE", "/v1/triggers/o", "")
	if a := w.must(http.StatusOK, "GET", "/v1/triggers/o/occurrences", ""); a.body != `{"items":[]}`+"\n" {
		t.Errorf("of a cancelled one: %s", a.body)
	}
}

func TestUpcoming(t *testing.T) {
	now := time.Now()
	w := newWorld(t, func(o *Options) { o.Now = func() time.Time { return now } })
	start := now.Truncate(time.Hour).UTC()
	in := func(d time.Duration) string { return start.Add(d).Format(time.RFC3339) }
	w.must(http.StatusCreated, "PUT", "/v1/triggers/one", `{"channel":"a","fire_at":"`+in(90*time.Minute)+`"}`)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/every",
		`{"channel":"b","recurrence":"every:30m","start":"`+in(time.Hour)+`"}`)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/paused", `{"channel":"b","fire_at":"`+in(90*time.Minute)+`"}`)
	w.must(http.StatusOK, "POST", "/v1/triggers/paused:pause", "")
	w.must(http.StatusCreated, "PUT", "/v1/triggers/later", `{"fire_at":"`+in(100*time.Hour)+`"}`)
	w.engine.set(func() { clear(w.engine.expects[:]) }) // no picture: every state is read
	a := w.must(http.StatusOK, "GET", "/v1/upcoming?bucket=1h&n=3", "")
	text := func(d time.Duration) string { return trigger.At(start.Add(d)).String() }
	want := fmt.Sprintf(`{"items":[{"at":"%s","count":0},{"at":"%s","count":3,"channels":{"a":1,"b":2}},{"at":"%s","count":2,"channels":{"b":2}}]}`+"\n",
		text(0), text(time.Hour), text(2*time.Hour))
	if a.body != want {
		t.Errorf("got  %s\nwant %s", a.body, want)
	}
	for _, q := range []string{"bucket=1ms", "bucket=x", "n=0", "n=100000", "buckets=3"} {
		w.must(http.StatusBadRequest, "GET", "/v1/upcoming?"+q, "")
	}
}

// What the owners' pictures have is answered from them: no state is read for it.
func TestUpcomingFromPictures(t *testing.T) {
	now := time.Date(2060, 11, 26, 9, 40, 30, 0, time.UTC)
	w := newWorld(t, func(o *Options) { o.Now = func() time.Time { return now } })
	for i := range w.engine.expects {
		w.expect(int32(i), now.Add(-40*time.Second), forecast.Key{}, 0) // nothing
	}
	push, other := forecast.Key{Tenant: "default", Channel: "push"}, forecast.Key{Tenant: "other", Channel: "push"}
	// Counted 40 s ago: at 09:40:20, 09:59:50, 10:09:50 with its jitter, 11:39:50 and the day after.
	w.expect(0, now.Add(-40*time.Second), push, 10*time.Second, 20*time.Second, 20*time.Minute-10*time.Second,
		30*time.Minute-10*time.Second, 2*time.Hour-10*time.Second, 30*time.Hour)
	w.expect(1, now.Add(-40*time.Second), other, 0, time.Minute)
	for _, c := range []struct {
		query    string
		pictures bool
		counts   map[string]int // by the bucket's begin
	}{
		{"", true, map[string]int{"09:40": 1, "09:59": 1, "10:09": 1, "11:39": 1}},
		{"?bucket=10m&n=12", true, map[string]int{"09:40": 1, "09:50": 1, "10:00": 1, "11:30": 1}},
		{"?bucket=1h&n=48", true, map[string]int{"09:00": 2, "10:00": 1, "11:00": 1, "15:00": 1}},
		{"?bucket=1d&n=90", true, map[string]int{"00:00": 5}},
		{"?bucket=30m&n=4", true, map[string]int{"09:30": 2, "10:00": 1}}, // until 11:30
		{"?bucket=30m&n=6", false, nil},                                   // over two hours, and not whole ones
		{"?bucket=1m&n=121", false, nil},
		{"?bucket=1s&n=10", false, nil},
		{"?bucket=1d&n=91", false, nil},
	} {
		a := w.must(http.StatusOK, "GET", "/v1/upcoming"+c.query, "")
		var u Upcoming
		if err := json.Unmarshal([]byte(a.body), &u); err != nil {
			t.Fatal(err)
		}
		got, sum := map[string]int{}, 0
		for _, b := range u.Items {
			if b.Count != b.Channels["push"] {
				t.Errorf("%s: %+v", c.query, b)
			}
			if sum += b.Count; b.Count > 0 {
				got[b.At[11:16]] += b.Count
			}
		}
		if c.pictures != (sum > 0) || c.pictures && !maps.Equal(got, c.counts) {
			t.Errorf("%s: %v, want %v", c.query, got, c.counts)
		}
	}
	// Without a picture of one partition, or with one that does not tell all apart, every state is read.
	w.must(http.StatusCreated, "PUT", "/v1/triggers/one", `{"channel":"a","fire_at":"2060-11-26T09:45:00Z"}`)
	w.engine.set(func() { w.engine.expects[2] = [2]*forecast.Picture{} })
	if a := w.must(http.StatusOK, "GET", "/v1/upcoming", ""); strings.Contains(a.body, "push") ||
		!strings.Contains(a.body, `"channels":{"a":1}`) {
		t.Errorf("%s", a.body)
	}
}

func TestPartitions(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/a", at(""))
	a := w.must(http.StatusOK, "GET", "/v1/partitions", "")
	var got struct{ Items []Partition }
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || len(got.Items) != testPartitions {
		t.Fatalf("%v: %s", err, a.body)
	}
	for i, p := range got.Items {
		if p.Partition != int32(i) || p.Owner != "here:1" || p.Term != 3 || !p.Ready || p.OldestOverdueSeconds != 1.5 ||
			p.CommandsLag == nil || *p.CommandsLag != 0 {
			t.Errorf("partition %d: %+v", i, p)
		}
	}
}

// The lag of a partition is absent where Kafka does not say its end, and the answer waits for that a second at most.
func TestPartitionsWhileKafkaIsSilent(t *testing.T) {
	w := newWorld(t, nil)
	w.cluster.ControlKey(int16(kmsg.ListOffsets), func(q kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		resp := q.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, t := range q.(*kmsg.ListOffsetsRequest).Topics {
			to := kmsg.ListOffsetsResponseTopic{Topic: t.Topic}
			for _, p := range t.Partitions {
				answer := kmsg.NewListOffsetsResponseTopicPartition()
				answer.Partition, answer.Offset = p.Partition, 7
				if p.Partition == 2 {
					answer.ErrorCode = kerr.LeaderNotAvailable.Code
				}
				to.Partitions = append(to.Partitions, answer)
			}
			resp.Topics = append(resp.Topics, to)
		}
		return resp, nil, true
	})
	began := time.Now()
	a := w.must(http.StatusOK, "GET", "/v1/partitions", "")
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
	var got Partitions
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		t.Fatal(err)
	}
	for _, p := range got.Items {
		if lag := p.CommandsLag; (lag == nil) != (p.Partition == 2) || lag != nil && *lag != 7-p.CommandsOffset {
			t.Errorf("%s", a.body)
		}
	}
}

func TestCalendars(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusNotFound, "GET", "/v1/calendars/us", "")
	w.must(http.StatusOK, "PUT", "/v1/calendars/us", `{"dates":["2026-12-25","2026-01-01","2026-12-25"]}`)
	if a := w.must(http.StatusOK, "GET", "/v1/calendars/us",
		""); a.body != `{"name":"us","dates":["2026-01-01","2026-12-25"]}`+"\n" {
		t.Errorf("answer %s", a.body)
	}
	if a := w.must(http.StatusOK, "GET", "/v1/calendars",
		""); a.body != `{"items":[{"name":"us","dates":2,"first":"2026-01-01","last":"2026-12-25"}]}`+"\n" {
		t.Errorf("the list is %s", a.body)
	}
	w.must(http.StatusOK, "PUT", "/v1/calendars/us", `{"dates":[]}`)
	if a := w.must(http.StatusOK, "GET", "/v1/calendars/us", ""); a.body != `{"name":"us","dates":[]}`+"\n" {
		t.Errorf("then %s", a.body)
	}
	for _, c := range []struct{ path, body string }{
		{"us", `{"dates":["25 Dec"]}`},
		{"us", `{"dates":3}`},
		{"us", `{}`},
		{"us", `{"dates":[],"x":1}`},
		{"US", `{"dates":[]}`},
	} {
		w.must(http.StatusUnprocessableEntity, "PUT", "/v1/calendars/"+c.path, c.body)
	}
}

// log is a history in memory.
type keptEvents struct {
	mu   sync.Mutex
	all  []topics.Event
	next int64
	err  error

	reads atomic.Int64 // of the newest events
}

func (l *keptEvents) Events(_ context.Context, tenant string, key trigger.Key, after EventCursor, limit int,
	most int64,
) (list []topics.Event, more bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.all {
		if e.Tenant != tenant || e.Trigger != string(key) || !after.before(&e) {
			continue
		}
		if len(list) == limit || most <= 0 {
			return list, true, l.err
		}
		list, most = append(list, e), most-int64(len(e.Payload)+100)
	}
	return list, false, l.err
}

func (l *keptEvents) LastEvents(ctx context.Context, tenant string, key trigger.Key, limit int) ([]topics.Event,
	error,
) {
	l.reads.Add(1)
	list, _, err := l.Events(ctx, tenant, key, EventCursor{}, len(l.all), 1<<40)
	return list[max(0, len(list)-limit):], err
}

func (l *keptEvents) Next(context.Context, int32) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next, l.err
}

func event(key string, us, seq int64, kind string) topics.Event {
	return topics.Event{
		EventID: fmt.Sprintf("0-%d", us), Type: kind, Version: 1, Trigger: key,
		Tenant: trigger.Key(key).Tenant(), EventUS: firstEventUS + us, Seq: seq, OccurredAt: "2026-01-01T00:00:00.000Z",
	}
}

// A page of events has about as many bytes as it may, however many events are asked for; all pages
// together, and a stream, have every event.
func TestEventPageBytes(t *testing.T) {
	log := &keptEvents{}
	for i := range int64(40) {
		e := event("e", i, i+1, "trigger.edited")
		e.Payload = json.RawMessage(`"` + strings.Repeat("x", 10_000) + `"`)
		log.all = append(log.all, e)
	}
	w := newWorld(t, func(o *Options) { o.History, o.PageBytes = log, 64<<10 })
	events, pages := 0, 0
	for cursor := ""; ; {
		a := w.must(http.StatusOK, "GET", "/v1/triggers/e/events?limit=1000"+cursor, "")
		if pages++; len(a.body) > 100<<10 {
			t.Fatalf("%d bytes", len(a.body))
		}
		events += strings.Count(a.body, `"trigger.edited"`)
		if a.get(t, "next_cursor") == "" {
			break
		}
		cursor = "&cursor=" + a.get(t, "next_cursor")
	}
	if events != 40 || pages < 5 {
		t.Errorf("%d events on %d pages", events, pages)
	}
	pagesOfAll := w.server.reads.pages
	pagesOfAll.add(trigger.DefaultTenant, w.server.opts.PagesInFlight)
	w.must(http.StatusServiceUnavailable, "GET", "/v1/triggers/e/events", "")
	pagesOfAll.add(trigger.DefaultTenant, -w.server.opts.PagesInFlight)
	if pagesOfAll.sum != 0 {
		t.Errorf("%d bytes are held still", pagesOfAll.sum)
	}
}

// Large triggers count until their readers have them, as pages do. A small one is answered always.
func TestLargeAnswersCount(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.PagesInFlight = 1 << 20 })
	w.must(http.StatusCreated, "PUT", "/v1/triggers/large", at(""))
	w.engine.set(func() {
		w.engine.states[idKey("large")].Spec.Payload = []byte(`"` + strings.Repeat("x", leastHeld) + `"`)
	})
	w.must(http.StatusCreated, "PUT", "/v1/triggers/small", at(""))
	pages := w.server.reads.pages
	w.must(http.StatusOK, "GET", "/v1/triggers/large", "")
	pages.add(trigger.DefaultTenant, pages.most)
	for _, large := range [][2]string{{"GET", ""}, {"POST", ":reveal"}} {
		if a := w.call(large[0], "/v1/triggers/large"+large[1], ""); a.status != http.StatusServiceUnavailable {
			t.Errorf("%v: %d", large, a.status)
		}
	}
	w.must(http.StatusOK, "GET", "/v1/triggers/small", "")
	pages.add(trigger.DefaultTenant, -pages.most)
	w.must(http.StatusOK, "GET", "/v1/triggers/large", "")
	if pages.sum != 0 || len(pages.by) != 0 {
		t.Errorf("%d bytes are held still", pages.sum)
	}
	if !pages.take("acme", 2*pages.most) || pages.take("other", leastHeld) {
		t.Error("the largest is not answered alone, or not counted")
	}
}

func TestEvents(t *testing.T) {
	log := &keptEvents{all: []topics.Event{
		event("e", 10, 1, "trigger.registered"),
		event("acme/e", 11, 1, "trigger.registered"), event("e", 12, 2, "occurrence.fired"),
	}}
	w := newWorld(t, func(o *Options) { o.History = log })
	a := w.must(http.StatusOK, "GET", "/v1/triggers/e/events?limit=1", "")
	if !strings.Contains(a.body, `"trigger.registered"`) || strings.Contains(a.body, `"occurrence.fired"`) ||
		strings.Contains(a.body, "acme") {
		t.Errorf("first page %s", a.body)
	}
	a = w.must(http.StatusOK, "GET", "/v1/triggers/e/events?limit=1&cursor="+a.get(t, "next_cursor"), "")
	if !strings.Contains(a.body, `"occurrence.fired"`) || a.get(t, "next_cursor") != "" {
		t.Errorf("second page %s", a.body)
	}
	if plain := cursorOf(&log.all[0]).String(); w.must(http.StatusBadRequest, "GET",
		"/v1/triggers/e/events?limit=1&cursor="+plain, "").get(t, "field") != "cursor" {
		t.Error("a page begins at a cursor that anybody can make")
	}
	if whole := w.must(http.StatusOK, "GET", "/v1/triggers/e/events?limit=2", ""); whole.get(t, "next_cursor") != "" ||
		strings.Count(whole.body, "event_id") != 2 {
		t.Errorf("all of them: %s", whole.body)
	}
	for _, wrong := range []string{
		"x", "garbage", "AgI", EventCursor{12, 3}.String(), EventCursor{-1, 1}.String(),
		EventCursor{firstEventUS, -1}.String(), EventCursor{firstEventUS, 1}.String() + "A",
		newCursorSeal(func() [][]byte { return [][]byte{[]byte(secret)} }).sealEvent("other",
			EventCursor{firstEventUS, 1}),
	} {
		if a := w.must(http.StatusBadRequest, "GET", "/v1/triggers/e/events?cursor="+wrong, ""); a.get(t,
			"field") != "cursor" {
			t.Errorf("cursor %s: %s", wrong, a.body)
		}
		if a := w.must(http.StatusBadRequest, "GET", "/v1/triggers/e/events?follow=1&cursor="+wrong, ""); a.get(t,
			"field") != "cursor" {
			t.Errorf("follow from cursor %s: %s", wrong, a.body)
		}
		if a := w.must(http.StatusBadRequest, "GET", "/v1/triggers/e/events?follow=1", "", "Last-Event-ID",
			wrong); a.get(t, "field") != "Last-Event-ID" {
			t.Errorf("Last-Event-ID %s: %s", wrong, a.body)
		}
	}
	// the first page, for who asks for all pages alike
	w.must(http.StatusOK, "GET", "/v1/triggers/e/events?cursor=", "")
	w.must(http.StatusNotFound, "GET", "/v1/triggers/none/events", "")
	w.must(http.StatusCreated, "PUT", "/v1/triggers/fresh", at(""))
	if a := w.must(http.StatusOK, "GET", "/v1/triggers/fresh/events", ""); a.body != `{"items":[]}`+"\n" {
		t.Errorf("of a fresh one %s", a.body)
	}
	log.err = errors.New("away")
	w.must(http.StatusServiceUnavailable, "GET", "/v1/triggers/e/events", "")
	w.must(http.StatusServiceUnavailable, "GET", "/v1/triggers/e/events?tail=1", "")
}

// Whoever has just changed a trigger finds that among its events, though the history is behind. What has expired from
// the history is not waited for.
func TestEventsOfOwnWrite(t *testing.T) {
	for _, query := range []string{"", "?tail=5"} {
		log := &keptEvents{}
		w := newWorld(t, func(o *Options) { o.History = log })
		w.must(http.StatusCreated, "PUT", "/v1/triggers/own", at(""))
		registered := event("own", 10, 1, "trigger.registered")
		w.publisher("own")(registered)
		time.AfterFunc(100*time.Millisecond, func() {
			log.mu.Lock()
			defer log.mu.Unlock()
			log.all, log.next = append(log.all, registered), 1
		})
		for range 2 {
			if a := w.must(http.StatusOK, "GET", "/v1/triggers/own/events"+query, ""); strings.Count(a.body,
				`"trigger.registered"`) != 1 {
				t.Errorf("%q: %s", query, a.body)
			}
		}
		log.mu.Lock()
		log.all = nil
		log.mu.Unlock()
		began := time.Now()
		w.must(http.StatusOK, "GET", "/v1/triggers/own/events"+query, "")
		if waited := time.Since(began); waited >= historyWithin {
			t.Errorf("%q: an expired event is waited for, %v", query, waited)
		}
	}
}

// The tail of a trigger's events is the newest ones, in their order.
func TestTailOfEvents(t *testing.T) {
	log := &keptEvents{all: []topics.Event{
		event("e", 10, 1, "trigger.registered"), event("e", 11, 2, "occurrence.fired"),
		event("acme/e", 12, 1, "trigger.registered"), event("e", 13, 3, "trigger.completed"),
	}}
	w := newWorld(t, func(o *Options) { o.History = log })
	all := []string{"trigger.registered", "occurrence.fired", "trigger.completed"}
	for n, want := range map[int][]string{1: all[2:], 2: all[1:], 3: all, maxTail: all} {
		a := w.must(http.StatusOK, "GET", fmt.Sprintf("/v1/triggers/e/events?tail=%d", n), "")
		var got Events
		if err := json.Unmarshal([]byte(a.body), &got); err != nil {
			t.Fatal(err)
		}
		var types []string
		for _, e := range got.Items {
			types = append(types, e.Type)
		}
		if !slices.Equal(types, want) || got.NextCursor != "" {
			t.Errorf("tail=%d: %s", n, a.body)
		}
	}
	for query, field := range map[string]string{
		"tail=0": "tail", "tail=201": "tail", "tail=": "tail", "tail=x": "tail",
		"tail=1&limit=1": "limit", "tail=1&cursor=": "cursor", "tail=1&follow=0": "follow",
	} {
		if a := w.must(http.StatusBadRequest, "GET", "/v1/triggers/e/events?"+query, ""); a.get(t, "field") != field {
			t.Errorf("%s: %s", query, a.body)
		}
	}
	w.must(http.StatusNotFound, "GET", "/v1/triggers/none/events?tail=1", "")
	w.must(http.StatusCreated, "PUT", "/v1/triggers/fresh", at(""))
	if a := w.must(http.StatusOK, "GET", "/v1/triggers/fresh/events?tail=1", ""); a.body != `{"items":[]}`+"\n" {
		t.Errorf("of a fresh one %s", a.body)
	}
}

func TestNoHistory(t *testing.T) {
	log := &logtest.Buffer{}
	w := newWorld(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	for _, query := range []string{"", "?tail=1"} {
		if a := w.must(http.StatusServiceUnavailable, "GET", "/v1/triggers/e/events"+query, ""); a.get(t,
			"code") != "unavailable" || !strings.Contains(a.body, "cassandra.hosts") {
			t.Errorf("answer to %q: %s", query, a.body)
		}
	}
	if log.String() != "" { // it is as it was set up
		t.Errorf("the log has\n%s", log)
	}
}

func TestOwnRoutes(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Schemas = fstest.MapFS{
			"command.schema.json": {Data: []byte(`{"$id":"x"}`)},
			"secret/x.json":       {Data: []byte(`{}`)},
		}
		o.AsyncAPI = []byte(`{"asyncapi":"3.0.0"}`)
		o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "up 1\n") })
		o.Ready = func() error { return errors.New("partition 3 is being restored") }
	})
	for _, c := range []struct {
		path   string
		status int
		kind   string
		has    string
	}{
		{"/healthz", 200, "text/plain; charset=utf-8", "ok"},
		{"/readyz", 503, "text/plain; charset=utf-8", "partition 3"},
		{"/metrics", 200, "", "up 1"},
		{"/openapi.json", 200, "application/json", `"openapi":"3.1.0"`},
		{"/docs", 200, "text/html; charset=utf-8", "/v1/triggers/{id}:snooze"},
		{"/schemas/command.schema.json", 200, "application/schema+json", "$id"},
		{"/schemas/command", 200, "application/schema+json", "$id"},
		{"/schemas/none", 404, "application/problem+json", "not_found"},
		{"/schemas/.", 404, "application/problem+json", "not_found"},
		{"/asyncapi.json", 200, "application/json", "3.0.0"},
		{"/schemas/none.json", 404, "application/problem+json", "not_found"},
		{"/schemas/secret%2Fx.json", 404, "application/problem+json", "not_found"},
		{"/schemas/..%2Fx.json", 404, "application/problem+json", "not_found"},
	} {
		a := w.must(c.status, "GET", c.path, "")
		if c.kind != "" && a.header.Get("Content-Type") != c.kind || !strings.Contains(a.body, c.has) {
			t.Errorf("%s: type %q, body %.200s", c.path, a.header.Get("Content-Type"), a.body)
		}
	}
	if page := w.must(200, "GET", "/docs", "").body; strings.Contains(page, "src=") ||
		strings.Contains(page, "@import") || strings.Contains(page, "<link") {
		t.Error("/docs loads something")
	}
}
