package pipeline

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/pipeline/barrier"
	"github.com/waterclock/waterclock/pipeline/handover"
	"github.com/waterclock/waterclock/pipeline/recovery"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// resume continues where the last owner stopped (package handover).
func (p *Partition) resume(ctx context.Context, ids recovery.TopicIDs) error {
	left, err := p.left()
	if err != nil {
		return err
	}
	if err := p.opts.ownedBy(left.Guard.Group); err != nil {
		return err
	}
	how, err := p.decideResume(ctx, left, ids)
	if err != nil {
		return err
	}
	p.progress, p.guard, p.takenOver = how.Progress, how.Guard, how.TakenFrom != ""
	if p.takenOver {
		p.log.Info("taking the partition over", "from", how.TakenFrom, "its_last_turn", p.progress.At.String(), "term",
			p.progress.Term)
	}
	if how.ControlAnew {
		p.log.Warn("topic control was deleted and made again: calendars and tz database are those of the new topic",
			"topic", p.opts.Names.Control())
	}
	for _, f := range how.Follow {
		p.forward.reforward(p.progress.Forwarded, f.Topic, f.Start, f.Next)
		p.kafka.plan(f.Topic, p.id, f.Next)
	}
	if err := p.openQuotas(); err != nil {
		return err
	}
	p.countRetries()
	if err := p.openControl(ctx); err != nil {
		return err
	}
	var beside sync.WaitGroup
	beside.Go(func() { p.kafka.follow(ctx) })
	err = p.startWheel()
	beside.Wait()
	p.barrier = barrier.New(
		barrier.Start{Topic: p.opts.Names.Commands(), Offset: p.progress.NextCommand},
		barrier.Start{Topic: p.opts.Names.Receipts(), Offset: p.progress.NextReceipt}, p.opts.BarrierMaxHold,
		time.Now())
	return err
}

// left returns what the last owner left. It was restored just now, or stands in a store for
// which topic state had nothing new.
func (p *Partition) left() (handover.Left, error) {
	left := handover.Left{Progress: p.progress, Guard: p.guard}
	if left.Progress.Seq == 0 {
		raw, err := p.store.Meta(recovery.MetaProgress)
		if err != nil {
			return left, err
		}
		if raw != nil {
			pr, err := topics.DecodeProgress(raw)
			if err != nil {
				return left, fmt.Errorf("stored progress: %w", err)
			}
			left.Progress = *pr
		}
	}
	if left.Guard.Seq == 0 {
		raw, err := p.store.Meta(recovery.MetaGuard)
		if err != nil {
			return left, err
		}
		if raw != nil {
			g, err := topics.DecodeGuard(raw)
			if err != nil {
				return left, fmt.Errorf("stored guard: %w", err)
			}
			left.Guard = *g
		}
	}
	return left, nil
}

// decideResume asks Kafka the questions of package handover.
func (p *Partition) decideResume(ctx context.Context, left handover.Left, ids recovery.TopicIDs) (
	how handover.Result, err error,
) {
	found, err := p.findTopics(ctx, ids)
	if err != nil {
		return how, err
	}
	owner := handover.Owner{
		Partition: p.id, Group: p.opts.Group, Member: p.opts.InstanceID, Address: p.opts.Address, Now: p.now(),
	}
	r, err := handover.Begin(owner, left, found, func(offset int64, lost string) error {
		return p.opts.gap(p.id, offset, "%s", lost)
	})
	if err != nil {
		return how, err
	}
	for {
		q, err := r.Next()
		if err != nil || q == nil {
			return r.Result(), err
		}
		lost, err := p.kafka.lost(ctx, p.opts, q.Topic, p.id, q.Last)
		if err != nil {
			return how, err
		}
		if err := r.Lost(lost); err != nil {
			return how, err
		}
	}
}

// findTopics describes the inputs as they are.
func (p *Partition) findTopics(ctx context.Context, ids recovery.TopicIDs) (found handover.Found, err error) {
	inputs := []string{p.opts.Names.Commands(), p.opts.Names.Receipts()}
	starts, err := kafkapart.ListOffsets(ctx, p.kafka.cl, inputs, p.id, kafkapart.ReadUncommitted, kafkapart.Earliest)
	if err != nil {
		return found, err
	}
	ends, err := kafkapart.ListOffsets(ctx, p.kafka.cl, inputs, p.id, kafkapart.ReadUncommitted, kafkapart.Latest)
	if err != nil {
		return found, err
	}
	return handover.Found{
		Commands: handover.Log{Topic: inputs[0], ID: ids.Commands, Start: starts[0], End: ends[0]},
		Receipts: handover.Log{Topic: inputs[1], ID: ids.Receipts, Start: starts[1], End: ends[1]},
		State:    ids.State, Control: ids.Control,
	}, nil
}

func (p *Partition) openQuotas() error {
	p.quotas = newQuotas(p.opts)
	if p.quotas == nil {
		return nil
	}
	sn := p.store.Snapshot()
	defer sn.Close()
	if err := p.quotas.count(sn); err != nil {
		return fmt.Errorf("count what is pending: %w", err)
	}
	return nil
}

// startWheel starts the wheel at the stored cursor; poll fills it.
func (p *Partition) startWheel() error {
	raw, err := p.store.Meta(recovery.MetaCursor)
	if err != nil {
		return err
	}
	p.timers.store, p.timers.hydrated = p.store, statestore.DueKey{Due: trigger.Instant(recovery.ToNumber(raw) - 1)}
	return p.hydrate()
}
