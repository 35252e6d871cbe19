package tracingtest

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	v1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/waterclock/waterclock/internal/tracing"
)

// Collector takes spans over OTLP/HTTP, as an OpenTelemetry collector does.
type Collector struct {
	URL string

	mu      sync.Mutex
	all     []Span
	text    strings.Builder
	headers []http.Header
}

// NewCollector listens until the test ends.
func NewCollector(t testing.TB) *Collector {
	c := &Collector{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.take(r); err != nil {
			t.Errorf("collector: %v", err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		b, _ := proto.Marshal(&collector.ExportTraceServiceResponse{})
		_, _ = w.Write(b)
	}))
	t.Cleanup(s.Close)
	c.URL = s.URL
	return c
}

// Exporting is a tracer that exports to a collector until the test ends.
func Exporting(t testing.TB) *tracing.Tracer {
	t.Helper()
	tr, err := tracing.New(t.Context(), tracing.Options{Endpoint: NewCollector(t).URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close(context.Background()) })
	return tr
}

func (c *Collector) take(r *http.Request) error {
	var from io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return err
		}
		from = z
	}
	b, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	var req collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(b, &req); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := r.Header.Clone()
	h.Set("Path", r.URL.Path)
	c.headers = append(c.headers, h)
	c.text.WriteString(protojson.Format(&req))
	for _, of := range req.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				c.all = append(c.all, spanOf(s))
			}
		}
	}
	return nil
}

func spanOf(s *v1.Span) Span {
	one := Span{
		Name: s.Name, TraceID: hex.EncodeToString(s.TraceId), SpanID: hex.EncodeToString(s.SpanId),
		Parent: hex.EncodeToString(s.ParentSpanId),
		Kind:   strings.ToLower(strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_")), Failed: s.GetStatus().GetMessage(),
		Attrs: map[string]string{},
	}
	for _, a := range s.Attributes {
		one.Attrs[a.Key] = strings.Trim(protojson.MarshalOptions{}.Format(a.Value), `{}`)
		if v := a.Value.GetStringValue(); v != "" {
			one.Attrs[a.Key] = v
		}
	}
	for _, l := range s.Links {
		one.Links = append(one.Links, hex.EncodeToString(l.SpanId))
	}
	return one
}

// Spans are those that came so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.all...)
}

// Text is everything that came, for a search for what must not.
func (c *Collector) Text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// Headers are those of the requests, with Path.
func (c *Collector) Headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]http.Header(nil), c.headers...)
}
