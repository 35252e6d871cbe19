package pipeline

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// resume goes on where progress says.
func (p *Partition) resume(ctx context.Context, ids [2][16]byte) error {
	if p.progress.Seq == 0 { // a quiet store: nothing new was in topic state
		raw, err := p.store.Meta(metaProgress)
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
	if err := p.sameTopics(ids); err != nil {
		return err
	}
	if away := p.now().Sub(p.progress.At); p.progress.Seq > 0 && away > compactionLag && !p.opts.AcceptGap {
		return fmt.Errorf("%w: nobody ran partition %d for %s, longer than topic %s is kept from compaction (7 d): registers may be gone under later commands. Start with --accept-gap to go on", ErrGap, p.id, away.Round(time.Hour), p.opts.Names.Commands())
	}
	p.progress.Term++
	p.progress.Owner, p.progress.Member = p.opts.Address, p.opts.InstanceID
	p.progress.CommandsID, p.progress.StateID = ids[0], ids[1]
	for _, name := range p.progress.Channels {
		p.channels[name] = true
	}
	if err := p.followInputs(ctx); err != nil {
		return err
	}
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
	p.barrier.start(positions{p.progress.NextCommand, p.progress.NextReceipt})
	return err
}

// compactionLag is min.compaction.lag.ms of topic commands: what is younger is
// all there.
const compactionLag = 7 * 24 * time.Hour

// sameTopics refuses a commands topic that was deleted and made again: its
// offsets mean something else.
func (p *Partition) sameTopics(ids [2][16]byte) error {
	if p.progress.Seq > 0 && p.progress.CommandsID != ids[0] && !p.opts.AcceptGap {
		return fmt.Errorf("%w: topic %s was deleted and made again; commands in the old one are lost. Start with --accept-gap to go on", ErrGap, p.opts.Names.Commands())
	}
	if p.progress.CommandsID != ids[0] {
		p.progress.NextCommand, p.progress.Applied, p.progress.Forwarded = 0, nil, nil
	}
	return nil
}

// followInputs plans to read commands and receipts from progress on, and sends
// again what had not been forwarded when progress was written.
func (p *Partition) followInputs(ctx context.Context) error {
	inputs := []string{p.opts.Names.Commands(), p.opts.Names.Receipts()}
	starts, err := listOffsets(ctx, p.kafka.cl, inputs, p.id, readUncommitted, earliest)
	if err != nil {
		return err
	}
	ends, err := listOffsets(ctx, p.kafka.cl, inputs, p.id, readUncommitted, latest)
	if err != nil {
		return err
	}
	for i, next := range []*int64{&p.progress.NextCommand, &p.progress.NextReceipt} {
		if err := p.followFrom(ctx, inputs[i], next, starts[i], ends[i]); err != nil {
			return err
		}
	}
	return nil
}

// followFrom is followInputs for a topic that is there from start to end.
func (p *Partition) followFrom(ctx context.Context, topic string, next *int64, start, end int64) error {
	if *next < start {
		if p.progress.Seq > 0 && *next > 0 && !p.opts.AcceptGap {
			return fmt.Errorf("%w: %s/%d begins at %d, but was read only up to %d. Start with --accept-gap to go on without what is lost", ErrGap, topic, p.id, start, *next)
		}
		*next = start
	}
	if *next > end {
		if !p.opts.AcceptGap {
			return fmt.Errorf("%w: %s/%d ends at %d, but was read up to %d: the topic was made again, or lost its end. Start with --accept-gap to go on from its end", ErrGap, topic, p.id, end, *next)
		}
		*next = end
	}
	if err := p.reforward(ctx, topic, start, *next); err != nil {
		return fmt.Errorf("forward again: %w", err)
	}
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
	raw, err := p.store.Meta(metaCursor)
	if err != nil {
		return err
	}
	p.hydrated = statestore.DueKey{Due: trigger.Instant(toNumber(raw) - 1)}
	return p.hydrate()
}

func number(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func toNumber(b []byte) int64 {
	if len(b) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}
