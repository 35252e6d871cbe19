package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// committed stores what the brokers have accepted, and returns the errors.
func (w *worker) committed(resp *kmsg.OffsetCommitResponse, sent map[string]map[int32]kgo.EpochOffset) (first error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				first = errors.Join(first, err)
				continue
			}
			if part := w.parts[topicPartition{t.Topic, p.Partition}]; part != nil {
				part.tracker.committed = max(part.tracker.committed, sent[t.Topic][p.Partition].Offset)
			}
		}
	}
	return first
}

// assigned starts new partitions. Their events are held until the end of the receipts topic has
// been read.
func (w *worker) assigned(ctx context.Context, _ *kgo.Client, assigned map[string][]int32) {
	var parts []*partition
	w.mu.Lock()
	for topic, nums := range assigned {
		lane := laneNormal
		if topic == w.topic+highSuffix {
			lane = laneHigh
		}
		for _, num := range nums {
			p := newPartition(topic, num, lane)
			w.parts[topicPartition{topic, num}] = p
			parts = append(parts, p)
		}
	}
	w.mu.Unlock()
	if len(parts) > 0 {
		w.log.Info("partitions assigned", "partitions", fmt.Sprint(assigned))
		go w.loadLoop(ctx, parts)
	}
}

// revoked gives partitions up. Running handlers may finish within RevokeTimeout, and what is done
// is committed.
func (w *worker) revoked(ctx context.Context, _ *kgo.Client, revoked map[string][]int32) {
	parts := w.close(revoked)
	if len(parts) == 0 {
		return
	}
	if !w.waitIdle(ctx, parts) {
		w.abandon(parts)
		w.log.Warn("partitions moved before their handlers had finished; their events go to another worker",
			"partitions", fmt.Sprint(revoked))
	}
	w.commit(ctx, parts)
	w.forget(parts)
}

// lost is called when the group has given our partitions to others. Nothing may be committed for
// them.
func (w *worker) lost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	parts := w.close(lost)
	if len(parts) == 0 {
		return
	}
	w.log.Warn("the group has revoked partitions; their events go to another worker", "partitions", fmt.Sprint(lost))
	w.abandon(parts)
	w.forget(parts)
}

// close stops new handlers for partitions.
func (w *worker) close(which map[string][]int32) (parts []*partition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for topic, nums := range which {
		for _, num := range nums {
			if p := w.parts[topicPartition{topic, num}]; p != nil {
				p.gone = true
				parts = append(parts, p)
			}
		}
	}
	w.queue.purge()
	return parts
}

// waitIdle waits for RevokeTimeout at most, until no handler of the partitions runs, and all of
// their receipts are acknowledged. While the worker drains, drain ends the handlers, and waitIdle
// waits until it leaves the group: else the events would go to another worker while they are handled.
func (w *worker) waitIdle(ctx context.Context, parts []*partition) (idle bool) {
	late := time.Now().Add(w.revokeTimeout)
	w.waitUntil(ctx, w.revokeTimeout+w.drainTimeout, func() bool {
		idle = !slices.ContainsFunc(parts, func(p *partition) bool { return len(p.running) > 0 || p.pending > 0 })
		return idle || w.leaving || !w.ending && time.Now().After(late)
	})
	return idle
}

// waitUntil waits for a time at most. done is called with mu held.
func (w *worker) waitUntil(ctx context.Context, within time.Duration, done func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		w.mu.Lock()
		ok := done()
		w.mu.Unlock()
		if ok || ctx.Err() != nil {
			return ok
		}
		pause(ctx, 5*time.Millisecond)
	}
}

// abandon ends the contexts of handlers.
func (w *worker) abandon(parts []*partition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range parts {
		for it := range p.running {
			if it.cancel != nil {
				it.cancel(errAbandoned)
			}
		}
	}
}

// forget drops partitions. It drops a memory if no lane of its partition is left.
func (w *worker) forget(parts []*partition) {
	w.pausing.Lock()
	defer w.pausing.Unlock()
	resume := map[string][]int32{}
	w.mu.Lock()
	used := map[int32]bool{}
	for _, p := range parts {
		tp := topicPartition{p.topic, p.num}
		if w.parts[tp] == p {
			delete(w.parts, tp)
		}
		if p.paused {
			resume[p.topic] = append(resume[p.topic], p.num)
		}
	}
	for tp := range w.parts {
		used[tp.num] = true
	}
	for num := range w.memories {
		if !w.byKey && !used[num] {
			delete(w.memories, num)
		}
	}
	w.mu.Unlock()
	if len(resume) > 0 {
		w.consumer.ResumeFetchPartitions(resume) // otherwise it would still be paused when it is assigned again
	}
}
