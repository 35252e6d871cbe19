package topics

import (
	"github.com/waterclock/waterclock/internal/traceparent"
	"github.com/waterclock/waterclock/trigger"
)

// TraceParent is the traceparent of a command: of a register as it goes to the
// due event, of others that of the record; "" if there is none.
func TraceParent(rec *Record, c *trigger.Command) string {
	if c.Spec != nil && c.Spec.TraceParent != "" {
		return c.Spec.TraceParent
	}
	for i := range rec.Headers {
		if h := &rec.Headers[i]; h.Key == traceParent && isTraceParent(h.Value) {
			return string(h.Value)
		}
	}
	return ""
}

// isTraceParent says whether a traceparent is one. Another is left out: tracing
// must never refuse a command, and whoever gets the due event has no use for it.
func isTraceParent(value []byte) bool {
	_, ok := traceparent.Parse(string(value))
	return ok
}
