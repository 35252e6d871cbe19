package sinks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/topics"
)

// Projector carries the event log into a sink: poll, apply, commit, one batch at a time. It is a
// member of a consumer group, and several of them share the partitions.
type Projector struct {
	opts   Options
	sink   Writer
	client *kgo.Client
	decode func(*kgo.Record) (EventRecord, error)

	mu       sync.Mutex
	owned    map[int32]int64     // the offset to apply next; unknown (-1) until a record was applied
	stopped  stops[int32, batch] // partitions whose rows the sink refuses
	reported time.Time           // when these partitions were last logged
}

// NewProjector makes a projector. Run joins the group.
func NewProjector(sink Writer, opts Options) (*Projector, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	return &Projector{
		opts: opts.withDefaults(), sink: sink, decode: recordOf, owned: map[int32]int64{},
		stopped: stops[int32, batch]{},
	}, nil
}

// Run projects until ctx ends; then it returns nil. While the sink is unavailable, it holds one
// batch and what was fetched after it, and keeps trying. Partitions whose rows the sink refuses
// stop until it accepts them (stopped.go). Run returns an error only if retries cannot help: bad
// options, refused credentials.
func (p *Projector) Run(ctx context.Context) error {
	if err := p.connect(); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer p.client.Close()
	lagDone := make(chan struct{})
	watchCtx, stop := context.WithCancel(ctx)
	go func() {
		defer close(lagDone)
		watchLag(watchCtx, p.client, p.opts.LagEvery, func(err error) {
			p.opts.Logger.Warn("history: measuring the lag failed", "err", err)
		}, p.measureLag)
	}()
	defer func() { stop(); <-lagDone }()
	for ctx.Err() == nil {
		b, err := p.poll(ctx)
		if err != nil {
			return fmt.Errorf("poll: %w", err)
		}
		for _, part := range b.split(p.opts.MaxRecords, p.opts.MaxBytes) {
			p.deliver(ctx, part)
		}
		p.retryStopped(ctx)
		if len(b.records) < p.opts.MaxRecords/2 {
			wait.For(ctx, p.opts.Gather)
		}
	}
	return nil
}

const unknown = -1

// reportGroupEvery is how often offsets are committed to the group if the sink keeps its own.
// Nobody resumes from them; they let operators see the progress.
const reportGroupEvery = time.Second

func (p *Projector) connect() (err error) {
	opts := append([]kgo.Opt{}, p.opts.Kafka...)
	opts = append(opts,
		kgo.ConsumerGroup(p.opts.Group), kgo.ConsumeTopics(p.opts.Topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxBytes(p.opts.MaxBuffered), kgo.FetchMaxPartitionBytes(max(1, p.opts.MaxBuffered/4)),
		kgo.OnPartitionsAssigned(p.assigned), kgo.OnPartitionsRevoked(p.revoked), kgo.OnPartitionsLost(p.revoked),
		kgo.AdjustFetchOffsetsFn(p.begin),
	)
	if p.sink.OwnsOffsets() {
		opts = append(opts, kgo.AutoCommitMarks(), kgo.AutoCommitInterval(reportGroupEvery))
	} else {
		opts = append(opts, kgo.DisableAutoCommit())
	}
	p.client, err = kgo.NewClient(opts...)
	return err
}

func (p *Projector) assigned(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, partition := range topics[p.opts.Topic] {
		p.owned[partition] = unknown
	}
}

// revoked may interrupt an apply. The writes of that apply are harmless, because the next owner
// makes the same rows. Its commit is skipped, because it would move the next owner's offset back.
func (p *Projector) revoked(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, partition := range topics[p.opts.Topic] {
		delete(p.owned, partition)
		p.opts.Hooks.Lag(partition, 0)
		if p.stopped[partition] != nil {
			p.resume(partition) // the next owner reports whether it stops
		}
	}
}

// begin gets the offsets from which the group would resume. It notes from where the projector
// does.
func (p *Projector) begin(ctx context.Context,
	offsets map[string]map[int32]kgo.Offset,
) (map[string]map[int32]kgo.Offset, error) {
	if p.sink.OwnsOffsets() {
		var err error
		if offsets, err = p.resumeFromSink(ctx, offsets); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for partition, from := range offsets[p.opts.Topic] {
		if at := from.EpochOffset().Offset; at >= 0 {
			if _, ok := p.owned[partition]; ok {
				p.owned[partition] = at
			}
		}
	}
	return offsets, nil
}

// resumeFromSink replaces the group's offsets by the sink's own. A sink that is new, or was
// emptied, starts at the beginning of the log.
func (p *Projector) resumeFromSink(ctx context.Context,
	offsets map[string]map[int32]kgo.Offset,
) (map[string]map[int32]kgo.Offset, error) {
	progress, err := p.sink.Progress(ctx)
	if err != nil {
		return nil, fmt.Errorf("read progress: %w", err)
	}
	for partition := range offsets[p.opts.Topic] {
		from := kgo.NewOffset().AtStart()
		if at, ok := progress[partition]; ok {
			from = kgo.NewOffset().At(at.Next)
		}
		offsets[p.opts.Topic][partition] = from.WithEpoch(-1)
	}
	return offsets, nil
}

// poll waits for records. It logs temporary errors and continues.
func (p *Projector) poll(ctx context.Context) (*fetched, error) {
	b := &fetched{}
	until, cancel := p.untilRetry(ctx)
	f := p.client.PollRecords(until, p.opts.MaxRecords)
	timeToRetry := until.Err() != nil
	cancel()
	if f.IsClientClosed() || ctx.Err() != nil {
		return b, nil
	}
	var fatal error
	failed := false
	f.EachError(func(_ string, partition int32, err error) {
		switch {
		case isRefusal(err):
			fatal = errors.Join(fatal, err)
			return
		case timeToRetry && errors.Is(err, context.DeadlineExceeded):
			return
		}
		failed = true
		p.opts.Logger.Warn("history: fetch", "partition", partition, "err", err)
	})
	if failed && fatal == nil && f.NumRecords() == 0 { // a batch that cannot be read is fetched once more at once
		wait.For(ctx, fetchRetry)
	}
	b.grow(f.NumRecords())
	f.EachPartition(func(t kgo.FetchTopicPartition) { p.take(b, t.FetchPartition) })
	return b, fatal
}

// fetchRetry is the pause after a fetch that returned only errors.
const fetchRetry = time.Second

// isRefusal reports whether a broker's answer is a permanent refusal.
func isRefusal(err error) bool {
	return errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.GroupAuthorizationFailed) ||
		errors.Is(err, kerr.SaslAuthenticationFailed)
}

// take decodes one partition's records.
func (p *Projector) take(b *fetched, fp kgo.FetchPartition) {
	p.checkHole(fp)
	for _, r := range fp.Records {
		rec, err := p.decode(r)
		if err != nil {
			p.opts.Logger.Warn("history: skipped a record that is not an event", "partition", r.Partition, "offset",
				r.Offset, "err", err)
			p.opts.Hooks.Skipped(r.Partition, r.Offset, err)
		}
		b.add(rec, r)
	}
}

// checkHole reports records that the log dropped before they were projected. The client silently
// continues at the log's beginning.
func (p *Projector) checkHole(fp kgo.FetchPartition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next, ok := p.owned[fp.Partition]
	if !ok || next == unknown || p.stopped[fp.Partition] != nil || len(fp.Records) == 0 || fp.LogStartOffset <= next {
		return
	}
	p.opts.Logger.Error("history: topic events dropped records that were not in the history yet; the history has a gap",
		"partition", fp.Partition, "from", next, "to", fp.LogStartOffset)
	p.opts.Hooks.Lost(fp.Partition, fp.LogStartOffset-next)
	p.owned[fp.Partition] = fp.LogStartOffset
}

// recordOf decodes a record. Invalid records and transaction markers are poison. Markers have no
// event but have offsets; without them the lag would never reach 0.
func recordOf(r *kgo.Record) (rec EventRecord, err error) {
	rec = EventRecord{Partition: r.Partition, Offset: r.Offset}
	if r.Attrs.IsControl() {
		rec.Poison = true
		return rec, nil
	}
	if rec.Event, err = decodeEvent(r.Value, r.Timestamp); err != nil {
		rec.Event, rec.Poison = topics.Event{}, true
		return rec, err
	}
	if !shortenKeys(&rec.Event) {
		rec.Raw = r.Value
	}
	return rec, nil
}

// minChunk is the smallest part into which a batch is divided. A sink that cannot take even that
// within Attempt is unavailable, not slow.
const minChunk = 16

// apply returns nil once the batch is durable. It tries until then, unless ctx ends or the sink
// refuses the batch. More tries would then delay the partitions that the sink accepts. If a batch
// fails, it is retried in halves. So a sink that is too slow for the whole batch within Attempt
// still makes progress.
func (p *Projector) apply(ctx context.Context, events []EventRecord) error {
	pause, chunk, tries, started := p.opts.RetryMin, len(events), 0, time.Now()
	for rest := events; len(rest) > 0; {
		n := min(chunk, len(rest))
		err := p.try(ctx, rest[:n])
		if err == nil {
			rest, pause, tries = rest[n:], p.opts.RetryMin, 0
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		tries++
		p.opts.Hooks.Retry(tries, err)
		if errors.Is(err, ErrRefused) {
			return err
		}
		p.opts.Logger.Warn("history: applying events failed; will retry", "attempt", tries, "wait", pause, "err", err)
		if wait.For(ctx, pause); ctx.Err() != nil {
			return ctx.Err()
		}
		pause, chunk = min(2*pause, p.opts.RetryMax), max(minChunk, n/2)
	}
	p.opts.Hooks.Applied(len(events), time.Since(started))
	return nil
}

func (p *Projector) try(ctx context.Context, events []EventRecord) error {
	ctx, cancel := context.WithTimeout(ctx, p.opts.Attempt)
	defer cancel()
	return p.sink.Apply(ctx, events)
}

// commit commits offsets to the group. If it fails, records are replayed and no row is lost.
func (p *Projector) commit(ctx context.Context, part batch) {
	records := slices.Collect(maps.Values(p.moveOn(part)))
	if p.sink.OwnsOffsets() {
		p.client.MarkCommitRecords(records...)
		return
	}
	if err := p.client.CommitRecords(ctx, records...); err != nil && ctx.Err() == nil {
		p.opts.Logger.Warn("history: commit", "err", err)
	}
}

// moveOn notes the positions of partitions, and returns what to commit. It leaves out partitions
// that were revoked meanwhile.
func (p *Projector) moveOn(part batch) map[int32]*kgo.Record {
	heads := maps.Clone(part.heads)
	p.mu.Lock()
	defer p.mu.Unlock()
	for partition, r := range part.heads {
		if _, ok := p.owned[partition]; ok {
			p.owned[partition] = r.Offset + 1
		} else {
			delete(heads, partition)
		}
	}
	return heads
}
