package topics

import (
	"github.com/waterclock/waterclock/internal/traceparent"
	"github.com/waterclock/waterclock/trigger"
)

// TraceParent is the traceparent of a command, "" if there is none. A register's goes to the
// due event, and for other ops it is the record's.
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

// isTraceParent reports whether a traceparent is well-formed. Others are left out, because
// tracing must never refuse a command.
func isTraceParent(value []byte) bool {
	_, ok := traceparent.Parse(string(value))
	return ok
}
