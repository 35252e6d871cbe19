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

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/kafkarec"
	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/topics"
)

// forwarder sends commands and receipts that are on the wrong partition to the right one.
// It works outside the turn, with a plain idempotent producer. Inside the transaction it
// would hold back the stable offset of another partition, and two engines could wait for
// each other.
//
// Forwarding is still exactly once. The source log alone determines what is forwarded, so a
// restarted or fenced owner sends the same sequence. The receiver drops every origin offset
// at or below the highest that it has applied from that source. This needs order per
// target, without gaps: after the first error, everything from there on is sent once more.
type forwarder struct {
	opts  *Process
	id    int32 // our partition
	log   *slog.Logger
	kafka *producer.Producer
	ids   map[string][16]byte // topic ids of commands and receipts

	closed sync.Once

	mu   sync.Mutex
	out  outbox
	wake chan struct{}            // a route may have records that no goroutine sends
	room map[string]chan struct{} // by topic: there may be room to read the log
}

// forwardOptions are of the forwarder's client. It has one only once there is something to
// forward, which is rare: a client has connections, goroutines and a producer id.
func (o *Options) forwardOptions() []kgo.Opt {
	return append([]kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		// What is sent at once is nearly always one batch so. Of two, the second could be taken where the first is
		// refused, and then the first would come too late (claims.go).
		kgo.ProducerLinger(20 * time.Millisecond),
		kgo.RetryBackoffFn(kafkapart.RetryBackoff),
		kgo.ProducerBatchMaxBytes(1 << 20),
		kgo.DisableClientMetrics(),
	}, o.Kafka...)
}

func newForwarder(o *Process, id int32, log *slog.Logger, ids map[string][16]byte) *forwarder {
	f := &forwarder{
		opts: o, id: id, log: log, kafka: producer.Lazy(o.forwardOptions()...), ids: ids,
		out:  newOutbox(o.ForwardMemory, o.Partitions),
		wake: make(chan struct{}, 1), room: map[string]chan struct{}{},
	}
	for topic := range ids {
		f.room[topic] = make(chan struct{}, 1)
	}
	return f
}

// close fails the records that are being sent. An idempotent producer does not release a
// record when its context ends, and a partition must be given up even if no broker answers.
// The next owner sends those records.
func (f *forwarder) close() { f.closed.Do(f.kafka.Close) }

// push takes a record of our own partition that belongs to partition home.
func (f *forwarder) push(r *kgo.Record, home int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out.add(r, home)
	f.changed(r.Topic)
}

// changed wakes the goroutines that may have work now. The caller holds the lock.
func (f *forwarder) changed(topic string) {
	signal(f.wake)
	if _, ok := f.out.wanted(topic); ok {
		signal(f.room[topic])
	}
}

// signal does not wait: one pending signal is enough.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run sends until ctx ends. Every route has its own goroutine, so a target without a leader
// delays no other. A route without records has none.
func (f *forwarder) run(ctx context.Context) {
	var beside sync.WaitGroup
	defer beside.Wait()
	for topic := range f.ids {
		beside.Go(func() { f.readLog(ctx, topic) })
	}
	for loaded := false; ctx.Err() == nil; {
		routes := f.idle()
		if len(routes) > 0 && !loaded {
			f.load(ctx)
			loaded = true
		}
		for _, key := range routes {
			beside.Go(func() { f.sendRoute(ctx, key) })
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
		}
	}
}

// sendRoute sends what a route has in memory, one batch after another.
func (f *forwarder) sendRoute(ctx context.Context, key route) {
	for batch := f.head(key); len(batch) > 0 && ctx.Err() == nil; batch = f.head(key) {
		n, err := f.sendAndWarn(ctx, key, batch)
		f.done(key, n)
		if errors.Is(err, kerr.MessageTooLarge) {
			f.refuse(key)
			continue
		}
		if err != nil && ctx.Err() == nil {
			f.log.Warn("forwarding failed, retrying", "error", err)
			wait.For(ctx, time.Second)
		}
	}
}

// load waits for a producer id.
func (f *forwarder) load(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.kafka.Load(ctx)
		if err == nil {
			return
		}
		f.log.Warn("forwarding failed, retrying", "error", err)
		wait.For(ctx, time.Second)
	}
}

func (f *forwarder) idle() []route {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.idle()
}

func (f *forwarder) head(key route) []*kgo.Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.head(key)
}

func (f *forwarder) done(key route, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out.done(key, n)
	f.changed(key.topic)
}

// refuse removes the first record of a route, because its topic refuses it with the added
// headers. A turn records that.
func (f *forwarder) refuse(key route) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.out.refuse(key)
	f.changed(key.topic)
}

// forwardWarn is the time between two log lines about a target that accepts nothing.
const forwardWarn = 30 * time.Second

// sendAndWarn is send with a log line while it takes long. The producer retries without
// an error while a partition has no leader.
func (f *forwarder) sendAndWarn(ctx context.Context, key route, batch []*kgo.Record) (int, error) {
	sent, stop := context.WithCancel(ctx)
	defer stop()
	go wait.Every(sent, forwardWarn, func() {
		f.log.Warn("records wait to be forwarded: their correct partition accepts none",
			"topic", key.topic, "target", key.target, "first_offset", batch[0].Offset)
	})
	return f.send(ctx, key, batch)
}

// send returns how many records from the front are acknowledged. MessageTooLarge is about
// the record behind those, never about a batch.
func (f *forwarder) send(ctx context.Context, key route, batch []*kgo.Record) (int, error) {
	out := make([]*kgo.Record, len(batch))
	at := make(map[*kgo.Record]int, len(batch))
	for i, r := range batch {
		out[i] = forwardRecord(r, f.ids[key.topic], key.target)
		at[out[i]] = i
	}
	errs := make([]error, len(batch)) // acknowledgements may come in another order
	for _, res := range f.kafka.ProduceSync(ctx, out...) {
		errs[at[res.Record]] = res.Err
	}
	for i, err := range errs {
		switch {
		case err == nil:
		case !errors.Is(err, kerr.MessageTooLarge):
			return i, fmt.Errorf("forward %s to %d: %w", key.topic, key.target, err)
		case len(batch) > 1: // the broker may refuse the batch for its size: try each record
			return f.sendSingly(ctx, key, batch)
		default:
			return 0, err
		}
	}
	return len(batch), nil
}

func (f *forwarder) sendSingly(ctx context.Context, key route, batch []*kgo.Record) (int, error) {
	for i := range batch {
		if _, err := f.send(ctx, key, batch[i:i+1]); err != nil {
			return i, err
		}
	}
	return len(batch), nil
}

// forwardRecord is r with headers that name its first append.
func forwardRecord(r *kgo.Record, id [16]byte, target int32) *kgo.Record {
	rec := kafkarec.Of(r)
	claim := topics.Forward{TopicID: id, Partition: r.Partition, Offset: r.Offset, Append: rec.Timestamp}
	return &kgo.Record{
		Topic: r.Topic, Partition: target, Key: r.Key, Value: r.Value,
		Headers: kafkarec.Headers(topics.ForwardHeaders(rec.Headers, claim)),
	}
}
