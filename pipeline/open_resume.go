package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/pipeline/barrier"
	"github.com/waterclock/waterclock/pipeline/handover"
	"github.com/waterclock/waterclock/pipeline/quota"
	"github.com/waterclock/waterclock/pipeline/recovery"
	"github.com/waterclock/waterclock/pipeline/watermark"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// resume continues where the last owner stopped (package handover).
func (o *opening) resume(ctx context.Context, lastWatermark <-chan watermark.Last) error {
	left, err := o.left()
	if err != nil {
		return err
	}
	if err := o.opts.ownedBy(left.Guard.Group); err != nil {
		return err
	}
	how, err := o.decideResume(ctx, left)
	if err != nil {
		return err
	}
	o.progress, o.stateLog.guard, o.takenOver = how.Progress, how.Guard, how.TakenFrom != ""
	if o.takenOver {
		o.log.Info("taking the partition over", "from", how.TakenFrom, "its_last_turn", o.progress.At.String(), "term",
			o.progress.Term)
	}
	if how.ControlAnew {
		o.log.Warn("topic control was deleted and made again: calendars and tz database are those of the new topic",
			"topic", o.opts.Names.Control())
	}
	for _, f := range how.Follow {
		o.forward.reforward(o.progress.Forwarded, f.Topic, f.Start, f.Next)
		o.kafka.plan(f.Topic, o.id, f.Next)
	}
	if err := o.openQuotas(ctx); err != nil {
		return err
	}
	o.countRetries()
	o.resumeWatermarks(<-lastWatermark)
	if err := o.openControl(ctx); err != nil {
		return err
	}
	var beside sync.WaitGroup
	beside.Go(func() { o.kafka.follow(ctx) })
	err = o.startWheel()
	beside.Wait()
	o.consumer.barrier = barrier.New(
		barrier.Start{Topic: o.opts.Names.Commands(), Offset: o.progress.NextCommand},
		barrier.Start{Topic: o.opts.Names.Receipts(), Offset: o.progress.NextReceipt}, o.opts.BarrierMaxHold,
		time.Now())
	return err
}

// left returns what the last owner left. It was restored just now, or stands in a store for
// which topic state had nothing new.
func (o *opening) left() (handover.Left, error) {
	left := handover.Left{Progress: o.progress, Guard: o.stateLog.guard}
	if left.Progress.Seq == 0 {
		if err := readMeta(o.store, recovery.MetaProgress, topics.DecodeProgress, &left.Progress); err != nil {
			return left, fmt.Errorf("stored progress: %w", err)
		}
	}
	if left.Guard.Seq == 0 {
		if err := readMeta(o.store, recovery.MetaGuard, topics.DecodeGuard, &left.Guard); err != nil {
			return left, fmt.Errorf("stored guard: %w", err)
		}
	}
	return left, nil
}

// readMeta reads what a store keeps under a name; into stays as it is if there is nothing.
func readMeta[T any](store *statestore.Store, name string, decode func([]byte) (*T, error), into *T) error {
	raw, err := store.Meta(name)
	if err != nil || raw == nil {
		return err
	}
	v, err := decode(raw)
	if err == nil {
		*into = *v
	}
	return err
}

// decideResume asks Kafka the questions of package handover.
func (o *opening) decideResume(ctx context.Context, left handover.Left) (
	how handover.Result, err error,
) {
	found, err := o.findTopics(ctx)
	if err != nil {
		return how, err
	}
	owner := handover.Owner{
		Partition: o.id, Group: o.opts.Group, Member: o.opts.InstanceID, Address: o.opts.Address, Now: o.now(),
	}
	r, err := handover.Begin(owner, left, found, func(offset int64, lost string) error {
		return o.opts.gap(o.id, offset, "%s", lost)
	})
	if err != nil {
		return how, err
	}
	for {
		q, err := r.Next()
		if err != nil || q == nil {
			return r.Result(), err
		}
		lost, err := o.kafka.lost(ctx, o.opts, q.Topic, o.id, q.Last)
		if err != nil {
			return how, err
		}
		if err := r.Lost(lost); err != nil {
			return how, err
		}
	}
}

// findTopics describes the inputs as they are.
func (o *opening) findTopics(ctx context.Context) (found handover.Found, err error) {
	inputs := []string{o.opts.Names.Commands(), o.opts.Names.Receipts()}
	starts, err := kafkapart.ListOffsets(ctx, o.kafka.cl, inputs, o.id, kafkapart.ReadUncommitted, kafkapart.Earliest)
	if err != nil {
		return found, err
	}
	ends, err := kafkapart.ListOffsets(ctx, o.kafka.cl, inputs, o.id, kafkapart.ReadUncommitted, kafkapart.Latest)
	if err != nil {
		return found, err
	}
	return handover.Found{
		Commands: handover.Log{Topic: inputs[0], ID: o.ids.Commands, Start: starts[0], End: ends[0]},
		Receipts: handover.Log{Topic: inputs[1], ID: o.ids.Receipts, Start: starts[1], End: ends[1]},
		State:    o.ids.State, Control: o.ids.Control,
	}, nil
}

func (o *opening) openQuotas(ctx context.Context) error {
	o.quota = o.opts.quotas.Share()
	if o.quota == nil {
		return nil
	}
	if !o.opts.NoMaxPending {
		sn := o.store.Snapshot()
		defer sn.Close()
		if err := countPending(ctx, sn, o.quota); err != nil {
			return fmt.Errorf("count what is pending: %w", err)
		}
	}
	o.quota.Join()
	return nil
}

// countPending counts the triggers of tenants whose number is limited. Nothing fires meanwhile,
// so it reads no state: millions of searches would take minutes.
func countPending(ctx context.Context, sn *statestore.Snapshot, share *quota.Share) error {
	err := sn.ScanPending(func(key trigger.Key) bool {
		share.Moved(key.Tenant(), 0, trigger.Pending)
		return ctx.Err() == nil
	})
	return cmp.Or(err, ctx.Err())
}

// startWheel starts the wheel at the stored cursor, by the brokers' clock; poll fills it.
func (o *opening) startWheel() error {
	raw, err := o.store.Meta(recovery.MetaCursor)
	if err != nil {
		return err
	}
	o.timers.newWheel(o.now())
	o.timers.store, o.timers.hydrated = o.store, statestore.DueKey{Due: trigger.Instant(recovery.ToNumber(raw) - 1)}
	return o.hydrate()
}
