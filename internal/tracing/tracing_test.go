package tracing_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/tracing"
	"github.com/waterclock/waterclock/internal/tracing/tracingtest"
)

const foreign = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestParseParent(t *testing.T) {
	for text, want := range map[string]string{
		foreign: foreign,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00": "" +
			"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03": "" +
			"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03",
		// what we know of the flags
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff": "" +
			"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03",
		"01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-later": foreign,
		"01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01later":  "",
		foreign + "-x": "", foreign[:54]: "", foreign + " ": "", "": "", "00-4bf9-00f0-01": "",
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": "",
		"00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": "",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": "",
		"00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": "",
		"0g-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": "",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g": "",
	} {
		p, ok := tracing.ParseParent(text)
		if got := p.TraceParent(); got != want && ok || ok != (want != "") {
			t.Errorf("%q is %q, %v; want %q", text, got, ok, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { tracing.ParseParent(foreign) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func parent(text string) tracing.Parent {
	p, _ := tracing.ParseParent(text)
	return p
}

// The caller decides where it has a trace; where it has none the ratio does.
func TestSampling(t *testing.T) {
	off := strings.TrimSuffix(foreign, "1") + "0"
	for _, c := range []struct {
		caller string
		ratio  float64
		want   bool
	}{
		{"", 0, false},
		{"", 1, true},
		{foreign, 0, true},
		{foreign, 1, true},
		{off, 1, false},
		{"garbled", 0, false},
		{"garbled", 1, true},
	} {
		tr, _ := tracingtest.Memory(t, c.ratio)
		s := tr.Request(parent(c.caller), "GET /")
		if s.Recording() != c.want {
			t.Errorf("caller %q, ratio %v: recorded %v", c.caller, c.ratio, s.Recording())
		}
		if same := s.Parent().TraceID() == parent(c.caller).TraceID(); c.want && same != (c.caller == foreign) {
			t.Errorf("caller %q: trace %s", c.caller, s.Parent().TraceID())
		}
		if tr.Begin(parent(c.caller), "decide", tracing.Consumer).Recording() != (c.caller == foreign) {
			t.Errorf("caller %q: what follows begins a trace, or follows none", c.caller)
		}
	}
	tr, spans := tracingtest.Memory(t, 0)
	turn := tr.Turn(parent(foreign), "turn", time.Now())
	one := tr.Begin(parent(foreign), "decide", tracing.Consumer, tracing.Text("a", "b"))
	one.Link(turn.Parent())
	one.Fail("rejected")
	one.End()
	turn.End()
	got := spans()
	if len(got) != 2 || got[0].Parent != "b7ad6b7169203331" || got[0].Links[0] != got[1].SpanID ||
		got[0].Attrs["a"] != "b" || got[0].Failed != "rejected" {
		t.Fatalf("spans %+v", got)
	}
	if got[1].Parent != "" || got[1].TraceID == got[0].TraceID || got[1].Links[0] != "b7ad6b7169203331" {
		t.Errorf("the turn is %+v", got[1])
	}
}

// Off costs nothing: no span, no allocation.
func TestOff(t *testing.T) {
	var tr *tracing.Tracer
	p := parent(foreign)
	if n := testing.AllocsPerRun(100, func() {
		for _, s := range []tracing.Span{
			tr.Request(p, "GET /"), tr.Begin(p, "decide", tracing.Consumer),
			tr.Turn(p, "turn", time.Time{}),
		} {
			s.Set()
			s.Link(p)
			s.Fail("")
			s.End()
			if s.Recording() || s.Parent().TraceParent() != "" {
				t.Error("something is recorded")
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if err := tr.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Spans go to a collector as OTLP in protobuf, with the headers that the
// standard variable names.
func TestCollector(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=k1")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
	t.Setenv("OTEL_SERVICE_NAME", "clock-7")
	c := tracingtest.NewCollector(t)
	tr, err := tracing.New(t.Context(), tracing.Options{Endpoint: c.URL, Version: "1.2"})
	if err != nil {
		t.Fatal(err)
	}
	s := tr.Begin(parent(foreign), "decide", tracing.Consumer, tracing.Text("waterclock.op", "register"),
		tracing.Number("messaging.kafka.offset", 7))
	s.End()
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := c.Spans()
	if len(got) != 1 || got[0].TraceID != parent(foreign).TraceID() || got[0].Kind != "consumer" ||
		got[0].Attrs["waterclock.op"] != "register" || !strings.Contains(got[0].Attrs["messaging.kafka.offset"], "7") {
		t.Errorf("spans %+v", got)
	}
	if h := c.Headers()[0]; h.Get("Api-Key") != "k1" || h.Get("Path") != "/v1/traces" ||
		h.Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("request %v", h)
	}
	for _, want := range []string{"clock-7", "1.2", "deployment.environment"} {
		if !strings.Contains(c.Text(), want) {
			t.Errorf("the resource lacks %s", want)
		}
	}
}

// A collector that is away, or refuses, is told once and holds nobody up.
func TestCollectorAway(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=marked-secret")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request,
	) {
		w.WriteHeader(http.StatusForbidden)
	}))
	defer away.Close()
	var log bytes.Buffer
	tr, err := tracing.New(t.Context(), tracing.Options{
		Endpoint: away.URL + "/custom",
		Logger:   slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 10_000 { // more than the queue holds
		s := tr.Begin(parent(foreign), "decide", tracing.Consumer)
		s.End()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := tr.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
	if text := log.String(); strings.Count(text, "does not accept spans") != 1 ||
		strings.Contains(text, "marked-secret") {
		t.Errorf("the log says %s", text)
	}
}

func TestEndpoint(t *testing.T) {
	for _, bad := range []string{"collector:4318", "grpc://x:1", "http://", "\x00"} {
		if _, err := tracing.New(t.Context(), tracing.Options{Endpoint: bad}); err == nil ||
			!strings.Contains(err.Error(), "tracing.endpoint") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func BenchmarkOff(b *testing.B) {
	var tr *tracing.Tracer
	for b.Loop() {
		s := tr.Request(tracing.Parent{}, "GET /")
		s.End()
	}
}

func BenchmarkParseParent(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		tracing.ParseParent(foreign)
	}
}

func BenchmarkSpan(b *testing.B) {
	tr := tracingtest.Exporting(b)
	b.ReportAllocs()
	for b.Loop() {
		s := tr.Begin(parent(foreign), "decide", tracing.Consumer, tracing.Text("waterclock.op", "register"))
		s.End()
	}
}
