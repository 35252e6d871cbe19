package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Engine runs the partitions that the consumer group gives to this process.
type Engine struct {
	opts   Options
	cl     *kgo.Client // membership, and offsets for readers
	due    *dueTopics
	cache  *statestore.Cache
	opener chan struct{} // bounds how many partitions open at once
	fatal  chan error
	told   map[int32]int64 // group offsets as committed; Run's alone

	mu    sync.Mutex
	owned map[int32]*ownership
	ends  map[int32]int64 // of commands, as of the last second
}

// New checks the options and makes an engine; Run starts it.
func New(o Options) (*Engine, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("engine options: %w", err)
	}
	e := &Engine{opts: o, owned: map[int32]*ownership{}, ends: map[int32]int64{}, told: map[int32]int64{}, opener: make(chan struct{}, o.OpenAtOnce), fatal: make(chan error, 1)}
	e.opts.timetable = &atomic.Pointer[trigger.Timetable]{}
	e.opts.timetable.Store(o.Machine.Timetable.Fork())
	if o.Cache == nil {
		e.cache = statestore.NewCache(256 << 20)
		e.opts.Cache = e.cache
	}
	return e, nil
}

// Run takes part in the group until ctx ends, then hands over cleanly. It
// returns an error only for what an operator must decide: a gap, topics that
// do not fit.
func (e *Engine) Run(ctx context.Context) error {
	e.mu.Lock() // no partition is taken before there is what it needs
	cl, err := kgo.NewClient(e.groupOptions()...)
	if err != nil {
		e.mu.Unlock()
		return fmt.Errorf("group client: %w", err)
	}
	e.opts.asker = cl // its own partitions are paused
	e.cl, e.due = cl, newDueTopics(&e.opts, kadm.NewClient(cl))
	e.mu.Unlock()
	defer e.stop(cl)
	polled := make(chan struct{})
	pctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(polled)
		for pctx.Err() == nil { // drives the group; its partitions are paused
			for _, fe := range cl.PollFetches(pctx).Errors() {
				if pctx.Err() == nil {
					e.opts.Logger.Warn("taking part in the group failed; trying again", "group", e.opts.Group, "error", fe.Err)
					sleep(pctx, time.Second)
				}
			}
		}
	}()
	defer func() { cancel(); <-polled }()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-e.fatal:
			return err
		case <-ticker.C:
			e.measureLag(ctx)
			e.commitOffsets(ctx, cl)
		}
	}
}

func (e *Engine) groupOptions() []kgo.Opt {
	o := &e.opts
	opts := append([]kgo.Opt{
		kgo.ConsumerGroup(o.Group),
		kgo.ConsumeTopics(o.Names.Commands()),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(o.SessionTimeout),
		kgo.HeartbeatInterval(o.SessionTimeout / 6),
		kgo.RebalanceTimeout(5 * time.Second),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.MetadataMaxAge(5 * time.Second),
		kgo.RetryBackoffFn(retryBackoff),
		kgo.DisableClientMetrics(),
		kgo.OnPartitionsAssigned(func(_ context.Context, cl *kgo.Client, a map[string][]int32) {
			cl.PauseFetchPartitions(a) // membership only: partitions fetch for themselves
			e.take(a[o.Names.Commands()])
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, r map[string][]int32) { e.release(r[o.Names.Commands()]) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, r map[string][]int32) { e.release(r[o.Names.Commands()]) }),
	}, o.Kafka...)
	if o.InstanceID != "" {
		opts = append(opts, kgo.InstanceID(o.InstanceID))
	}
	return opts
}

// stop closes every partition, then leaves the group, so that others take over
// at once.
func (e *Engine) stop(cl *kgo.Client) {
	e.mu.Lock()
	var all []int32
	for p := range e.owned {
		all = append(all, p)
	}
	e.mu.Unlock()
	e.release(all)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	e.commitOffsets(ctx, cl)
	if e.opts.InstanceID != "" { // kgo does not leave for static members
		leaveStatic(ctx, cl, e.opts.Group, e.opts.InstanceID)
	}
	cl.CloseAllowingRebalance()
	if e.cache != nil {
		e.cache.Close()
	}
}

// measureLag asks where the partitions of commands end.
func (e *Engine) measureLag(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	ends, err := e.due.adm.ListEndOffsets(ctx, e.opts.Names.Commands())
	if err != nil {
		return // the next second tells
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	ends.Each(func(o kadm.ListedOffset) {
		if o.Err == nil {
			e.ends[o.Partition] = o.Offset
		}
	})
}

// commitOffsets writes group offsets outside the transactions, for lag tools
// alone: the offsets that count are in progress. It is a plain request, since
// kgo's own commits wait for a rebalance to end.
func (e *Engine) commitOffsets(ctx context.Context, cl *kgo.Client) {
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = e.opts.Names.Commands()
	for _, s := range e.Partitions() {
		if s.Ready && e.told[s.Partition] != s.CommandsOffset {
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset = s.Partition, s.CommandsOffset
			topic.Partitions = append(topic.Partitions, p)
		}
	}
	member, generation := cl.GroupMetadata()
	if len(topic.Partitions) == 0 || generation < 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var err error
	if topic.TopicID, err = topicID(ctx, cl, topic.Topic); err != nil {
		return // the next second tells
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = e.opts.Group, member, generation
	if e.opts.InstanceID != "" {
		req.InstanceID = kmsg.StringPtr(e.opts.InstanceID)
	}
	req.Topics = append(req.Topics, topic)
	if resp, err := req.RequestWith(ctx, cl); err == nil {
		e.noteCommitted(req, resp)
	}
}

// noteCommitted remembers which offsets were taken.
func (e *Engine) noteCommitted(req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse) {
	taken := map[int32]bool{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			taken[p.Partition] = p.ErrorCode == 0
		}
	}
	for _, p := range req.Topics[0].Partitions {
		if taken[p.Partition] {
			e.told[p.Partition] = p.Offset
		}
	}
}

// ownership is one partition as long as the group says it is ours: opened,
// run, and opened again after every failure.
type ownership struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	current *Partition // nil while it opens
	failure error
}

func (e *Engine) take(partitions []int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range partitions {
		if e.owned[id] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		own := &ownership{cancel: cancel, done: make(chan struct{})}
		e.owned[id] = own
		go func() {
			defer close(own.done)
			e.own(ctx, own, id)
		}()
	}
}

// release closes partitions and waits until their last turn is over: only
// then may the rebalance go on.
func (e *Engine) release(partitions []int32) {
	e.mu.Lock()
	var gone []*ownership
	for _, id := range partitions {
		if own := e.owned[id]; own != nil {
			gone = append(gone, own)
			delete(e.owned, id)
		}
	}
	e.mu.Unlock()
	for _, own := range gone {
		own.cancel()
	}
	for _, own := range gone {
		<-own.done
	}
}

// own opens and runs a partition until it is released.
func (e *Engine) own(ctx context.Context, own *ownership, id int32) {
	sick := map[string]*sickness{}
	pause := backoff{}
	for ctx.Err() == nil {
		began := time.Now()
		err := e.openAndRun(ctx, own, id, sick)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, ErrGap) || errors.Is(err, ErrPartitions) {
			select {
			case e.fatal <- err:
			default:
			}
		}
		e.opts.Logger.Warn("partition failed; opening it again", "partition", id, "error", err)
		sleep(ctx, pause.next(err, time.Since(began)))
	}
}

func (e *Engine) openAndRun(ctx context.Context, own *ownership, id int32, sick map[string]*sickness) error {
	p, err := e.open(ctx, id, sick)
	if err != nil {
		own.set(nil, err)
		return fmt.Errorf("open: %w", err)
	}
	defer p.close()
	fctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { p.forward.run(fctx) })
	defer wg.Wait()
	defer p.forward.close()
	defer cancel()
	own.set(p, nil)
	defer own.set(nil, nil)
	err = p.run(ctx)
	p.diagnose(err)
	return err
}

func (e *Engine) open(ctx context.Context, id int32, sick map[string]*sickness) (*Partition, error) {
	select {
	case e.opener <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-e.opener }()
	return open(ctx, &e.opts, id, e.due, sick)
}

func (o *ownership) set(p *Partition, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.current, o.failure = p, err
}

func (o *ownership) get() (*Partition, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.current, o.failure
}

// backoff spaces the openings of a partition that keeps failing. A fenced
// owner waits for the group to decide, or two owners would ping-pong.
type backoff struct{ tries int }

func (b *backoff) next(err error, ran time.Duration) time.Duration {
	if ran > 30*time.Second {
		b.tries = 0
	}
	b.tries++
	switch {
	case errors.Is(err, kerr.ProducerFenced), errors.Is(err, kerr.InvalidProducerEpoch):
		return 3 * time.Second
	case errors.Is(err, ErrGap), errors.Is(err, ErrPartitions):
		return time.Minute
	}
	return min(50*time.Millisecond<<min(b.tries-1, 7), 5*time.Second)
}

// partition is the open partition with this number.
func (e *Engine) partition(id int32) (*Partition, error) {
	e.mu.Lock()
	own := e.owned[id]
	e.mu.Unlock()
	if own == nil {
		return nil, errNotOwner
	}
	p, _ := own.get()
	if p == nil {
		return nil, &trigger.Error{Code: trigger.CodeNotOwner, Msg: "the partition is being restored; try again"}
	}
	return p, nil
}

// Timetable is the tz database and calendars in force, for the caller alone.
func (e *Engine) Timetable() *trigger.Timetable { return e.opts.timetable.Load().Fork() }

// Partitions is the status of every partition this process owns.
func (e *Engine) Partitions() []Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]Status, 0, len(e.owned))
	for id, own := range e.owned {
		if p, _ := own.get(); p != nil {
			s := p.status()
			s.CommandsLag = max(0, e.ends[id]-s.CommandsOffset)
			out = append(out, s)
		} else {
			out = append(out, Status{Partition: id, Owner: e.opts.Address})
		}
	}
	return out
}

// Ready says whether every partition this process owns is restored and
// firing; false until the group has given it any.
func (e *Engine) Ready() bool {
	parts := e.Partitions()
	for _, s := range parts {
		if !s.Ready {
			return false
		}
	}
	return len(parts) > 0
}

// Get reads a trigger as every command acknowledged so far left it.
func (e *Engine) Get(ctx context.Context, key trigger.Key) (*trigger.State, error) {
	p, err := e.partition(topics.Partition([]byte(key), e.opts.Partitions))
	if err != nil {
		return nil, err
	}
	if err := p.await(ctx, e.cl); err != nil {
		return nil, err
	}
	return p.get(key)
}

func (p *Partition) get(key trigger.Key) (*trigger.State, error) {
	sn, err := p.snapshot()
	if err != nil {
		return nil, err
	}
	defer sn.Close()
	value, err := sn.Get(key, nil)
	if err != nil || value == nil {
		return nil, err
	}
	return topics.DecodeState(key, value)
}

// Outcome says what became of a command that was first appended at
// (partition, offset) with topics.HeaderAsk; it waits until the command is decided.
// ok is false when the outcome is not remembered any more.
func (e *Engine) Outcome(ctx context.Context, key trigger.Key, partition int32, offset int64) (Decided, bool, error) {
	p, err := e.partition(topics.Partition([]byte(key), e.opts.Partitions))
	if err != nil {
		return Decided{}, false, err
	}
	if p.id == partition {
		if err := p.awaitOffset(ctx, offset+1); err != nil {
			return Decided{}, false, err
		}
	}
	d, ok := p.view.decided.get(origin{partition, offset})
	return d, ok, nil
}

// Scan calls f for the triggers of one owned partition in key order until f
// returns false. It sees every command acknowledged before the call.
func (e *Engine) Scan(ctx context.Context, partition int32, after trigger.Key, f func(*trigger.State) bool) error {
	return e.look(ctx, partition, func(sn *statestore.Snapshot) error {
		var bad error
		err := sn.Scan(after, func(key trigger.Key, value []byte) bool {
			s, err := topics.DecodeState(key, value)
			if bad = errors.Join(err, ctx.Err()); bad != nil {
				return false
			}
			return f(s)
		})
		return errors.Join(bad, err)
	})
}

// ScanUser is Scan for the triggers of one user, by their next due time.
func (e *Engine) ScanUser(ctx context.Context, partition int32, tenant, user string, after statestore.UserCursor, f func(statestore.UserCursor, *trigger.State) bool) error {
	return e.look(ctx, partition, func(sn *statestore.Snapshot) error {
		var bad error
		err := sn.ScanUser(tenant, user, after, func(at statestore.UserCursor, value []byte) bool {
			s, err := topics.DecodeState(at.Key, value)
			if bad = errors.Join(err, ctx.Err()); bad != nil {
				return false
			}
			return f(at, s)
		})
		return errors.Join(bad, err)
	})
}

// look opens a snapshot of an owned partition behind the read barrier.
func (e *Engine) look(ctx context.Context, partition int32, f func(*statestore.Snapshot) error) error {
	p, err := e.partition(partition)
	if err != nil {
		return err
	}
	if err := p.await(ctx, e.cl); err != nil {
		return err
	}
	sn, err := p.snapshot()
	if err != nil {
		return err
	}
	defer sn.Close()
	return f(sn)
}

// leaveStatic takes a static member out of the group, so that its partitions
// are given away at once rather than after the session time-out.
func leaveStatic(ctx context.Context, cl *kgo.Client, group, instance string) {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = group
	m := kmsg.NewLeaveGroupRequestMember()
	m.InstanceID = kmsg.StringPtr(instance)
	req.Members = append(req.Members, m)
	_, _ = req.RequestWith(ctx, cl)
}
