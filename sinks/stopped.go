package sinks

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// deliver applies a batch and commits it. If the sink refuses it, it is applied partition by
// partition. Partitions that are refused stop, and the others continue. After ctx has ended it
// does nothing; the next owner applies the batch.
func (p *Projector) deliver(ctx context.Context, whole batch) {
	running := p.withoutStopped(whole)
	if len(running.events) == 0 || ctx.Err() != nil {
		return
	}
	err := p.apply(ctx, running.events)
	if err == nil {
		p.commit(ctx, running)
		return
	}
	if !errors.Is(err, ErrRefused) {
		return // ctx has ended
	}
	parts := running.byPartition()
	for _, partition := range slices.Sorted(maps.Keys(parts)) {
		part := parts[partition]
		if len(parts) > 1 {
			err = p.apply(ctx, part.events)
		}
		switch {
		case err == nil:
			p.commit(ctx, part)
		case errors.Is(err, ErrRefused):
			p.stop(partition, part, err)
		}
	}
}

// byPartition divides a batch into one for each partition.
func (b batch) byPartition() map[int32]batch {
	parts := map[int32]batch{}
	for _, e := range b.events {
		part, ok := parts[e.Partition]
		if !ok {
			part.heads = map[int32]*kgo.Record{e.Partition: b.heads[e.Partition]}
		}
		part.events = append(part.events, e)
		parts[e.Partition] = part
	}
	return parts
}

// withoutStopped removes the records of stopped partitions and appends them to those that wait.
// They were fetched before the partitions stopped.
func (p *Projector) withoutStopped(b batch) batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.stopped) == 0 {
		return b
	}
	running := batch{heads: maps.Clone(b.heads)}
	for partition, part := range b.byPartition() {
		if s := p.stopped[partition]; s != nil {
			s.waiting = append(s.waiting, part)
			delete(running.heads, partition)
		}
	}
	running.events = slices.DeleteFunc(slices.Clone(b.events),
		func(e EventRecord) bool { return p.stopped[e.Partition] != nil })
	return running
}

// stop ends the fetching of a partition, unless it was revoked meanwhile.
func (p *Projector) stop(partition int32, part batch, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.owned[partition]; !ok {
		return
	}
	p.stopped.add(partition, []batch{part}, p.opts.RetryMin)
	p.client.PauseFetchPartitions(map[string][]int32{p.opts.Topic: {partition}})
	p.report(partition, err)
}

// report calls the hook and logs the stopped partitions. The caller holds the lock.
func (p *Projector) report(partition int32, err error) {
	p.opts.Hooks.Stopped(partition, err)
	if now := time.Now(); now.Sub(p.reported) >= reportEvery {
		p.reported = now
		p.opts.Logger.Error("history: the store refuses rows; these partitions wait until that is fixed, and no "+
			"event is skipped",
			"partitions", slices.Sorted(maps.Keys(p.stopped)), "err", err)
	}
}

// resume fetches a partition once more. The caller holds the lock.
func (p *Projector) resume(partition int32) {
	delete(p.stopped, partition)
	p.client.ResumeFetchPartitions(map[string][]int32{p.opts.Topic: {partition}})
	p.opts.Hooks.Stopped(partition, nil)
}

// untilRetry bounds a poll by the next try of a stopped partition.
func (p *Projector) untilRetry(ctx context.Context) (context.Context, context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped.untilRetry(ctx)
}

// retryStopped retries the partitions whose wait is over.
func (p *Projector) retryStopped(ctx context.Context) {
	p.mu.Lock()
	due := p.stopped.due()
	p.mu.Unlock()
	for partition, s := range due {
		p.retry(ctx, partition, s)
	}
}

// retry applies the waiting records of a partition. The partition continues once all of them are
// durable.
func (p *Projector) retry(ctx context.Context, partition int32, s *stop[batch]) {
	for len(s.waiting) > 0 && p.isStopped(partition, s) {
		err := p.apply(ctx, s.waiting[0].events)
		if errors.Is(err, ErrRefused) {
			p.mu.Lock()
			s.backOff(p.opts.RetryMax)
			if p.stopped[partition] == s {
				p.report(partition, err)
			}
			p.mu.Unlock()
			return
		}
		if err != nil || !p.isStopped(partition, s) {
			return // ctx has ended, or another member owns it now
		}
		p.commit(ctx, s.waiting[0])
		s.waiting = s.waiting[1:]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped[partition] == s {
		p.resume(partition)
		p.opts.Logger.Info("history: the store accepts rows again", "partition", partition)
	}
}

// isStopped reports whether s is still the partition's stop. The partition may have been revoked,
// and assigned once more, meanwhile.
func (p *Projector) isStopped(partition int32, s *stop[batch]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped[partition] == s
}
