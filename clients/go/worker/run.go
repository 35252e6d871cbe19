package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Handler does the work of one due event and returns the outcome. Many handlers run at a time,
// but never two for the same record key.
//
// An error counts as Retry(0) with code "error" and the error's text as detail. Return a Result
// for every case that you can name, and keep secrets out of errors. When ctx ends, return its
// error: an event that was not finished is delivered again.
type Handler func(ctx context.Context, e *DueEvent) (Result, error)

// ErrUnfinished is returned by Run if DrainTimeout was too short. The unfinished events are
// delivered again, to this or another worker.
var ErrUnfinished = errors.New("worker: ended before all handlers and receipts were finished")

// Run handles the due events of a channel until ctx ends, and then drains: running handlers
// finish, receipts are written, offsets are committed. It returns an error only if the options
// are wrong, or ErrUnfinished. It waits for brokers that are down.
func Run(ctx context.Context, channel string, handle Handler, opts ...Option) error {
	o, err := newOptions(channel, opts)
	if handle == nil {
		err = errors.Join(err, errors.New("worker: the handler is nil"))
	}
	if err != nil {
		return err
	}
	w, err := newWorker(o, handle)
	if err != nil {
		return err
	}
	return w.run(ctx)
}

// topicPartition identifies a partition.
type topicPartition struct {
	topic string
	num   int32
}

// worker is one call of Run. mu guards the fields below it. Never call Kafka or the handler while
// holding it.
type worker struct {
	*options
	handle   Handler
	consumer *kgo.Client
	admin    *kadm.Client
	receipts *receiptWriter
	reader   receiptReader

	committing sync.Mutex    // held while a commit is prepared and until it is answered
	pausing    sync.Mutex    // held while pausing is decided and done
	loading    chan struct{} // allows one reading of receipts at a time
	wake       chan struct{} // an event is ready, or a handler has ended
	room       chan struct{} // a paused partition has room
	freed      chan struct{} // a full partition has room
	garbled    throttle
	failing    throttle

	mu       sync.Mutex
	queue    *queue
	parts    map[topicPartition]*partition
	memories map[int32]*memory   // by partition of the receipts topic
	unacked  map[string]*unacked // by ce_id; the newest receipt of each
	numbers  int32               // number of partitions of that topic, once known
	topicID  kadm.TopicID        // of the receipts topic that the memories are of
	murmur2  kgo.TopicPartitioner
	clock    clock
	running  int // running handlers
	pending  int // receipts that are not acknowledged yet
	ending   bool
	leaving  bool // drain has waited, and nobody waits any more
}

func newWorker(o *options, handle Handler) (*worker, error) {
	w := &worker{
		options: o, handle: handle, reader: newReceiptReader(o.channel),
		loading: make(chan struct{}, 1), wake: make(chan struct{}, 1), room: make(chan struct{}, 1),
		freed: make(chan struct{}, 1),
		queue: newQueue(), parts: map[topicPartition]*partition{}, memories: map[int32]*memory{},
		unacked: map[string]*unacked{},
		murmur2: kgo.StickyKeyPartitioner(nil).ForTopic(""),
	}
	if b := o.bulkhead; b.Group != nil {
		w.queue.groupOf, w.queue.inFlight = b.Group, b.InFlight
		if b.Overflow != nil {
			w.queue.maxWait = b.Waiting
		}
	}
	var err error
	if w.receipts, err = newReceiptWriter(o); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	// The group may assign partitions before NewClient returns. Its callbacks begin with mu.
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.consumer, err = kgo.NewClient(w.consumerOpts()...); err != nil {
		w.receipts.close()
		return nil, fmt.Errorf("worker: %w", err)
	}
	w.admin = kadm.NewClient(w.consumer)
	return w, nil
}

// maxBatch bounds the memory of one batch after decompression. It is the default of the server's limits.batch_bytes,
// which bounds the server's own consumers. Without it, some KB of a topic may become 1 GiB in memory.
const maxBatch = 64 << 20

// common returns the options that all clients share.
func (o *options) common() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.brokers...), kgo.ClientID("waterclock-worker-" + o.channel),
		kgo.MaxDecompressBatchBytes(maxBatch),
		kgo.RetryTimeout(10 * time.Second),
		kgo.MetadataMinAge(2 * time.Second), // how soon a new leader is found
	}
	return append(opts, o.kafka...)
}

func (w *worker) consumerOpts() []kgo.Opt {
	return append(
		append([]kgo.Opt{
			kgo.HeartbeatInterval(time.Second), // how soon a rebalance is noticed
			kgo.RebalanceTimeout(max(w.revokeTimeout, w.drainTimeout) + rebalanceMargin),
			kgo.Balancers(kgo.CooperativeStickyBalancer()),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		}, w.common()...),
		kgo.ConsumerGroup(w.group+"."+w.channel),
		kgo.ConsumeTopics(w.topic, w.topic+highSuffix),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), // otherwise it would see due events of aborted transactions
		kgo.DisableAutoCommit(),
		// The partitions of a poll must stay ours until its records are in the queue.
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(w.assigned),
		kgo.OnPartitionsRevoked(w.revoked),
		kgo.OnPartitionsLost(w.lost),
		// A lane that is created later is found within 5 s.
		kgo.MetadataMinAge(2*time.Second), kgo.MetadataMaxAge(4*time.Second),
		// A resumed partition has to wait for the fetch in flight.
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.FetchMaxBytes(w.fetchBytes), kgo.FetchMaxPartitionBytes(min(w.fetchBytes, partitionFetch)),
	)
}

// rebalanceMargin is the time that a member has to rejoin after it has given its partitions up.
const rebalanceMargin = 5 * time.Second

// partitionFetch bounds how much of a partition one fetch returns: a few hundred records. So
// little is discarded when the partition is paused, and an event of priority high does not wait
// long behind them. The client fetches again only when all of a fetch has been polled.
const partitionFetch = 64 << 10

const highSuffix = ".high"

// run polls until ctx ends. Handlers may outlive ctx and finish.
func (w *worker) run(ctx context.Context) error {
	base, abandon := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abandon(errAbandoned)
	helpers, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	for _, helper := range []func(context.Context){w.commitLoop, w.resumeLoop, w.askLoop} {
		wg.Go(func() { helper(helpers) })
	}
	dispatched := make(chan struct{})
	go func() {
		defer close(dispatched)
		w.dispatchLoop(helpers, base)
	}()
	for ctx.Err() == nil {
		w.poll(ctx)
	}
	err := w.drain(ctx)
	abandon(errAbandoned) // a hook of a batch that still runs
	stop()
	wg.Wait()
	if err == nil { // else it may be in a hook that ignores its context
		<-dispatched
	}
	return err
}

// poll reads records and puts them into the queue.
func (w *worker) poll(ctx context.Context) {
	fetches := w.consumer.PollRecords(ctx, w.pollMax())
	n := w.admit(fetches)
	w.consumer.AllowRebalance()
	if n > 0 {
		signal(w.wake)
		w.makeRoom(ctx)
		return
	}
	failed := false
	fetches.EachError(func(topic string, partition int32, err error) {
		if ctx.Err() == nil {
			failed = true
			w.failing.log(w.log, "cannot read due events; retrying", "topic", topic, "partition", partition,
				"error", err)
		}
	})
	if failed {
		pause(ctx, 100*time.Millisecond) // the client backs off by itself, but not for every error
	}
}

// admit adds polled records to the queue and returns how many there were.
func (w *worker) admit(fetches kgo.Fetches) (n int) {
	polled := w.now()
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) == 0 {
			return
		}
		n += len(p.Records)
		items := make([]*item, len(p.Records))
		for i, r := range p.Records {
			items[i] = w.decode(r)
		}
		w.take(topicPartition{p.Topic, p.Partition}, items, p.Records, polled)
	})
	return n
}

// decode creates an item. Its event is nil if the record is garbled.
func (w *worker) decode(r *kgo.Record) *item {
	it := &item{mark: mark{offset: r.Offset, epoch: r.LeaderEpoch}, bytes: sizeOf(r)}
	e, err := Decode(r)
	if err != nil {
		w.metrics.Garbled(garbledHeader(err))
		w.garbled.log(w.log, "skipped a record that is not a due event", "topic", r.Topic, "partition", r.Partition,
			"offset", r.Offset, "error", err)
		return it
	}
	e.High = r.Topic == w.topic+highSuffix
	it.event = e
	return it
}

// sizeOf estimates the bytes that a record uses in memory.
func sizeOf(r *kgo.Record) int64 {
	n := 512 + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return int64(n)
}

// take adds the items of one partition to the queue.
func (w *worker) take(tp topicPartition, items []*item, records []*kgo.Record, polled time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	part := w.parts[tp]
	if part == nil || part.gone {
		return // the worker is ending
	}
	for i, it := range items {
		w.observe(part, records[i], polled)
		it.part, it.polled = part, polled.UnixNano()
		part.tracker.add(&it.mark)
		part.records++
		part.bytes += it.bytes
		switch {
		case it.event == nil:
			w.done(it)
		case part.loaded:
			w.queue.add(it)
		default:
			part.held = append(part.held, it)
		}
	}
}

// observe gives the clock a record whose timestamp the broker has set.
func (w *worker) observe(part *partition, r *kgo.Record, polled time.Time) {
	if !w.byBroker(r) {
		return
	}
	var asked time.Time
	if part.asked != 0 && r.Offset >= part.end {
		asked = time.Unix(0, part.asked)
	}
	w.clock.observe(r.Timestamp, polled, asked)
}

// done is called when an item needs no more work. mu is held.
func (w *worker) done(it *item) {
	part := it.part
	part.tracker.finish(&it.mark)
	part.records--
	part.bytes -= it.bytes
	switch {
	case part.paused && w.hasRoom(part):
		signal(w.room)
	case part.full && w.hasRoom(part):
		signal(w.freed)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
