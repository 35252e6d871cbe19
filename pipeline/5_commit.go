package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/pipeline/recovery"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// commit makes the turn durable: state and progress, then the end of the transaction, and
// only then the store.
func (p *Partition) commit(ctx context.Context, t *turn) error {
	p.changes.Reset()
	begin := time.Now()
	if err := p.writeState(ctx, t); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	t.firing.wrote(time.Since(begin), len(t.order))
	if err := p.mender.mend(t); err != nil {
		return fmt.Errorf("mend: %w", err)
	}
	last, err := p.writeProgress(ctx, t)
	if err != nil {
		return fmt.Errorf("write progress: %w", err)
	}
	p.step(StepFlush)
	if err := p.kafka.flush(ctx, p.dueTopics.Spares); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	// before any reader sees what the turn fires
	if err := p.stateLog.checkAlone(ctx, t.firstState.Offset, last.Offset); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if err := p.beforeEnd(t, last); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	p.step(StepEnd)
	start := time.Now()
	acknowledged, wall := start, p.opts.Now()
	p.view.end()
	if err := p.kafka.commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	t.traced.end(t, "")
	p.step(StepCommitted)
	if err := p.storeTurn(t, last); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	p.step(StepStored)
	p.mender.committed(t)
	p.progress, p.announced = t.progress, true
	p.stateLog.committed(t, last.Offset)
	p.watermarks.committed(t)
	p.done.unknown.add(t)
	p.kept.health.Recovered(func(topic string) bool {
		return t.manifest.byTopic[topic] != nil || topic == p.watermarks.topic && t.watermark != 0
	})
	p.committed = time.Now()
	if p.clock.stale(wall) {
		p.kept.Step(stepCompareClock)
		if err := p.clock.ask(ctx, last.Offset, acknowledged, wall); err != nil {
			return err
		}
	}
	p.pace.budget.committed(p.committed, p.committed.Sub(start))
	p.batch.turned(t.firing, p.committed.Sub(p.pace.start))
	if p.replan != nil {
		p.replan.batch.turned(t.moved, time.Since(p.pace.start))
	}
	p.opts.Listener.Turn(p.id, t.records, time.Since(start))
	p.quota.Committed()
	p.kept.late.Count(int64(t.now), t.fired)
	p.kept.live.Commit(int64(t.now), t.live)
	for _, limit := range t.overQuota {
		p.opts.Listener.QuotaRejected(limit)
	}
	p.forward.warnLost(t.lost)
	for _, d := range t.delivered {
		p.opts.Listener.Delivered(d.channel, d.outcome)
	}
	for _, d := range t.dead {
		p.opts.Listener.DeadLettered(d.channel, d.code)
	}
	for _, channel := range t.timedOut {
		p.opts.Listener.ReceiptTimedOut(channel)
	}
	p.view.behind.check(p.committed, t.now, &p.timers.ready)
	p.view.publish(t.decisions, p.status(), p.consumer.barrier.Commands.At(), p.timers.next())
	return nil
}

// writeState produces the final state of every trigger that the turn touched, in the order
// of first touch. It collects the same changes for the store.
func (p *Partition) writeState(ctx context.Context, t *turn) error {
	for _, e := range t.order {
		if !e.dirty {
			continue
		}
		r := p.record(p.names.state, e.key)
		if e.state == nil {
			p.produce(ctx, t, r) // a tombstone: the trigger is forgotten
			if e.stored {
				p.changes.Delete(e.before)
			}
			continue
		}
		value, err := p.scratch.encode(func(b []byte) ([]byte,
			error,
		) {
			return topics.AppendStateAs(b, e.state, p.writes(t, e.state))
		})
		if err != nil {
			return fmt.Errorf("encode state of %q: %w", e.key, err)
		}
		r.Value = value
		p.produce(ctx, t, r)
		p.changes.Put(e.old(), recovery.Row(e.state, e.timers, value))
	}
	return nil
}

// writes chooses the format of a state. A newer format is used if every member reads it, or
// if this partition has such states already.
func (p *Partition) writes(t *turn, s *trigger.State) topics.Format {
	f := min(topics.FormatOf(s), max(p.opts.writes(), p.progress.Format))
	t.progress.Format = max(t.progress.Format, f)
	return f
}

// writeProgress produces the progress record. It is the last of the turn, so a reader that
// sees it has seen the whole turn.
func (p *Partition) writeProgress(ctx context.Context, t *turn) (last *kgo.Record, err error) {
	t.progress.EventUS = t.micros
	t.progress.At = max(p.progress.At, t.now) // while clocks disagree, now is the earlier of the two
	t.progress.Forwarded = p.forward.owed()
	if r := p.watermarks.record(t, p.reached()); r != nil {
		t.records++
		p.kafka.produce(ctx, r)
	}
	t.progress.Manifest = t.manifest.counts()
	if t.encoded, err = topics.AppendProgress(nil, &t.progress); err != nil {
		return nil, err
	}
	guard, err := p.stateLog.guardRecord(t)
	if err != nil {
		return nil, err
	}
	last = &kgo.Record{Topic: p.names.state, Partition: p.id, Key: topics.KeyProgress, Value: t.encoded}
	for _, r := range []*kgo.Record{guard, last} {
		if r != nil {
			t.firstState = cmp.Or(t.firstState, r)
			p.kafka.produce(ctx, r)
		}
	}
	return last, nil
}

// reached says how far the partition is.
func (p *Partition) reached() reached {
	return reached{timers: &p.timers, inputs: p.consumer.barrier.Commands.Reached(), clockHeld: p.clock.held}
}

// storeTurn applies the turn to the store, without fsync: Kafka is the log.
func (p *Partition) storeTurn(t *turn, last *kgo.Record) error {
	p.changes.SetMeta(recovery.MetaProgress, t.encoded)
	p.changes.SetMeta(recovery.MetaProgressAt, recovery.TurnAt(last.Offset, t.progress.Seq))
	if t.encodedGuard != nil {
		p.changes.SetMeta(recovery.MetaGuard, t.encodedGuard)
	}
	p.changes.SetMeta(recovery.MetaPosition, recovery.Number(last.Offset+1))
	p.changes.SetMeta(recovery.MetaCursor, recovery.Number(int64(p.mender.cursor(t))))
	return p.changes.Commit()
}
