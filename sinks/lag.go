package sinks

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/wait"
)

// watchLag measures in its own goroutine. It must not wait for the reader, which blocks while the
// sink is unavailable.
func watchLag(ctx context.Context, client *kgo.Client, every time.Duration, failed func(error),
	measure func(context.Context, *kadm.Client) error,
) {
	admin := kadm.NewClient(client)
	wait.Every(ctx, every, func() {
		within, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if err := measure(within, admin); err != nil && ctx.Err() == nil {
			failed(err)
		}
	})
}

// measureLag reports how far the owned partitions are behind. It compares with the last stable
// offset, because records of open transactions cannot be projected yet.
func (p *Projector) measureLag(ctx context.Context, admin *kadm.Client) error {
	if err := p.learnPositions(ctx, admin); err != nil {
		return err
	}
	ends, err := admin.ListCommittedOffsets(ctx, p.opts.Topic)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for partition, next := range p.owned {
		if end, ok := ends.Lookup(p.opts.Topic, partition); ok && end.Err == nil && next != unknown {
			p.opts.Hooks.Lag(partition, max(0, end.Offset-next))
		}
	}
	return nil
}

// learnPositions finds the start of partitions of which no record has come yet: the group's
// offset, or the sink's, or else the log's beginning.
func (p *Projector) learnPositions(ctx context.Context, admin *kadm.Client) error {
	if !p.anyUnknown() {
		return nil
	}
	starts, err := admin.ListStartOffsets(ctx, p.opts.Topic)
	if err != nil {
		return err
	}
	at, err := p.positions(ctx, admin)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for partition, next := range p.owned {
		if start, ok := starts.Lookup(p.opts.Topic, partition); ok && start.Err == nil && next == unknown {
			p.owned[partition] = max(start.Offset, at[partition])
		}
	}
	return nil
}

func (p *Projector) positions(ctx context.Context, admin *kadm.Client) (map[int32]int64, error) {
	at := map[int32]int64{}
	if p.sink.OwnsOffsets() {
		progress, err := p.sink.Progress(ctx)
		for partition, pr := range progress {
			at[partition] = pr.Next
		}
		return at, err
	}
	offsets, err := admin.FetchOffsets(ctx, p.opts.Group)
	offsets.Each(func(o kadm.OffsetResponse) {
		if o.Topic == p.opts.Topic {
			at[o.Partition] = o.At
		}
	})
	return at, err
}

func (p *Projector) anyUnknown() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, next := range p.owned {
		if next == unknown {
			return true
		}
	}
	return false
}
