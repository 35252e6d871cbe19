package worker

import "context"

// Tracer begins the span of one due event. The returned context is the
// handler's; end is called once with its result. With OpenTelemetry:
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

// FromContext is the due event that a handler works on; nil outside of one.
// HTTP transports read its TraceParent there.
func FromContext(ctx context.Context) *DueEvent {
	e, _ := ctx.Value(eventKey).(*DueEvent)
	return e
}

// BatchValue is what OnBatch returned for the batch of the handler's event. It
// is false if there was no such hook, or its value is no T.
func BatchValue[T any](ctx context.Context) (value T, ok bool) {
	value, ok = ctx.Value(batchKey).(T)
	return value, ok
}

// WithBatchValue is for tests of handlers: BatchValue gives them v.
func WithBatchValue(ctx context.Context, v any) context.Context {
	return context.WithValue(ctx, batchKey, v)
}
