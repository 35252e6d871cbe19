package node

import (
	"context"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/internal/tracing"
)

// workerTracer records a span for each attempt of our own workers, below the span that sent its due event.
type workerTracer struct {
	tracing *tracing.Tracer
	channel string
	topic   string
}

// traceWorker returns the option of a worker that records spans, if the settings ask for it.
func (n *node) traceWorker(channel, topic string) []worker.Option {
	if n.tracing == nil {
		return nil
	}
	if topic == "" {
		topic = n.names.Due(channel)
	}
	return []worker.Option{worker.WithTracer(workerTracer{n.tracing, channel, topic})}
}

// Start implements worker.Tracer.
func (t workerTracer) Start(ctx context.Context, e *worker.DueEvent) (context.Context, func(worker.Result)) {
	parent, _ := tracing.ParseParent(e.TraceParent)
	if !parent.Sampled() {
		return ctx, func(worker.Result) {}
	}
	topic := t.topic
	if e.High {
		topic += ".high"
	}
	span := t.tracing.Begin(parent, "process "+topic, tracing.Consumer, tracing.Text("messaging.system", "kafka"),
		tracing.Text("messaging.operation.type", "process"), tracing.Text("messaging.destination.name", topic),
		tracing.Text("messaging.message.id", e.ID),
		tracing.Text("waterclock.trigger", e.Key), tracing.Text("waterclock.channel", t.channel),
		tracing.Number("waterclock.attempt", int64(e.Attempt)))
	return tracing.With(ctx, span), func(r worker.Result) {
		span.Set(tracing.Text("waterclock.outcome", string(r.Outcome)))
		if r.Outcome == worker.OutcomeRetry || r.Outcome == worker.OutcomeFailed {
			span.Fail(string(r.Outcome))
		}
		span.End()
	}
}
