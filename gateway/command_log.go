package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/internal/tracing"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/topics"
)

// producerOptions configure a client whose acknowledgement means durable: acks=all,
// idempotent, no lingering. The partition is computed here, like in Kafka's Java client.
func producerOptions(o *Options) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
		kgo.MaxBufferedRecords(100_000), kgo.MaxBufferedBytes(o.CommandBytes),
		kgo.RecordDeliveryTimeout(max(o.ProduceWithin, time.Second)),
		// A command that we gave up must not arrive later, after the caller has repeated it
		// under another id. A command that arrives twice is a duplicate.
		kgo.AllowIdempotentProduceCancellation(),
		kgo.RetryBackoffFn(func(tries int) time.Duration {
			return min(10*time.Millisecond<<min(tries, 6), 500*time.Millisecond)
		}),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.DisableClientMetrics(),
	}, o.Kafka...)
}

// commandLog writes commands to their topic.
type commandLog struct {
	kafka      *producer.Producer
	topic      string
	partitions int32
	within     time.Duration // how long to wait for an acknowledgement
	noRoom     func() string // why nothing can be written; "" while there is room
	throttled  func() string // that Kafka slows this process down because of a quota; "" if not
	tracing    *tracing.Tracer
}

// location is where a record was written, or why it was not.
type location struct {
	partition int32
	offset    int64
	err       error
}

// produce writes one command and waits until it is durable, within the bound.
func (l *commandLog) produce(ctx context.Context, c *command) location {
	done := make(chan location, 1)
	l.send(ctx, c, func(at location) { done <- at })
	return l.durable(done)
}

// send starts to write a command, and calls done with its location when it is durable.
// Successive commands keep their order. If Kafka is away for long, the buffer is full, and
// a command fails at once.
func (l *commandLog) send(ctx context.Context, c *command, done func(location)) {
	rec := c.record(l.topic, l.partitions)
	span := l.begin(c, rec)
	l.kafka.TryProduce(context.WithoutCancel(ctx), rec, func(r *kgo.Record, err error) {
		sent(span, r, err)
		done(location{r.Partition, r.Offset, l.late(err)})
	})
}

// sendRefusal writes a refusal for the engine to record as an event.
func (l *commandLog) sendRefusal(ctx context.Context, rec *topics.Record, done func(error)) {
	l.kafka.TryProduce(context.WithoutCancel(ctx), commandRecord(l.topic, l.partitions, rec),
		func(_ *kgo.Record, err error) { done(err) })
}

var errKafkaSilent = errors.New("kafka has not acknowledged in time")

// throttledError says that a quota of Kafka's is why a record was not acknowledged in time.
type throttledError struct {
	why string
	err error
}

func (e *throttledError) Error() string { return e.err.Error() + ": " + e.why }
func (e *throttledError) Unwrap() error { return e.err }

// late adds to an error that a record was not acknowledged in time that a quota is why, if it is.
func (l *commandLog) late(err error) error {
	if errors.Is(err, errKafkaSilent) || errors.Is(err, kgo.ErrRecordTimeout) || errors.Is(err, kgo.ErrMaxBuffered) {
		if why := l.throttled(); why != "" {
			return &throttledError{why, err}
		}
	}
	return err
}

// fullError says that the disk filled up while a command was on its way.
type fullError struct{ why string }

func (e *fullError) Error() string { return e.why }

// roomEvery is how often a command that waits for its acknowledgement checks whether the disk is full.
const roomEvery = 250 * time.Millisecond

// full is an error if nothing can be written.
func (l *commandLog) full() error {
	if why := l.noRoom(); why != "" {
		return &fullError{why}
	}
	return nil
}

// untilFull is a context that ends when the disk is full, too: what a broker without room is asked, it does not
// answer.
func (l *commandLog) untilFull(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for l.noRoom() == "" {
			if wait.For(ctx, roomEvery); ctx.Err() != nil {
				return
			}
		}
		cancel()
	}()
	return ctx, cancel
}

// acknowledged waits until done has something or is closed, within the bound. If the disk is full, it
// waits no longer: an acknowledgement would come when there is room.
func acknowledged[T any](l *commandLog, done <-chan T) (v T, err error) {
	late := time.NewTimer(l.within)
	defer late.Stop()
	return acknowledgedBefore(l, late.C, done)
}

// acknowledgedBefore is the same for one of several, which have one bound.
func acknowledgedBefore[T any](l *commandLog, late <-chan time.Time, done <-chan T) (v T, err error) {
	check := time.NewTicker(roomEvery)
	defer check.Stop()
	for {
		select {
		case v = <-done:
			return v, nil
		case <-late:
			return v, l.late(errKafkaSilent)
		case <-check.C:
			if err := l.full(); err != nil {
				return v, err
			}
		}
	}
}

// durable waits for a location, within the bound.
func (l *commandLog) durable(done <-chan location) location {
	at, err := acknowledged(l, done)
	switch {
	case err != nil:
		return location{err: err}
	case at.err != nil:
		at.err = fmt.Errorf("produce: %w", at.err)
	}
	return at
}

// begin starts the span of a command's record, and the record names that span as its
// parent. If the request is not recorded, the headers stay as they came.
func (l *commandLog) begin(c *command, r *kgo.Record) tracing.Span {
	if !c.trace.Sampled() {
		return tracing.Span{}
	}
	span := l.tracing.Begin(c.trace, "send "+r.Topic, tracing.Producer,
		tracing.Text("messaging.system", "kafka"), tracing.Text("messaging.operation.type", "send"),
		tracing.Text("messaging.destination.name", r.Topic),
		tracing.Text("waterclock.op", c.op.String()), tracing.Text("waterclock.trigger", string(c.key)))
	r.Headers = slices.DeleteFunc(r.Headers, func(h kgo.RecordHeader) bool { return h.Key == "traceparent" })
	r.Headers = append(r.Headers, kgo.RecordHeader{Key: "traceparent", Value: []byte(span.Parent().TraceParent())})
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
		span.Set(tracing.Number("messaging.destination.partition.id", int64(r.Partition)),
			tracing.Number("messaging.kafka.offset", r.Offset))
	}
	span.End()
}
