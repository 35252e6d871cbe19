// Package tracing is what Waterclock tells OpenTelemetry: spans of requests,
// of commands written and decided, and of due events. Nobody else imports
// OpenTelemetry.
//
// # Promises
//
//   - A nil *Tracer, and the zero Span and Parent, do nothing and allocate
//     nothing: tracing that is off costs a comparison.
//   - Traces are followed by W3C traceparent. A header that is not well formed
//     is none. Where the caller's trace is not sampled, nothing is recorded.
//   - Only requests over HTTP begin traces, in the ratio of the settings; the
//     engine follows those its commands carry.
//   - Attributes hold names and numbers: routes, topics, offsets, tenants,
//     trigger keys, channels, outcomes. Never payloads, headers, callbacks,
//     query strings or credentials.
//   - Nobody waits for a collector. Spans wait in a bounded queue, and what
//     finds it full is dropped.
package tracing
