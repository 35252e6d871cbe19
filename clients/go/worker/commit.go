package worker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// commitWithin bounds one commit.
const commitWithin = 10 * time.Second

func (w *worker) commitLoop(ctx context.Context) {
	every(ctx, w.commitInterval, func() {
		w.commit(ctx, w.assignedParts())
		w.metrics.Load(w.load())
	})
}

func (w *worker) assignedParts() []*partition {
	w.mu.Lock()
	defer w.mu.Unlock()
	parts := make([]*partition, 0, len(w.parts))
	for _, p := range w.parts {
		parts = append(parts, p)
	}
	return parts
}

// commit commits the offsets up to which everything is done. It ignores errors: the next commit
// includes these offsets, and the group tells a worker that is no longer a member.
func (w *worker) commit(ctx context.Context, parts []*partition) {
	w.committing.Lock()
	defer w.committing.Unlock()
	offsets := w.toCommit(parts)
	if len(offsets) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, commitWithin)
	defer cancel()
	failed := func(err error) {
		w.metrics.CommitFailed()
		w.failing.log(w.log, "cannot commit offsets; retrying", "group", w.group+"."+w.channel, "error", err)
	}
	w.consumer.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest,
		resp *kmsg.OffsetCommitResponse, err error,
	) {
		if err != nil {
			failed(err)
			return
		}
		if err := w.committed(resp, offsets); err != nil {
			failed(err)
		}
	})
}

// toCommit leaves out partitions that no longer belong to this worker. A commit for one could
// overwrite the new owner's commit.
func (w *worker) toCommit(parts []*partition) map[string]map[int32]kgo.EpochOffset {
	w.mu.Lock()
	defer w.mu.Unlock()
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for _, p := range parts {
		at, ok := p.tracker.commit()
		if !ok || w.parts[topicPartition{p.topic, p.num}] != p {
			continue
		}
		if offsets[p.topic] == nil {
			offsets[p.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[p.topic][p.num] = at
	}
	return offsets
}
