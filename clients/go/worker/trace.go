package worker

import "context"

// OutcomeAbandoned is for Tracer only: the handler failed after its partition had moved, or the worker had
// stopped. There is no receipt, and the event is delivered again.
const OutcomeAbandoned Outcome = "abandoned"

// Tracer starts the span of one due event. The returned context is passed to the handler. end is
// called once with its result, or with OutcomeAbandoned. An event that is answered without its handler,
// such as with Overflow or Slow, has no span. With OpenTelemetry:
//
//	func (t tracer) Start(ctx context.Context, e *worker.DueEvent) (context.Context, func(worker.Result)) {
//		carrier := propagation.MapCarrier{"traceparent": e.TraceParent, "tracestate": e.TraceState}
//		ctx = propagation.TraceContext{}.Extract(ctx, carrier)
//		ctx, span := t.Tracer.Start(ctx, "deliver "+e.Tenant, trace.WithSpanKind(trace.SpanKindConsumer))
//		return ctx, func(r worker.Result) {
//			span.SetAttributes(attribute.String("outcome", string(r.Outcome)))
//			span.End()
//		}
//	}
type Tracer interface {
	Start(ctx context.Context, e *DueEvent) (handler context.Context, end func(Result))
}

type noTracer struct{}

func (noTracer) Start(ctx context.Context, _ *DueEvent) (context.Context, func(Result)) {
	return ctx, func(Result) {}
}

type contextKey int

const (
	eventKey contextKey = iota
	batchKey
)

// FromContext returns the due event that a handler works on, or nil outside of a handler. HTTP
// transports use it to read TraceParent.
func FromContext(ctx context.Context) *DueEvent {
	e, _ := ctx.Value(eventKey).(*DueEvent)
	return e
}

// BatchValue returns what OnBatch returned for the batch of the handler's event. ok is false if
// there was no hook, or if its value is not a T.
func BatchValue[T any](ctx context.Context) (value T, ok bool) {
	value, ok = ctx.Value(batchKey).(T)
	return value, ok
}

// WithBatchValue sets the result of BatchValue, for tests of handlers.
func WithBatchValue(ctx context.Context, v any) context.Context {
	return context.WithValue(ctx, batchKey, v)
}
