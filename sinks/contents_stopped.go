package sinks

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// deliver applies records and commits them. If the store refuses them, they are applied partition
// by partition. Partitions that are refused stop, and the others continue, as in Projector.
func (r *contentReader) deliver(ctx context.Context, records []*kgo.Record) {
	records = r.withoutStopped(records)
	if len(records) == 0 {
		return
	}
	err := r.apply(ctx, records)
	if err == nil {
		r.commit(ctx, records)
		return
	}
	if !errors.Is(err, ErrRefused) {
		return // ctx has ended
	}
	parts := map[TopicPartition][]*kgo.Record{}
	for _, rec := range records {
		p := TopicPartition{rec.Topic, rec.Partition}
		parts[p] = append(parts[p], rec)
	}
	for p, part := range parts {
		if len(parts) > 1 {
			err = r.apply(ctx, part)
		}
		switch {
		case err == nil:
			r.commit(ctx, part)
		case errors.Is(err, ErrRefused):
			r.stop(p, part, err)
		}
	}
}

// withoutStopped removes the records of stopped partitions and appends them to those that wait.
// They were fetched before the partitions stopped.
func (r *contentReader) withoutStopped(records []*kgo.Record) []*kgo.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.stopped) == 0 {
		return records
	}
	return slices.DeleteFunc(records, func(rec *kgo.Record) bool {
		s := r.stopped[TopicPartition{rec.Topic, rec.Partition}]
		if s != nil {
			s.waiting = append(s.waiting, rec)
		}
		return s != nil
	})
}

// stop ends the fetching of a partition, unless it was revoked meanwhile.
func (r *contentReader) stop(p TopicPartition, records []*kgo.Record, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ours := r.next[p]; !ours {
		return
	}
	r.stopped.add(p, records, r.o.RetryMin)
	r.client.PauseFetchPartitions(map[string][]int32{p.Topic: {p.Partition}})
	r.report(err)
}

// report logs the stopped partitions. The caller holds the lock.
func (r *contentReader) report(err error) {
	if now := time.Now(); now.Sub(r.reported) >= reportEvery {
		r.reported = now
		r.o.Logger.Error("history: the store refuses content; these partitions wait until that is fixed, and no "+
			"record is skipped", "partitions", slices.Collect(maps.Keys(r.stopped)), "err", err)
	}
}

// resume fetches a partition once more. The caller holds the lock.
func (r *contentReader) resume(p TopicPartition) {
	delete(r.stopped, p)
	r.client.ResumeFetchPartitions(map[string][]int32{p.Topic: {p.Partition}})
}

// untilRetry bounds a poll by the next try of a stopped partition.
func (r *contentReader) untilRetry(ctx context.Context) (context.Context, context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped.untilRetry(ctx)
}

// retryStopped retries the partitions whose wait is over.
func (r *contentReader) retryStopped(ctx context.Context) {
	r.mu.Lock()
	due := r.stopped.due()
	r.mu.Unlock()
	for p, s := range due {
		r.retry(ctx, p, s)
	}
}

// retry applies the waiting records of a partition. The partition continues once they are durable.
func (r *contentReader) retry(ctx context.Context, p TopicPartition, s *stop[*kgo.Record]) {
	err := r.apply(ctx, s.waiting)
	r.mu.Lock()
	ours := r.stopped[p] == s // it may have been revoked meanwhile
	switch {
	case ours && err == nil:
		r.resume(p)
		r.o.Logger.Info("history: the store accepts content again", "topic", p.Topic, "partition", p.Partition)
	case ours && errors.Is(err, ErrRefused):
		s.backOff(r.o.RetryMax)
		r.report(err)
	}
	r.mu.Unlock()
	if ours && err == nil {
		r.commit(ctx, s.waiting)
	}
}
