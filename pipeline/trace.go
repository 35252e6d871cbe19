package pipeline

import (
	"time"

	"github.com/waterclock/waterclock/internal/tracing"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// traced holds the spans of a turn: one for each command and due event whose trace is
// sampled, and one for the turn, which links to all of them. They end with the commit, so
// their length is how long a command waited. Spans of an aborted turn say so.
type traced struct {
	begun time.Time // when the turn began
	turn  tracing.Span
	spans []tracing.Span
}

// sampled parses a traceparent. It returns the zero Parent if spans of that trace are not
// recorded here.
func sampled(traceparent string) tracing.Parent {
	if traceparent == "" {
		return tracing.Parent{}
	}
	parent, _ := tracing.ParseParent(traceparent)
	if !parent.Sampled() {
		return tracing.Parent{}
	}
	return parent
}

// tracer begins the spans of a partition's turns.
type tracer struct {
	*tracing.Tracer // nil: nothing is traced
	partition       int32
}

// spanOf begins the span of a command, in the trace that it carries. A command that could
// not be decoded has at most an op.
func (c *tracer) spanOf(t *turn, rec *topics.Record, cmd *trigger.Command) tracing.Span {
	if c.Tracer == nil {
		return tracing.Span{}
	}
	parent := sampled(topics.TraceParent(rec, cmd))
	if !parent.Sampled() {
		return tracing.Span{}
	}
	span := c.Begin(parent, "process "+rec.Topic, tracing.Consumer,
		tracing.Text("messaging.system", "kafka"),
		tracing.Text("messaging.operation.type", "process"), tracing.Text("messaging.destination.name", rec.Topic),
		tracing.Number("messaging.destination.partition.id", int64(rec.Partition)),
		tracing.Number("messaging.kafka.offset", rec.Offset),
		tracing.Text("waterclock.trigger", string(rec.Key)), tracing.Text("waterclock.op", cmd.Op.String()))
	c.keep(t, span, parent)
	return span
}

// fire begins the span of a due event, in the trace of its register. The span becomes
// the parent for consumers of the due event.
func (c *tracer) fire(t *turn, f *trigger.Fire, topic string) {
	if c.Tracer == nil {
		return
	}
	parent := sampled(f.Spec.TraceParent)
	if !parent.Sampled() {
		return
	}
	span := c.Begin(parent, "send "+topic, tracing.Producer, tracing.Text("messaging.system", "kafka"),
		tracing.Text("messaging.operation.type", "send"), tracing.Text("messaging.destination.name", topic),
		tracing.Text("messaging.message.id", f.ID()),
		tracing.Text("waterclock.trigger", string(f.Key)), tracing.Text("waterclock.channel", f.Channel),
		tracing.Text("waterclock.scheduled_at", f.Nominal.String()),
		tracing.Number("waterclock.attempt", int64(f.Attempt)))
	c.keep(t, span, parent)
	if span.Recording() {
		spec := *f.Spec // the trigger keeps its own traceparent
		spec.TraceParent = span.Parent().TraceParent()
		f.Spec = &spec
	}
}

// keep links a span to the turn's, and holds it until the commit.
func (c *tracer) keep(t *turn, span tracing.Span, because tracing.Parent) {
	if !span.Recording() {
		return
	}
	if !t.traced.turn.Recording() {
		t.traced.turn = c.Turn(because, "turn", t.traced.begun,
			tracing.Number("waterclock.partition", int64(c.partition)),
			tracing.Number("waterclock.term", t.progress.Term), tracing.Number("waterclock.turn", t.progress.Seq))
	}
	span.Link(t.traced.turn.Parent())
	t.traced.spans = append(t.traced.spans, span)
}

// result notes the outcome of a command.
func result(span tracing.Span, what string) {
	if span.Recording() {
		span.Set(tracing.Text("waterclock.result", what))
	}
}

// end ends the spans. failed is "" for a committed turn.
func (d *traced) end(t *turn, failed string) {
	if !d.turn.Recording() {
		return
	}
	d.turn.Set(tracing.Number("waterclock.commands", int64(t.commands)),
		tracing.Number("waterclock.fires", int64(t.fires)), tracing.Number("waterclock.records", int64(t.records)))
	for _, span := range append(d.spans, d.turn) {
		if failed != "" {
			span.Fail("turn given up: " + failed)
		}
		span.End()
	}
	*d = traced{}
}
