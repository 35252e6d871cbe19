package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Span is one step of a trace. The zero Span is one that nobody records: all
// its methods do nothing.
type Span struct{ s trace.Span }

// Kinds of spans.
const (
	Server   = trace.SpanKindServer   // answers a request
	Producer = trace.SpanKindProducer // writes a record for others
	Consumer = trace.SpanKindConsumer // reads a record
	Internal = trace.SpanKindInternal
)

// Attr is one attribute.
type Attr = attribute.KeyValue

// Text and Number make attributes.
func Text(key, value string) Attr         { return attribute.String(key, value) }
func Number(key string, value int64) Attr { return attribute.Int64(key, value) }

// Request begins the span of a request: in the caller's trace if it has one,
// else, in the ratio of the settings, in a new one.
func (t *Tracer) Request(caller Parent, name string) Span {
	if t == nil || caller.at.IsValid() && !caller.Sampled() {
		return Span{}
	}
	return t.begin(caller, name, Server, nil, nil)
}

// Begin begins a span below a parent whose trace is recorded; else it is the
// zero Span.
func (t *Tracer) Begin(parent Parent, name string, kind trace.SpanKind, attrs ...Attr) Span {
	if t == nil || !parent.Sampled() {
		return Span{}
	}
	return t.begin(parent, name, kind, nil, attrs)
}

// Turn begins a trace of its own for what many traces share, linked to the one
// it is recorded for.
func (t *Tracer) Turn(because Parent, name string, at time.Time, attrs ...Attr) Span {
	if t == nil || !because.Sampled() {
		return Span{}
	}
	return t.begin(Parent{}, name, Internal, []trace.SpanStartOption{
		trace.WithTimestamp(at), trace.WithLinks(trace.Link{SpanContext: because.at}),
	}, attrs)
}

func (t *Tracer) begin(parent Parent, name string, kind trace.SpanKind, opts []trace.SpanStartOption,
	attrs []Attr,
) Span {
	ctx := context.Background()
	if parent.at.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent.at)
	}
	_, s := t.tracer.Start(ctx, name, append(opts, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))...)
	if !s.IsRecording() {
		return Span{}
	}
	return Span{s}
}

// Recording says whether somebody will see the span.
func (s Span) Recording() bool { return s.s != nil }

// Parent is the span as a parent of others; the zero one of a zero Span.
func (s Span) Parent() Parent {
	if s.s == nil {
		return Parent{}
	}
	return Parent{s.s.SpanContext()}
}

// Set adds attributes.
func (s Span) Set(attrs ...Attr) {
	if s.s != nil {
		s.s.SetAttributes(attrs...)
	}
}

// Link adds a link to another span.
func (s Span) Link(to Parent) {
	if s.s != nil && to.at.IsValid() {
		s.s.AddLink(trace.Link{SpanContext: to.at})
	}
}

// Fail marks the span as failed. Why is a word or two of ours, never an
// error's text, which may quote what it is about.
func (s Span) Fail(why string) {
	if s.s != nil {
		s.s.SetStatus(codes.Error, why)
	}
}

// End ends the span.
func (s Span) End() {
	if s.s != nil {
		s.s.End()
	}
}
