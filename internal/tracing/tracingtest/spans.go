// Package tracingtest shows tests the spans that were recorded: in memory, or
// as a collector of OTLP gets them.
package tracingtest

import (
	"context"
	"sync"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/waterclock/waterclock/internal/tracing"
)

// Span is one span, its ids in hex.
type Span struct {
	Name, TraceID, SpanID, Parent, Kind, Failed string
	Attrs                                       map[string]string
	Links                                       []string // span ids
}

// TraceParent names the span as a parent of others.
func (s Span) TraceParent() string { return "00-" + s.TraceID + "-" + s.SpanID + "-01" }

// Memory is a tracer that keeps its spans, and the spans so far.
func Memory(t testing.TB, ratio float64) (*tracing.Tracer, func() []Span) {
	t.Helper()
	m := &memory{}
	tr, err := tracing.New(t.Context(), tracing.Options{Exporter: m, Ratio: ratio})
	if err != nil {
		t.Fatal(err)
	}
	return tr, m.spans
}

type memory struct {
	mu  sync.Mutex
	all tracetest.SpanStubs
}

func (m *memory) ExportSpans(_ context.Context, spans []sdk.ReadOnlySpan) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, tracetest.SpanStubsFromReadOnlySpans(spans)...)
	return nil
}

func (m *memory) Shutdown(context.Context) error { return nil }

func (m *memory) spans() (out []Span) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.all {
		one := Span{
			Name: s.Name, TraceID: s.SpanContext.TraceID().String(), SpanID: s.SpanContext.SpanID().String(),
			Kind: s.SpanKind.String(), Failed: s.Status.Description, Attrs: map[string]string{},
		}
		if s.Parent.IsValid() {
			one.Parent = s.Parent.SpanID().String()
		}
		for _, a := range s.Attributes {
			one.Attrs[string(a.Key)] = a.Value.String()
		}
		for _, l := range s.Links {
			one.Links = append(one.Links, l.SpanContext.SpanID().String())
		}
		out = append(out, one)
	}
	return out
}
