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

	"github.com/waterclock/waterclock/internal/producer"
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
	rejected string // topic
	log      *slog.Logger
	kafka    *producer.Producer

	closed sync.Once

	mu     sync.Mutex
	ids    map[string][16]byte // topic ids of commands and receipts
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
	kafka, err := producer.New(append([]kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(2 * time.Millisecond),
		kgo.RetryBackoffFn(retryBackoff),
		kgo.ProducerBatchMaxBytes(1 << 20),
		kgo.DisableClientMetrics(),
	}, o.Kafka...)...)
	if err != nil {
		return nil, fmt.Errorf("forwarder: %w", err)
	}
	return &forwarder{kafka: kafka, log: log, rejected: o.Names.Rejected(), ids: map[string][16]byte{}, queues: map[route][]*kgo.Record{}, wake: make(chan struct{}, 1)}, nil
}

// close fails what is being sent: an idempotent producer does not let go of a
// record for a context's sake, and a partition must be given up also while the
// broker cannot be reached. What was cut off is sent again by the next owner.
func (f *forwarder) close() { f.closed.Do(f.kafka.Close) }

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

// run sends until ctx ends, every route on its own: a target without a leader
// holds up nobody else's.
func (f *forwarder) run(ctx context.Context) {
	var routes sync.WaitGroup
	defer routes.Wait()
	running := map[route]bool{}
	for ctx.Err() == nil {
		for _, key := range f.routes() {
			if !running[key] {
				running[key] = true
				routes.Go(func() { f.runRoute(ctx, key) })
			}
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
		}
	}
}

// runRoute sends one ordered stream, a batch after the other.
func (f *forwarder) runRoute(ctx context.Context, key route) {
	for ctx.Err() == nil {
		batch := f.head(key)
		if len(batch) == 0 {
			sleep(ctx, 5*time.Millisecond)
			continue
		}
		n, err := f.send(ctx, key, batch)
		f.done(key, n)
		if err != nil && ctx.Err() == nil {
			f.log.Warn("forwarding failed, trying again", "error", err)
			sleep(ctx, time.Second)
		}
	}
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

// send returns how many from the front are settled: acknowledged, or rejected
// because with its origin it is too large for the topic.
func (f *forwarder) send(ctx context.Context, key route, batch []*kgo.Record) (int, error) {
	id, err := f.id(ctx, key.topic)
	if err != nil {
		return 0, err
	}
	out := make([]*kgo.Record, len(batch))
	at := make(map[*kgo.Record]int, len(batch))
	for i, r := range batch {
		out[i] = forwardRecord(r, id, key.target)
		at[out[i]] = i
	}
	errs := make([]error, len(batch)) // results come in another order than they were sent
	for _, res := range f.kafka.ProduceSync(ctx, out...) {
		errs[at[res.Record]] = res.Err
	}
	for i, err := range errs {
		switch {
		case err == nil:
		case !errors.Is(err, kerr.MessageTooLarge):
			return i, fmt.Errorf("forward %s to %d: %w", key.topic, key.target, err)
		case len(batch) > 1: // a broker may refuse a batch for its size: one by one tells
			return f.sendSingly(ctx, key, batch)
		default:
			return f.reject(ctx, batch[0])
		}
	}
	return len(batch), nil
}

func (f *forwarder) sendSingly(ctx context.Context, key route, batch []*kgo.Record) (int, error) {
	for i := range batch {
		if n, err := f.send(ctx, key, batch[i:i+1]); err != nil || n == 0 {
			return i, err
		}
	}
	return len(batch), nil
}

// reject writes a record that cannot be forwarded to topic rejected.
func (f *forwarder) reject(ctx context.Context, r *kgo.Record) (int, error) {
	key, value, headers := topics.RejectedRecord(record(r), &trigger.Error{Code: trigger.CodeTooLarge,
		Msg: "the record stands on another partition than its key's, and is too large to be forwarded"})
	out := &kgo.Record{Topic: f.rejected, Partition: r.Partition, Key: key, Value: value, Headers: kgoHeaders(headers)}
	if err := f.kafka.ProduceSync(ctx, out).FirstErr(); err != nil {
		return 0, fmt.Errorf("reject %s/%d/%d: %w", r.Topic, r.Partition, r.Offset, err)
	}
	return 1, nil
}

// id is a topic's id; asked for once.
func (f *forwarder) id(ctx context.Context, topic string) ([16]byte, error) {
	f.mu.Lock()
	id, ok := f.ids[topic]
	f.mu.Unlock()
	if ok {
		return id, nil
	}
	id, err := topicID(ctx, f.kafka.Client(), topic)
	if err == nil {
		f.mu.Lock()
		f.ids[topic] = id
		f.mu.Unlock()
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

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
