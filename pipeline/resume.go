package pipeline

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/pipeline/barrier"
	"github.com/waterclock/waterclock/pipeline/recovery"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// resume goes on where progress says.
func (p *Partition) resume(ctx context.Context, ids recovery.TopicIDs) error {
	if p.progress.Seq == 0 { // a quiet store: nothing new was in topic state
		raw, err := p.store.Meta(recovery.MetaProgress)
		if err != nil {
			return err
		}
		if raw != nil {
			pr, err := topics.DecodeProgress(raw)
			if err != nil {
				return fmt.Errorf("stored progress: %w", err)
			}
			p.progress = *pr
		}
	}
	if err := p.openGuard(); err != nil {
		return err
	}
	if err := p.sameTopics(ids); err != nil {
		return err
	}
	if away := p.now().Sub(p.progress.At); p.progress.Seq > 0 && away > compactionLag {
		err := p.opts.gap(p.id, p.progress.NextCommand,
			"nobody ran partition %d for %s, longer than topic %s is kept from compaction (7 d): "+
				"registers may be gone under later commands", p.id, away.Round(time.Hour), p.opts.Names.Commands())
		if err != nil {
			return err
		}
	}
	p.progress.Term++
	if last := p.progress.Member; p.progress.Seq > 0 && last != p.opts.InstanceID {
		p.takenOver = true
		p.log.Info("taking the partition over", "from", last, "its_last_turn", p.progress.At.String(), "term",
			p.progress.Term)
	}
	p.progress.Owner, p.progress.Member = p.opts.Address, p.opts.InstanceID
	p.progress.CommandsID, p.progress.StateID = ids.Commands, ids.State
	p.guard.ReceiptsID, p.guard.ControlID, p.guard.Group = ids.Receipts, ids.Control, p.opts.Group
	p.progress.Channels = nil // of an engine of before: topics say which there are
	if err := p.followInputs(ctx); err != nil {
		return err
	}
	p.guard.Seq = 0 // the first turn writes it, whatever it changes
	if err := p.openQuotas(); err != nil {
		return err
	}
	if err := p.openControl(ctx); err != nil {
		return err
	}
	var beside sync.WaitGroup
	beside.Go(func() { p.kafka.follow(ctx) })
	err := p.startWheel()
	beside.Wait()
	p.barrier = barrier.New(
		barrier.Start{Topic: p.opts.Names.Commands(), Offset: p.progress.NextCommand},
		barrier.Start{Topic: p.opts.Names.Receipts(), Offset: p.progress.NextReceipt}, p.opts.BarrierMaxHold,
		time.Now())
	return err
}

// compactionLag is min.compaction.lag.ms of topic commands: what is younger is
// all there.
const compactionLag = 7 * 24 * time.Hour

// sameTopics refuses a commands topic that was deleted and made again: its
// offsets mean something else.
func (p *Partition) sameTopics(ids recovery.TopicIDs) error {
	if p.progress.CommandsID != ids.Commands {
		if p.progress.Seq > 0 {
			err := p.opts.gapRecreated(p.id, ids.Commands,
				"topic %s was deleted and made again; commands in the old one are lost", p.opts.Names.Commands())
			if err != nil {
				return err
			}
		}
		p.progress.NextCommand, p.progress.Applied, p.progress.Forwarded = 0, nil, nil
		p.guard.Commands, p.guard.Applied = topics.LastRead{}, nil
	}
	return p.sameSideTopics(ids)
}

// sameSideTopics is sameTopics for receipts and control: their offsets begin
// anew, too. What a receipts topic held that was deleted is lost, which the
// operator has to know; settings that are gone are put again.
func (p *Partition) sameSideTopics(ids recovery.TopicIDs) error {
	was := &p.guard
	if was.ReceiptsID != ([16]byte{}) && was.ReceiptsID != ids.Receipts {
		err := p.opts.gapRecreated(p.id, ids.Receipts,
			"topic %s was deleted and made again; receipts in the old one are lost", p.opts.Names.Receipts())
		if err != nil {
			return err
		}
		p.progress.NextReceipt, was.Receipts = 0, topics.LastRead{}
		p.forgetReceiptOrigins()
	}
	if was.ControlID != ([16]byte{}) && was.ControlID != ids.Control {
		p.log.Warn("topic control was deleted and made again: calendars and tz database are as the new one has them",
			"topic", p.opts.Names.Control())
		p.progress.NextControl = 0
	}
	return nil
}

// forgetReceiptOrigins drops what was known of offsets of receipts elsewhere.
func (p *Partition) forgetReceiptOrigins() {
	forget := func(m map[int32]int64) map[int32]int64 {
		m = maps.Clone(m)
		maps.DeleteFunc(m, func(key int32, _ int64) bool { return key < 0 })
		return m
	}
	p.progress.Applied, p.progress.Forwarded = forget(p.progress.Applied), forget(p.progress.Forwarded)
}

// followInputs plans to read commands and receipts from progress on, and has
// sent again what had not been forwarded when progress was written.
func (p *Partition) followInputs(ctx context.Context) error {
	inputs := []string{p.opts.Names.Commands(), p.opts.Names.Receipts()}
	starts, err := kafkapart.ListOffsets(ctx, p.kafka.cl, inputs, p.id, kafkapart.ReadUncommitted, kafkapart.Earliest)
	if err != nil {
		return err
	}
	ends, err := kafkapart.ListOffsets(ctx, p.kafka.cl, inputs, p.id, kafkapart.ReadUncommitted, kafkapart.Latest)
	if err != nil {
		return err
	}
	last := []*topics.LastRead{&p.guard.Commands, &p.guard.Receipts}
	for i, next := range []*int64{&p.progress.NextCommand, &p.progress.NextReceipt} {
		if err := p.sameLog(ctx, inputs[i], last[i], next, starts[i]); err != nil {
			return err
		}
		if err := p.followFrom(inputs[i], next, starts[i], ends[i]); err != nil {
			return err
		}
	}
	return nil
}

// followFrom is followInputs for a topic that is there from start to end.
func (p *Partition) followFrom(topic string, next *int64, start, end int64) error {
	if *next < start {
		if p.progress.Seq > 0 { // also where nothing had come yet: an owner before us has seen the log begin
			if err := p.opts.gap(p.id, start, "%s/%d begins at %d, but was read only up to %d", topic, p.id, start,
				*next); err != nil {
				return err
			}
		}
		*next = start
	}
	if *next > end {
		err := p.opts.gap(p.id, end,
			"%s/%d ends at %d, but was read up to %d: the topic was made again, or lost its end", topic, p.id, end,
			*next)
		if err != nil {
			return err
		}
		*next = end
	}
	p.forward.reforward(p.progress.Forwarded, topic, start, *next)
	p.kafka.plan(topic, p.id, *next)
	return nil
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

// startWheel begins the wheel at the stored cursor; poll fills it.
func (p *Partition) startWheel() error {
	raw, err := p.store.Meta(recovery.MetaCursor)
	if err != nil {
		return err
	}
	p.timers.store, p.timers.hydrated = p.store, statestore.DueKey{Due: trigger.Instant(recovery.ToNumber(raw) - 1)}
	return p.hydrate()
}
