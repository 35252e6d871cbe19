package gateway

import (
	"net/http"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/tracing"
	"github.com/waterclock/waterclock/trigger"
)

// traceNames are the headers of W3C Trace Context and Baggage, which travel
// from the request through the command to the due event; inHTTP is how
// http.Header has them, so that it need not respell them for every request.
var (
	traceNames = []string{"traceparent", "tracestate", "baggage"}
	inHTTP     = []string{"Traceparent", "Tracestate", "Baggage"}
)

// withTrace adds the request's trace to a command's headers, in place of one
// that the trigger had.
func withTrace(own []trigger.Header, r *request) []trigger.Header {
	given := traceHeaders(r.Request)
	if r.span.Recording() || len(given) > 0 && given[0].Key == "traceparent" {
		own = slices.DeleteFunc(slices.Clone(own), func(h trigger.Header) bool { return slices.Contains(traceNames, h.Key) })
	}
	return append(slices.Clip(own), given...)
}

func traceHeaders(r *http.Request) (hs []trigger.Header) {
	for i, name := range traceNames {
		if v := r.Header.Get(inHTTP[i]); v != "" && len(v) <= 1024 {
			hs = append(hs, trigger.Header{Key: name, Value: []byte(v)})
		}
	}
	return hs
}

// sending begins the span of a command's record, which then names it as its
// parent. Where the request is not recorded the headers stay as they came.
func (s *Server) sending(c *command, r *kgo.Record) tracing.Span {
	if !c.trace.Sampled() {
		return tracing.Span{}
	}
	span := s.opts.Tracing.Begin(c.trace, "send "+r.Topic, tracing.Producer,
		tracing.Text("messaging.system", "kafka"), tracing.Text("messaging.operation.type", "send"), tracing.Text("messaging.destination.name", r.Topic),
		tracing.Text("waterclock.op", c.op.String()), tracing.Text("waterclock.trigger", string(c.key)))
	r.Headers = slices.DeleteFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == "traceparent" })
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: "traceparent", Value: []byte(span.Place().TraceParent())})
	return span
}

// sent ends the span of a record.
func sent(span tracing.Span, r *kgo.Record, err error) {
	if !span.Recording() {
		return
	}
	if err != nil {
		span.Fail("not written")
	} else {
		span.Set(tracing.Number("messaging.destination.partition.id", int64(r.Partition)), tracing.Number("messaging.kafka.offset", r.Offset))
	}
	span.End()
}
