package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/pipeline/barrier"
	"github.com/waterclock/waterclock/trigger"
)

// passed returns the instant up to which timers may fire now. It returns 0 if unread
// commands or receipts come first. Package barrier decides what to ask.
func (c *consumer) passed(ctx context.Context, timers *timers) (trigger.Instant, error) {
	b := &c.barrier
	now := c.now()
	r := b.Begin(now, timers.demand())
	for q := r.Next(time.Now()); q.Ask != barrier.Nothing; q = r.Next(time.Now()) {
		if err := c.answerBarrier(ctx, &r, q); err != nil {
			return 0, fmt.Errorf("barrier: %w", err)
		}
	}
	for _, held := range r.Released() {
		if !held.IsZero() {
			c.opts.Listener.BarrierHeld(c.id, time.Since(held))
		}
	}
	timers.ready.Release(b.Receipts.Through(), c.now())
	if !b.Commands.Reached() ||
		!timers.anyReady(c.now()) && !timers.marks(b.Commands.Through()) && timers.expect == 0 {
		return 0, nil
	}
	return b.Commands.Through(), nil
}

// marks reports whether a watermark is due, and may say that everything up to through was read.
func (ts *timers) marks(through trigger.Instant) bool { return ts.mark != 0 && ts.mark <= through }

// demand describes what is due.
func (ts *timers) demand() barrier.Demand {
	due, ok := ts.wheel.Next()
	return barrier.Demand{
		InWheel: ok, Wheel: trigger.Instant(due), Ready: ts.ready.Newest(), Held: ts.ready.HeldNewest(),
		Mark: ts.mark, Expected: ts.expect,
	}
}

// answerBarrier asks Kafka one question of the barrier.
func (c *consumer) answerBarrier(ctx context.Context, r *barrier.Round, q barrier.Question) error {
	if q.Ask == barrier.Ends {
		return c.askEnds(ctx, r)
	}
	at := kafkapart.TopicPartition{Topic: q.Input.Topic, Partition: c.id}
	stable, err := kafkapart.ListOffset(ctx, c.kafka.cl, at.Topic, c.id, kafkapart.ReadCommitted, kafkapart.Latest)
	if err != nil {
		return err
	}
	q, gaveUp := r.Stable(stable, time.Now())
	if q.Ask == barrier.Skip {
		next, err := c.kafka.reader.SkipHidden(ctx, at, q.Input.At())
		if err != nil {
			return err
		}
		gaveUp = r.Skipped(next, time.Now())
	}
	if gaveUp != nil {
		c.log.Warn("firing past a foreign open transaction", "topic", gaveUp.Topic, "stable_offset", gaveUp.Stable,
			"high_watermark", gaveUp.End, "held", gaveUp.Held)
	}
	return nil
}

// askEnds asks for the high watermarks. It reads the clock first: everything acknowledged
// until then is below the answer.
func (c *consumer) askEnds(ctx context.Context, r *barrier.Round) error {
	topics := []string{c.opts.Names.Commands(), c.opts.Names.Receipts()}
	asked := c.now()
	ends, err := kafkapart.ListOffsets(ctx, c.kafka.cl, topics, c.id, kafkapart.ReadUncommitted, kafkapart.Latest)
	if err != nil {
		return err
	}
	r.Ends(asked, ends[0], ends[1])
	return nil
}
