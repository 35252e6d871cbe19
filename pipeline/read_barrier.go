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
func (p *Partition) passed(ctx context.Context) (trigger.Instant, error) {
	b := &p.barrier
	now := p.now()
	r := b.Begin(now, p.timers.demand())
	for q := r.Next(time.Now()); q.Ask != barrier.Nothing; q = r.Next(time.Now()) {
		if err := p.answerBarrier(ctx, &r, q); err != nil {
			return 0, fmt.Errorf("barrier: %w", err)
		}
	}
	for _, held := range r.Released() {
		if !held.IsZero() {
			p.opts.Listener.BarrierHeld(p.id, time.Since(held))
		}
	}
	p.timers.ready.Release(b.Receipts.Through(), p.now())
	if !b.Commands.Reached() || !p.timers.anyReady(p.now()) {
		return 0, nil
	}
	return b.Commands.Through(), nil
}

// demand describes what is due.
func (ts *timers) demand() barrier.Demand {
	due, ok := ts.wheel.Next()
	return barrier.Demand{
		InWheel: ok, Wheel: trigger.Instant(due), Ready: ts.ready.Newest(), Held: ts.ready.HeldNewest(),
	}
}

// answerBarrier asks Kafka one question of the barrier.
func (p *Partition) answerBarrier(ctx context.Context, r *barrier.Round, q barrier.Question) error {
	if q.Ask == barrier.Ends {
		return p.askEnds(ctx, r)
	}
	at := kafkapart.TopicPartition{Topic: q.Input.Topic, Partition: p.id}
	stable, err := kafkapart.ListOffset(ctx, p.kafka.cl, at.Topic, p.id, kafkapart.ReadCommitted, kafkapart.Latest)
	if err != nil {
		return err
	}
	q, gaveUp := r.Stable(stable, time.Now())
	if q.Ask == barrier.Skip {
		next, err := p.kafka.reader.SkipHidden(ctx, at, q.Input.At())
		if err != nil {
			return err
		}
		gaveUp = r.Skipped(next, time.Now())
	}
	if gaveUp != nil {
		p.log.Warn("firing past a foreign open transaction", "topic", gaveUp.Topic, "stable_offset", gaveUp.Stable,
			"high_watermark", gaveUp.End, "held", gaveUp.Held)
	}
	return nil
}

// askEnds asks for the high watermarks. It reads the clock first: everything acknowledged
// until then is below the answer.
func (p *Partition) askEnds(ctx context.Context, r *barrier.Round) error {
	topics := []string{p.opts.Names.Commands(), p.opts.Names.Receipts()}
	asked := p.now()
	ends, err := kafkapart.ListOffsets(ctx, p.kafka.cl, topics, p.id, kafkapart.ReadUncommitted, kafkapart.Latest)
	if err != nil {
		return err
	}
	r.Ends(asked, ends[0], ends[1])
	return nil
}
