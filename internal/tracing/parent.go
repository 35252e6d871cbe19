package tracing

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/waterclock/waterclock/internal/traceparent"
)

// Parent is the place in a trace that a traceparent names.
type Parent struct{ at trace.SpanContext }

// ParseParent reads a traceparent; ok is false for one that is not well
// formed, which counts as none.
func ParseParent(text string) (p Parent, ok bool) {
	h, ok := traceparent.Parse(text)
	if !ok {
		return Parent{}, false
	}
	return Parent{trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: h.TraceID, SpanID: h.SpanID, Remote: true,
		TraceFlags: trace.TraceFlags(h.Flags) & (trace.FlagsSampled | trace.FlagsRandom),
	})}, true
}

// Sampled says whether the trace is recorded.
func (p Parent) Sampled() bool { return p.at.IsSampled() }

// TraceID is the trace's id in hex; "" for the zero Parent.
func (p Parent) TraceID() string {
	if !p.at.IsValid() {
		return ""
	}
	return p.at.TraceID().String()
}

// TraceParent spells the header; "" for the zero Parent.
func (p Parent) TraceParent() string {
	if !p.at.IsValid() {
		return ""
	}
	const digits = "0123456789abcdef"
	traceID, spanID, flags := p.at.TraceID(), p.at.SpanID(), p.at.TraceFlags()
	b := append(make([]byte, 0, 56), "00-"...)
	for _, part := range [][]byte{traceID[:], spanID[:], {byte(flags)}} {
		for _, c := range part {
			b = append(b, digits[c>>4], digits[c&15])
		}
		b = append(b, '-')
	}
	return string(b[:len(b)-1])
}
