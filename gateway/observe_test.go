package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/logtest"
	"github.com/waterclock/waterclock/internal/tracing/tracingtest"
	"github.com/waterclock/waterclock/topics"
)

const (
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan  = "b7ad6b7169203331"
	callers      = "00-" + callersTrace + "-" + callersSpan + "-01"
)

// heard is what a door told.
type heard struct {
	NoListener

	mu       sync.Mutex
	inFlight int
	streams  int
	most     int // streams
	ended    []string
	audited  map[bool]int
}

func (h *heard) RequestBegan() { h.set(func() { h.inFlight++ }) }
func (h *heard) RequestEnded(method, route, status string, _ time.Duration) {
	h.set(func() { h.inFlight--; h.ended = append(h.ended, method+" "+route+" "+status) })
}

func (h *heard) Streams(change int) {
	h.set(func() { h.streams += change; h.most = max(h.most, h.streams) })
}
func (h *heard) QuotaRejected(string) {}
func (h *heard) Audited(onRecord bool) {
	h.set(func() {
		if h.audited == nil {
			h.audited = map[bool]int{}
		}
		h.audited[onRecord]++
	})
}

func (h *heard) set(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

func (h *heard) last() (s string) {
	h.set(func() { s = h.ended[len(h.ended)-1] })
	return s
}

// Each request is told once, by route and never by path, also one that is
// refused, unknown, left by its caller, or a stream.
func TestRequestsAreReported(t *testing.T) {
	h, log := &heard{}, &logtest.Buffer{}
	w := newWorld(t, func(o *Options) {
		o.Auth, o.Listener, o.LogRequests, o.Logger = testKeys(t), h, true, slog.New(slog.NewTextHandler(log, nil))
	})
	auth := []string{"Authorization", "Bearer " + keyB, "Traceparent", callers}
	for _, c := range []struct{ method, path, body, want string }{
		{"PUT", "/v1/triggers/marked-id?", at(`,"payload":"marked-payload"`), "PUT /v1/triggers/{id} 2xx"},
		{"GET", "/v1/triggers/marked-id", "", "GET /v1/triggers/{id} 2xx"},
		{"HEAD", "/v1/triggers/marked-id", "", "GET /v1/triggers/{id} 2xx"},
		{"GET", "/v1/triggers?user_id=marked-user", "", "GET /v1/triggers 2xx"},
		{"PUT", "/v1/triggers/marked-id", "{", "PUT /v1/triggers/{id} 4xx"},
		{"POST", "/v1/triggers/marked-id:pause", "", "POST /v1/triggers/{id}:pause 2xx"},
		{"GET", "/marked-path/x", "", "none none 4xx"},
		{"BREW", "/v1/triggers", "", "none none 4xx"},
		{"GET", "/docs", "", "GET /docs 2xx"},
	} {
		w.call(c.method, c.path, c.body, auth...)
		if got := h.last(); got != c.want {
			t.Errorf("%s %s is told as %q, want %q", c.method, c.path, got, c.want)
		}
	}
	w.call("GET", "/v1/triggers/x", "", "Authorization", "Bearer marked-token")
	if got := h.last(); got != "GET /v1/triggers/{id} 4xx" {
		t.Errorf("without a caller: %q", got)
	}
	w.engine.freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "DELETE", w.url+"/v1/triggers/marked-id", nil)
	req.Header.Set("Authorization", "Bearer "+keyB)
	if _, err := http.DefaultTransport.RoundTrip(req); err == nil { //nolint:bodyclose // an answer is the failure
		t.Error("answered while frozen")
	}
	w.engine.thaw()
	eventually(t, "the last request to end", func() bool { return h.idle() && len(h.ended) == 11 })
	text := log.String()
	for _, want := range []string{
		"trace_id=" + callersTrace, "tenant=blue", "method=POST",
		`route=/v1/triggers/{id}:pause`, "status=200", "duration_ms=",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %s", want)
		}
	}
	if n := strings.Count(text, "msg=request "); n != 10 { // all but the probe
		t.Errorf("%d lines of requests", n)
	}
	for _, line := range strings.Split(text, "\n") {
		if strings.Contains(line, "marked") && !strings.Contains(line, "msg=audit") ||
			strings.Contains(line, "marked-token") {
			t.Errorf("the log tells %s", line)
		}
	}
}

func (h *heard) idle() (idle bool) {
	h.set(func() { idle = h.inFlight == 0 && h.streams == 0 })
	return idle
}

// A panic is a 500 to all; what is broken off is no success.
func TestBrokenRequestsAreReported(t *testing.T) {
	h := &heard{}
	w := newWorld(t, func(o *Options) { o.Listener = h })
	for want, how := range map[string]any{"none none 5xx": "boom", "none none aborted": http.ErrAbortHandler} {
		func() {
			defer func() { _ = recover() }()
			w.server.observe(func(o *observed, r *http.Request) {
				defer w.server.survive(o, r)
				panic(how)
			}).ServeHTTP(discard{http.Header{}}, httptest.NewRequest("GET", "/x", nil))
		}()
		if got := h.last(); got != want {
			t.Errorf("%v is told as %q, want %q", how, got, want)
		}
	}
	if !h.idle() {
		t.Errorf("%d in flight", h.inFlight)
	}
}

type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// An event stream is counted while it is open.
func TestStreamsAreReported(t *testing.T) {
	h := &heard{}
	w := newWorld(t, func(o *Options) { o.Listener = h })
	w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(""))
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "GET", w.url+"/v1/triggers/t/events?follow=1", nil)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", resp, err)
	}
	if h.idle() || h.most != 1 {
		t.Errorf("%d streams while one is open", h.most)
	}
	cancel()
	resp.Body.Close()
	eventually(t, "the stream to end", h.idle)
	if got := h.last(); got != "GET /v1/triggers/{id}/events 2xx" {
		t.Errorf("told as %q", got)
	}
}

// The trace of a caller goes on in the span of the request, of the record,
// and in the record; what is not sampled, or none, passes as it came.
func TestTraceOfARequest(t *testing.T) {
	tracer, spans := tracingtest.Memory(t, 0)
	w := newWorld(t, func(o *Options) { o.Tracing = tracer })
	records := w.commandTail()
	unsampled := "00-" + callersTrace + "-" + callersSpan + "-00"
	for _, c := range []struct{ given, want string }{{"", ""}, {unsampled, unsampled}, {"garbled", "garbled"}} {
		w.must(http.StatusCreated, "PUT", "/v1/triggers/x"+fmt.Sprint(len(c.given)), at(""), "Traceparent", c.given)
		if got := valueOf(records.next(t), "traceparent"); got != c.want || len(spans()) != 0 {
			t.Errorf("%q becomes %q with spans %+v", c.given, got, spans())
		}
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(`,"payload":"marked","user_id":"marked"`), "Traceparent",
		callers, "Tracestate", "a=b", "Authorization", "marked")
	rec := records.next(t)
	eventually(t, "two spans", func() bool { return len(spans()) == 2 })
	send, request := spans()[0], spans()[1]
	if request.Name != "PUT /v1/triggers/{id}" || request.TraceID != callersTrace || request.Parent != callersSpan ||
		request.Kind != "server" || request.Attrs["http.response.status_code"] != "201" ||
		request.Attrs["waterclock.tenant"] != "default" {
		t.Errorf("request %+v", request)
	}
	if send.Name != "send waterclock.commands" || send.TraceID != callersTrace || send.Parent != request.SpanID ||
		send.Kind != "producer" || send.Attrs["waterclock.op"] != "register" ||
		send.Attrs["messaging.kafka.offset"] == "" {
		t.Errorf("send %+v", send)
	}
	if got := valueOf(rec, "traceparent"); got != send.TraceParent() || valueOf(rec, "tracestate") != "a=b" {
		t.Errorf("the record has %q", rec.Headers)
	}
	for _, s := range spans() {
		for name, value := range s.Attrs {
			if strings.Contains(value, "marked") {
				t.Errorf("%s has %s=%s", s.Name, name, value)
			}
		}
	}
	// A change carries its own request's trace, not the register's.
	other := strings.Replace(callers, "0af7", "1bf8", 1)
	w.must(http.StatusOK, "PATCH", "/v1/triggers/t", `{"tags":{"a":"b"}}`, "Traceparent", other)
	rec = records.next(t)
	if all := valuesOf(rec, "traceparent"); len(all) != 1 || !strings.HasPrefix(all[0], other[:36]) ||
		len(valuesOf(rec, "tracestate")) != 0 {
		t.Errorf("a patch writes %q", rec.Headers)
	}
	w.must(http.StatusOK, "PATCH", "/v1/triggers/t", `{"tags":{"a":"c"}}`)
	if all := valuesOf(records.next(t), "traceparent"); len(all) != 1 || !strings.HasPrefix(all[0], other[:36]) {
		t.Errorf("a patch without a trace writes %q", all)
	}
	// Ten thousand lines would be ten thousand spans.
	n := len(spans())
	w.must(http.StatusOK, "POST", "/v1/triggers:batch", `{"id":"b","delay":"1h"}`, "Traceparent", callers)
	if rec = records.next(t); valueOf(rec, "traceparent") != "" {
		t.Errorf("a line of a batch has %q", rec.Headers)
	}
	eventually(t, "the batch's span", func() bool { return len(spans()) == n+1 })
}

// The ratio begins traces where the caller has none; probes begin none.
func TestTraceBegins(t *testing.T) {
	tracer, spans := tracingtest.Memory(t, 1)
	w := newWorld(t, func(o *Options) { o.Tracing = tracer })
	records := w.commandTail()
	w.must(http.StatusOK, "GET", "/healthz", "")
	w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(""))
	eventually(t, "two spans", func() bool { return len(spans()) == 2 })
	if send := spans()[0]; spans()[1].Parent != "" || valueOf(records.next(t), "traceparent") != send.TraceParent() {
		t.Errorf("spans %+v", spans())
	}
}

// commandTail reads topic commands from its beginning.
type commandTail struct {
	cl  *kgo.Client
	got []*kgo.Record
}

func (w *world) commandTail() *commandTail {
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.ConsumeTopics(topics.Names{}.Commands()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(cl.Close)
	return &commandTail{cl: cl}
}

func (c *commandTail) next(t *testing.T) *kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for len(c.got) == 0 && ctx.Err() == nil {
		c.got = c.cl.PollFetches(ctx).Records()
	}
	if len(c.got) == 0 {
		t.Fatal("no command came")
	}
	r := c.got[0]
	c.got = c.got[1:]
	return r
}

func valuesOf(r *kgo.Record, name string) (all []string) {
	for _, h := range r.Headers {
		if h.Key == name {
			all = append(all, string(h.Value))
		}
	}
	return all
}

func valueOf(r *kgo.Record, name string) string {
	return strings.Join(slices.Clip(valuesOf(r, name)), ",")
}
