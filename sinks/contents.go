package sinks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkarec"
	"github.com/waterclock/waterclock/internal/wait"
)

// ContentOptions configure RunContents.
type ContentOptions struct {
	Kafka  []kgo.Opt // connection to the brokers; see Options
	Topics []string  // the due topics, as regular expressions of names; required

	// Group is the consumer group. Default waterclock-history-content.
	Group string

	// MaxRecords bounds a batch. Default 500. MaxBuffered is that of Options.
	MaxRecords  int
	MaxBuffered int32

	// NewTopics bounds the time until a new topic is read. Default 5 s.
	NewTopics time.Duration

	// RetryMin, RetryMax and Attempt are those of Options.
	RetryMin, RetryMax, Attempt time.Duration

	// Lag is called with the number of committed records of a due topic that are not in the store
	// yet. It is called every LagEvery (default 5 s), from a goroutine of its own, and with 0
	// once other members own the topic's partitions. Default: no call.
	Lag      func(topic string, records int64)
	LagEvery time.Duration

	Logger *slog.Logger // Default: none
}

func (o ContentOptions) withDefaults() ContentOptions {
	setDefault(&o.Group, "waterclock-history-content")
	setDefault(&o.MaxRecords, 500)
	setDefault(&o.MaxBuffered, 8<<20)
	setDefault(&o.NewTopics, 5*time.Second)
	setDefault(&o.RetryMin, 200*time.Millisecond)
	setDefault(&o.RetryMax, 10*time.Second)
	setDefault(&o.Attempt, 30*time.Second)
	setDefault(&o.LagEvery, 5*time.Second)
	if o.Lag == nil {
		o.Lag = func(string, int64) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return o
}

// RunContents writes the content of notifications from the due topics into h, until ctx ends;
// then it returns nil. While h is unavailable, it holds one batch, and what was fetched after it.
// Partitions whose content h refuses stop until it accepts it (contents_stopped.go).
// Offsets are kept as by the projector: by the store if it owns them, or else by the group,
// committed after the rows. Reading a record more than once changes nothing.
func RunContents(ctx context.Context, h History, o ContentOptions) error {
	if len(o.Topics) == 0 {
		return errors.New("contents: no topics")
	}
	r := &contentReader{
		h: h, o: o.withDefaults(), next: map[TopicPartition]int64{}, stopped: stops[TopicPartition, *kgo.Record]{},
	}
	opts := append([]kgo.Opt{}, o.Kafka...)
	opts = append(opts,
		kgo.ConsumerGroup(r.o.Group), kgo.ConsumeRegex(), kgo.ConsumeTopics(o.Topics...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxBytes(r.o.MaxBuffered), kgo.FetchMaxPartitionBytes(max(1, r.o.MaxBuffered/4)),
		kgo.MetadataMaxAge(r.o.NewTopics), kgo.MetadataMinAge(min(r.o.NewTopics, 250*time.Millisecond)),
		kgo.OnPartitionsAssigned(r.assigned), kgo.OnPartitionsRevoked(r.revoked), kgo.OnPartitionsLost(r.revoked),
		kgo.AdjustFetchOffsetsFn(r.begin),
	)
	if h.OwnsOffsets() {
		opts = append(opts, kgo.AutoCommitMarks(), kgo.AutoCommitInterval(reportGroupEvery))
	} else {
		opts = append(opts, kgo.DisableAutoCommit())
	}
	var err error
	if r.client, err = kgo.NewClient(opts...); err != nil {
		return fmt.Errorf("contents: connect: %w", err)
	}
	defer r.client.Close()
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		watchLag(watching, r.client, r.o.LagEvery, func(err error) {
			r.o.Logger.Warn("history: measuring the lag of content failed", "err", err)
		}, r.measureLag)
	})
	defer watch.Wait()
	defer stop()
	for ctx.Err() == nil {
		if err := r.turn(ctx); err != nil {
			return fmt.Errorf("contents: %w", err)
		}
	}
	return nil
}

type contentReader struct {
	h      History
	o      ContentOptions
	client *kgo.Client

	mu       sync.Mutex
	next     map[TopicPartition]int64 // next offset of each owned partition; unknown (-1) until something was read
	stopped  stops[TopicPartition, *kgo.Record]
	reported time.Time // when the stopped partitions were last logged
}

func (r *contentReader) assigned(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for topic, partitions := range topics {
		for _, partition := range partitions {
			r.next[TopicPartition{topic, partition}] = unknown
		}
	}
}

func (r *contentReader) revoked(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for topic, partitions := range topics {
		for _, partition := range partitions {
			p := TopicPartition{topic, partition}
			if delete(r.next, p); r.stopped[p] != nil {
				r.resume(p)
			}
		}
		r.o.Lag(topic, 0) // the next measurement reports partitions that it still owns
	}
}

// begin notes where reading starts. A store's own positions replace those of the group.
func (r *contentReader) begin(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (
	map[string]map[int32]kgo.Offset, error,
) {
	progress := map[TopicPartition]int64{}
	if r.h.OwnsOffsets() {
		var err error
		if progress, err = r.h.ContentProgress(ctx); err != nil {
			return nil, fmt.Errorf("read progress of content: %w", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for topic, partitions := range offsets {
		for partition, from := range partitions {
			p := TopicPartition{topic, partition}
			if r.h.OwnsOffsets() {
				from = kgo.NewOffset().AtStart()
				if next, ok := progress[p]; ok {
					from = kgo.NewOffset().At(next)
				}
				partitions[partition] = from.WithEpoch(-1)
			}
			if _, ours := r.next[p]; ours && from.EpochOffset().Offset >= 0 {
				r.next[p] = from.EpochOffset().Offset
			}
		}
	}
	return offsets, nil
}

func (r *contentReader) measureLag(ctx context.Context, admin *kadm.Client) error {
	lag := map[string]int64{}
	r.mu.Lock()
	for p := range r.next {
		lag[p.Topic] = 0
	}
	r.mu.Unlock()
	if len(lag) == 0 {
		return nil
	}
	topics := slices.Collect(maps.Keys(lag))
	starts, err := admin.ListStartOffsets(ctx, topics...)
	if err != nil {
		return err
	}
	ends, err := admin.ListCommittedOffsets(ctx, topics...)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for p, next := range r.next {
		end, ok := ends.Lookup(p.Topic, p.Partition)
		start, began := starts.Lookup(p.Topic, p.Partition)
		if ok && end.Err == nil && began && start.Err == nil {
			lag[p.Topic] += max(0, end.Offset-max(next, start.Offset))
		}
	}
	for topic, records := range lag {
		r.o.Lag(topic, records)
	}
	return nil
}

// turn handles one batch: poll, apply, commit. It logs temporary errors and continues.
func (r *contentReader) turn(ctx context.Context) error {
	until, cancel := r.untilRetry(ctx)
	f := r.client.PollRecords(until, r.o.MaxRecords)
	timeToRetry := until.Err() != nil
	cancel()
	if f.IsClientClosed() || ctx.Err() != nil {
		return nil
	}
	var fatal error
	failed := false
	f.EachError(func(topic string, partition int32, err error) {
		switch {
		case isRefusal(err):
			fatal = errors.Join(fatal, err)
			return
		case timeToRetry && errors.Is(err, context.DeadlineExceeded):
			return
		}
		failed = true
		r.o.Logger.Warn("history: fetching content failed", "topic", topic, "partition", partition, "err", err)
	})
	if fatal != nil {
		return fatal
	}
	if failed && f.NumRecords() == 0 {
		wait.For(ctx, fetchRetry)
	}
	r.deliver(ctx, f.Records())
	r.retryStopped(ctx)
	return nil
}

// commit notes the positions of records that are applied, and reports them to the group.
func (r *contentReader) commit(ctx context.Context, records []*kgo.Record) {
	r.moveOn(records)
	if r.h.OwnsOffsets() {
		r.client.MarkCommitRecords(records...)
		return
	}
	if err := r.client.CommitRecords(ctx, records...); err != nil && ctx.Err() == nil {
		r.o.Logger.Warn("history: committing content failed", "err", err)
	}
}

// contentRecordOf decodes a record. A transaction marker has only a position.
func contentRecordOf(rec *kgo.Record) ContentRecord {
	if rec.Attrs.IsControl() {
		return ContentRecord{TopicPartition: TopicPartition{rec.Topic, rec.Partition}, Offset: rec.Offset}
	}
	return ContentOf(kafkarec.Of(rec))
}

func (r *contentReader) moveOn(records []*kgo.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range records {
		p := TopicPartition{rec.Topic, rec.Partition}
		if _, ours := r.next[p]; ours {
			r.next[p] = rec.Offset + 1
		}
	}
}

// apply retries until the records are durable, the store refuses them, or ctx ends. Only for the
// first it returns nil.
func (r *contentReader) apply(ctx context.Context, records []*kgo.Record) error {
	batch := make([]ContentRecord, len(records))
	for i, rec := range records {
		batch[i] = contentRecordOf(rec)
	}
	for pause := r.o.RetryMin; ctx.Err() == nil; pause = min(2*pause, r.o.RetryMax) {
		attempt, cancel := context.WithTimeout(ctx, r.o.Attempt)
		err := r.h.ApplyContent(attempt, batch)
		cancel()
		if err == nil || errors.Is(err, ErrRefused) {
			return err
		}
		if ctx.Err() == nil {
			r.o.Logger.Warn("history: applying content failed; will retry", "wait", pause, "err", err)
			wait.For(ctx, pause)
		}
	}
	return ctx.Err()
}
