package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// producerOptions make a client whose acknowledgement means durable: acks=all,
// idempotent, no lingering. The partition is computed here, as Kafka's Java
// client does it.
func producerOptions(o *Options) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
		kgo.MaxBufferedRecords(100_000),
		kgo.RecordDeliveryTimeout(max(o.ProduceWithin, time.Second)),
		// What we gave up on must not arrive later, when the caller has
		// repeated it under another id. Sent twice, a command is a duplicate.
		kgo.AllowIdempotentProduceCancellation(),
		kgo.RetryBackoffFn(func(tries int) time.Duration { return min(10*time.Millisecond<<min(tries, 6), 500*time.Millisecond) }),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.DisableClientMetrics(),
	}, o.Kafka...)
}

// place is where a command stands in the log.
type place struct {
	partition int32
	offset    int64
	err       error
}

// send begins to write a command; done gets its place once it is durable.
// Commands sent one after the other keep their order. With Kafka away for long
// the buffer is full, and a command fails at once.
func (s *Server) send(ctx context.Context, c *command, done func(place)) {
	rec := c.record(s.opts.Names.Commands(), s.opts.Partitions)
	span := s.sending(c, rec)
	s.kafka.TryProduce(context.WithoutCancel(ctx), rec, func(r *kgo.Record, err error) {
		sent(span, r, err)
		done(place{r.Partition, r.Offset, err})
	})
}

// produce sends one command that is waited for.
func (s *Server) produce(ctx context.Context, c *command) <-chan place {
	done := make(chan place, 1)
	s.send(ctx, c, func(at place) { done <- at })
	return done
}

var errKafkaSilent = errors.New("kafka has not acknowledged in time")

// durable waits for a place, within the bound.
func (s *Server) durable(done <-chan place) place {
	late := time.NewTimer(s.opts.ProduceWithin)
	defer late.Stop()
	select {
	case at := <-done:
		if at.err != nil {
			at.err = fmt.Errorf("produce: %w", at.err)
		}
		return at
	case <-late.C:
		return place{err: errKafkaSilent}
	}
}
