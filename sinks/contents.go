package sinks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	pause "github.com/waterclock/waterclock/internal/wait"
)

// ContentOptions are those of RunContents.
type ContentOptions struct {
	Kafka  []kgo.Opt // how to reach the brokers; see Options
	Topics []string  // the due topics: regular expressions of names. Required

	// Group is the consumer group. Default waterclock-history-content.
	Group string

	// MaxRecords bounds a batch. Default 500. MaxBuffered is that of Options.
	MaxRecords  int
	MaxBuffered int32

	// NewTopics is how long it may take until a topic that is new is read. Default 5 s.
	NewTopics time.Duration

	// RetryMin, RetryMax and Attempt are those of Options.
	RetryMin, RetryMax, Attempt time.Duration

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
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return o
}

// RunContents writes what notifications say, from the due topics into h, until ctx ends; then
// it returns nil. While h is away it holds one batch, and what is fetched ahead of it. Offsets
// are kept as the projector keeps its: by the store if it owns them, else by the group, behind
// the rows. Reading a record again changes nothing.
func RunContents(ctx context.Context, h History, o ContentOptions) error {
	if len(o.Topics) == 0 {
		return errors.New("contents: no topics")
	}
	r := &contentReader{h: h, o: o.withDefaults()}
	opts := append([]kgo.Opt{}, o.Kafka...)
	opts = append(opts,
		kgo.ConsumerGroup(r.o.Group), kgo.ConsumeRegex(), kgo.ConsumeTopics(o.Topics...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxBytes(r.o.MaxBuffered), kgo.FetchMaxPartitionBytes(max(1, r.o.MaxBuffered/4)),
		kgo.MetadataMaxAge(r.o.NewTopics), kgo.MetadataMinAge(min(r.o.NewTopics, 250*time.Millisecond)),
	)
	if h.OwnsOffsets() {
		opts = append(opts, kgo.AutoCommitMarks(), kgo.AutoCommitInterval(reportGroupEvery),
			kgo.AdjustFetchOffsetsFn(r.begin))
	} else {
		opts = append(opts, kgo.DisableAutoCommit())
	}
	var err error
	if r.client, err = kgo.NewClient(opts...); err != nil {
		return fmt.Errorf("contents: connect: %w", err)
	}
	defer r.client.Close()
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
}

// begin puts the store's own positions in the place of the group's.
func (r *contentReader) begin(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (
	map[string]map[int32]kgo.Offset, error,
) {
	progress, err := r.h.ContentProgress(ctx)
	if err != nil {
		return nil, fmt.Errorf("read progress of content: %w", err)
	}
	for topic, partitions := range offsets {
		for partition := range partitions {
			from := kgo.NewOffset().AtStart()
			if next, ok := progress[TopicPartition{topic, partition}]; ok {
				from = kgo.NewOffset().At(next)
			}
			partitions[partition] = from.WithEpoch(-1)
		}
	}
	return offsets, nil
}

// turn is one batch: poll, apply, commit. Errors that pass are logged and polled over.
func (r *contentReader) turn(ctx context.Context) error {
	f := r.client.PollRecords(ctx, r.o.MaxRecords)
	if f.IsClientClosed() || ctx.Err() != nil {
		return nil
	}
	var fatal error
	failed := false
	f.EachError(func(topic string, partition int32, err error) {
		if isRefusal(err) {
			fatal = errors.Join(fatal, err)
			return
		}
		failed = true
		r.o.Logger.Warn("history: fetch content", "topic", topic, "partition", partition, "err", err)
	})
	records := f.Records()
	if fatal != nil {
		return fatal
	}
	if len(records) == 0 {
		if failed {
			pause.For(ctx, fetchRetry)
		}
		return nil
	}
	batch := make([]ContentRecord, len(records))
	for i, rec := range records {
		batch[i] = ContentOf(RecordOf(rec))
	}
	if !r.apply(ctx, batch) {
		return nil
	}
	if r.h.OwnsOffsets() {
		r.client.MarkCommitRecords(records...)
		return nil
	}
	if err := r.client.CommitRecords(ctx, records...); err != nil && ctx.Err() == nil {
		r.o.Logger.Warn("history: commit content", "err", err)
	}
	return nil
}

// apply tries until the batch is durable, or ctx ends.
func (r *contentReader) apply(ctx context.Context, batch []ContentRecord) bool {
	for wait := r.o.RetryMin; ctx.Err() == nil; wait = min(2*wait, r.o.RetryMax) {
		attempt, cancel := context.WithTimeout(ctx, r.o.Attempt)
		err := r.h.ApplyContent(attempt, batch)
		cancel()
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			r.o.Logger.Warn("history: apply content; will try again", "wait", wait, "err", err)
			sleep(ctx, wait)
		}
	}
	return false
}
