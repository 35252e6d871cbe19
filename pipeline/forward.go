package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// forwarder brings commands and receipts that landed on the wrong partition to
// the right one. It works outside the turn, with a plain idempotent producer:
// inside the transaction it would pin the stable offset of somebody else's
// partition, and two engines could wait for each other.
//
// It is still exactly once. What is forwarded is a function of the source log,
// so a restart, or a zombie, repeats the same sequence; the receiver drops
// every origin offset at or below the highest it has applied from that source.
// Therefore order per target must hold, and nothing may be left out: at the
// first error everything from there on is sent again.
type forwarder struct {
	ids map[string][16]byte // topic ids of commands and receipts
	log *slog.Logger
	cl  *kgo.Client

	closed sync.Once

	mu     sync.Mutex
	queues map[route][]*kgo.Record
	queued int
	wake   chan struct{}
}

// route is one ordered stream: a source topic and a target partition. Commands
// and receipts have offsets of their own.
type route struct {
	topic  string
	target int32
}

// Bounds of what waits to be forwarded.
const (
	forwardQueue = 20_000 // records; beyond it the partition stops reading
	forwardBatch = 100    // records sent before the next are
	forwardBytes = 700 << 10
)

func newForwarder(o *Options, log *slog.Logger) (*forwarder, error) {
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(2 * time.Millisecond),
		kgo.MaxProduceRequestsInflightPerBroker(1),
		kgo.RetryBackoffFn(retryBackoff),
		kgo.ProducerBatchMaxBytes(1 << 20),
		kgo.DisableClientMetrics(),
	}, o.Kafka...)...)
	if err != nil {
		return nil, fmt.Errorf("forwarder: %w", err)
	}
	return &forwarder{cl: cl, log: log, ids: map[string][16]byte{}, queues: map[route][]*kgo.Record{}, wake: make(chan struct{}, 1)}, nil
}

// close fails what is being sent: an idempotent producer does not let go of a
// record for a context's sake, and a partition must be given up also while the
// broker cannot be reached. What was cut off is sent again by the next owner.
func (f *forwarder) close() { f.closed.Do(f.cl.Close) }

// push queues a record of our own partition for its right one.
func (f *forwarder) push(r *kgo.Record, target int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := route{r.Topic, target}
	f.queues[key] = append(f.queues[key], r)
	f.queued++
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// full says that reading must wait for forwarding.
func (f *forwarder) full() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.queued >= forwardQueue
}

// outstanding is, for every target with commands still to be sent, the offset
// before the first of them: where a successor must begin again.
func (f *forwarder) outstanding(topic string) map[int32]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out map[int32]int64
	for key, q := range f.queues {
		if key.topic == topic && len(q) > 0 {
			if out == nil {
				out = map[int32]int64{}
			}
			out[key.target] = q[0].Offset - 1
		}
	}
	return out
}

// run sends until ctx ends.
func (f *forwarder) run(ctx context.Context) {
	for ctx.Err() == nil {
		sent, err := f.round(ctx)
		switch {
		case err != nil:
			f.log.Warn("forwarding failed, trying again", "error", err)
			sleep(ctx, time.Second)
		case !sent:
			select {
			case <-f.wake:
			case <-ctx.Done():
			}
		}
	}
}

// round sends one batch per route.
func (f *forwarder) round(ctx context.Context) (sent bool, err error) {
	for _, key := range f.routes() {
		batch := f.head(key)
		if len(batch) == 0 {
			continue
		}
		n, e := f.send(ctx, key, batch)
		f.done(key, n)
		sent = sent || n > 0
		err = errors.Join(err, e)
	}
	return sent, err
}

func (f *forwarder) routes() []route {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]route, 0, len(f.queues))
	for key := range f.queues {
		out = append(out, key)
	}
	return out
}

func (f *forwarder) head(key route) []*kgo.Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queues[key]
	n, size := 0, 0
	for n < len(q) && n < forwardBatch && (n == 0 || size < forwardBytes) {
		size += len(q[n].Key) + len(q[n].Value) + 200*len(q[n].Headers)
		n++
	}
	return q[:n:n]
}

func (f *forwarder) done(key route, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queues[key] = f.queues[key][n:]
	f.queued -= n
	if len(f.queues[key]) == 0 {
		delete(f.queues, key)
	}
}

// send returns how many from the front are settled: acknowledged, or for ever
// too large for the topic.
func (f *forwarder) send(ctx context.Context, key route, batch []*kgo.Record) (int, error) {
	id, err := f.id(ctx, key.topic)
	if err != nil {
		return 0, err
	}
	out := make([]*kgo.Record, len(batch))
	for i, r := range batch {
		out[i] = forwardRecord(r, id, key.target)
	}
	results := f.cl.ProduceSync(ctx, out...)
	for i, res := range results {
		if res.Err != nil && !errors.Is(res.Err, kerr.MessageTooLarge) {
			return i, fmt.Errorf("forward %s to %d: %w", key.topic, key.target, res.Err)
		}
	}
	return len(batch), nil
}

func (f *forwarder) id(ctx context.Context, topic string) ([16]byte, error) {
	if id, ok := f.ids[topic]; ok {
		return id, nil
	}
	id, err := topicID(ctx, f.cl, topic)
	if err == nil {
		f.ids[topic] = id
	}
	return id, err
}

// forwardRecord is r with where it first stood.
func forwardRecord(r *kgo.Record, id [16]byte, target int32) *kgo.Record {
	rec := record(r)
	claim := topics.Forward{TopicID: id, Partition: r.Partition, Offset: r.Offset, Append: rec.Timestamp}
	return &kgo.Record{Topic: r.Topic, Partition: target, Key: r.Key, Value: r.Value,
		Headers: kgoHeaders(topics.ForwardHeaders(rec.Headers, claim))}
}

// maxForwardAge is the compaction lag of commands: an older claim cannot be
// checked against the source any more.
const maxForwardAge = 7 * 24 * time.Hour

// genuine says whether a claim of having been forwarded can be true: our
// topic, an offset that exists, a time that is not longer ago than anything
// that waits.
func (p *Partition) genuine(ctx context.Context, topic string, f topics.Forward, appended trigger.Instant) (bool, error) {
	id, err := p.forward.id(ctx, topic)
	if err != nil {
		return false, err
	}
	if f.TopicID != id || appended.Sub(f.Append) > maxForwardAge || f.Append.Sub(appended) > maxForwardAge {
		return false, nil
	}
	source := route{topic, f.Partition}
	if f.Offset < p.sourceEnds[source] {
		return true, nil
	}
	end, err := listOffset(ctx, p.kafka.cl, topic, f.Partition, readUncommitted, latest)
	if err != nil {
		return false, err
	}
	p.sourceEnds[source] = end
	return f.Offset < end, nil
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// reforward queues what an earlier owner had read but not yet seen
// acknowledged on its right partition: misrouted records in [from, next).
func (p *Partition) reforward(ctx context.Context, topic string, start, next int64) error {
	through, from := p.unforwarded(topic, next)
	from = max(from, start)
	if from >= next {
		return nil
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.DisableClientMetrics(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {p.id: kgo.NewOffset().At(from)}}),
	}, p.opts.Kafka...)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	for at := from; at < next; {
		pctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		fs := cl.PollRecords(pctx, 1000)
		cancel()
		if err := ctx.Err(); err != nil {
			return err
		}
		if fs.NumRecords() == 0 {
			return nil // compacted away or aborted up to next: nothing is left to send
		}
		for it := fs.RecordIter(); !it.Done(); {
			r := it.Next()
			at = r.Offset + 1
			if home := topics.Partition(r.Key, p.opts.Partitions); r.Offset < next && !r.Attrs.IsControl() && home != p.id {
				if last, owed := through[home]; owed && r.Offset > last {
					p.forward.push(r, home)
				}
			}
		}
	}
	return nil
}

// unforwarded is the part of progress.Forwarded about one topic, and the
// offset at which the first record still owed can be.
func (p *Partition) unforwarded(topic string, next int64) (through map[int32]int64, from int64) {
	through, from = map[int32]int64{}, next
	for key, last := range p.progress.Forwarded {
		t, target := p.fromKey(key)
		if t == topic {
			through[target] = last
			from = min(from, last+1)
		}
	}
	return through, from
}

// Commands and receipts share the maps of progress: receipts have the keys
// below zero.
func (p *Partition) mapKey(topic string, partition int32) int32 {
	if topic == p.opts.Names.Receipts() {
		return -1 - partition
	}
	return partition
}

func (p *Partition) fromKey(key int32) (topic string, partition int32) {
	if key < 0 {
		return p.opts.Names.Receipts(), -1 - key
	}
	return p.opts.Names.Commands(), key
}

// owed is what progress says of forwarding.
func (p *Partition) owed() map[int32]int64 {
	var out map[int32]int64
	for _, topic := range []string{p.opts.Names.Commands(), p.opts.Names.Receipts()} {
		for target, last := range p.forward.outstanding(topic) {
			if out == nil {
				out = map[int32]int64{}
			}
			out[p.mapKey(topic, target)] = last
		}
	}
	return out
}
