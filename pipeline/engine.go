package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/pipeline/dangling"
	"github.com/waterclock/waterclock/pipeline/output"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Engine runs the partitions that the consumer group gives to this process.
type Engine struct {
	opts   Options
	cl     *kgo.Client // membership, and offsets for readers
	due    *output.Topics
	adm    *kadm.Client
	cache  *statestore.Cache
	opener chan struct{} // bounds how many partitions open at once
	fatal  chan error
	told   map[int32]int64 // group offsets as committed; Run's alone

	endings dangling.Endings // of partitions that are being opened
	rounds  atomic.Uint32    // of rebalances that this member has asked for

	mu    sync.Mutex
	owned map[int32]*ownership
	lost  map[int32]*ownership // taken from us unheard; see lose
	tails map[int32]*tail      // standbys of what others own
	ends  map[int32]int64      // of commands, as of the last second

	stopping bool // nothing is taken any more

	filling chan struct{} // one standby at a time reads what is far behind
	opening atomic.Int32  // partitions we own that are not open
}

// New checks the options and makes an engine; Run starts it.
func New(o Options) (*Engine, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("engine options: %w", err)
	}
	e := &Engine{opts: o, owned: map[int32]*ownership{}, lost: map[int32]*ownership{}, tails: map[int32]*tail{}, filling: make(chan struct{}, 1), ends: map[int32]int64{}, told: map[int32]int64{}, opener: make(chan struct{}, o.OpenAtOnce), fatal: make(chan error, 1)}
	e.opts.clocks = &clocks{}
	e.opts.format = &atomic.Uint64{}
	e.opts.format.Store(uint64(topics.Oldest))
	e.opts.Kafka = append(slices.Clone(o.Kafka), kgo.WithDecompressor(e.opts.decompressor()))
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
	e.cl, e.adm, e.due = cl, kadm.NewClient(cl), output.New(e.opts.output(), cl)
	e.mu.Unlock()
	hangs := false
	defer func() { e.stop(cl, hangs) }()
	polled := make(chan struct{})
	pctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(polled)
		for pctx.Err() == nil { // drives the group; its partitions are paused
			for _, fe := range cl.PollFetches(pctx).Errors() {
				if pctx.Err() == nil {
					e.opts.Logger.Warn("taking part in the group failed; trying again", "group", e.opts.Group, "error", fe.Err)
					wait.For(pctx, time.Second)
				}
			}
		}
	}()
	defer func() { cancel(); <-polled }()
	var beside sync.WaitGroup
	defer beside.Wait()
	bctx, halt := context.WithCancel(ctx)
	defer halt()
	beside.Go(func() { e.watch(bctx) })
	if topics.Newest > topics.Oldest {
		beside.Go(func() { wait.Every(bctx, standbyLook, func() { e.agreeOnFormat(bctx) }) })
	}
	if e.opts.Standby > 0 {
		beside.Go(func() { e.standBy(bctx) })
	}
	if !e.opts.ServerAssigns {
		beside.Go(func() { e.adoptOrphans(bctx) })
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-e.fatal:
			hangs = errors.Is(err, errHangs)
			return err
		case <-ticker.C:
			e.measureLag(ctx)
			e.commitOffsets(ctx, cl, e.Partitions())
		}
	}
}

// stop ends the turns of every partition, then leaves the group, so that others
// take over at once, and closes the stores, which may have to wait for their
// disks. A partition that hangs does not hold up the others.
func (e *Engine) stop(cl *kgo.Client, hangs bool) {
	last := e.Partitions()
	e.mu.Lock()
	e.stopping = true
	var all []int32
	for p := range e.owned {
		all = append(all, p)
	}
	e.mu.Unlock()
	ending := e.give(all)
	patience := context.Background()
	if hangs {
		short, cancel := context.WithTimeout(patience, 2*time.Second)
		defer cancel()
		patience = short
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var leave func()
	var tails, beside sync.WaitGroup // while turns end: until others take over, nothing fires
	tails.Go(e.stopTails)
	beside.Go(func() { e.commitOffsets(ctx, cl, last) })
	beside.Go(func() { leave = e.readyToLeave(ctx, cl) })
	e.await(ending, (*ownership).lastTurn, patience.Done())
	beside.Wait()
	leave()
	e.await(ending, (*ownership).end, patience.Done())
	tails.Wait()
	if e.cache != nil {
		e.cache.Close()
	}
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
	owned, lost, ends := maps.Clone(e.owned), maps.Clone(e.lost), maps.Clone(e.ends)
	e.mu.Unlock()
	out := make([]Status, 0, len(owned)+len(lost))
	for id, own := range lost {
		if s, known := own.left(trigger.At(e.opts.Now())); known && owned[id] == nil {
			s.Doing = "wait for the group, which this process has lost"
			s.CommandsLag = max(0, ends[id]-s.CommandsOffset)
			out = append(out, s)
		}
	}
	for id, own := range owned { // without the lock: a store that hangs must not stop the group
		s := Status{Partition: id, Owner: e.opts.Address, Restored: own.read.Load(), RestoreTotal: own.toRead.Load()}
		last, known := own.left(trigger.At(e.opts.Now()))
		if known {
			s = last
		}
		if p, _ := own.get(); p != nil {
			s, known = p.status(), true
		}
		if known {
			s.CommandsLag = max(0, ends[id]-s.CommandsOffset)
		}
		s.Doing = string(own.doing())
		s.Refused, s.RefusedBecause = own.refusal()
		out = append(out, s)
	}
	return out
}

// Ready says whether every partition this process owns is restored and
// firing; false until the group has given it any.
func (e *Engine) Ready() bool { return e.Unready() == nil }

// Unready says what keeps this process from being ready; nil: nothing.
func (e *Engine) Unready() error {
	var errs []error
	parts := e.Partitions()
	for _, s := range parts {
		switch {
		case s.Ready:
		case s.Held:
			errs = append(errs, fmt.Errorf("partition %d holds firing: this node's clock is %v off the broker's, and nobody says which is right", s.Partition, s.ClockOffset.Round(time.Second)))
		case s.Refused != "":
			errs = append(errs, fmt.Errorf("partition %d is refused: %s", s.Partition, s.RefusedBecause))
		case s.RestoreTotal > 0:
			errs = append(errs, fmt.Errorf("partition %d: %s, %d of %d records", s.Partition, s.Doing, s.Restored, s.RestoreTotal))
		default:
			errs = append(errs, fmt.Errorf("partition %d: %s", s.Partition, s.Doing))
		}
	}
	if len(parts) == 0 {
		errs = append(errs, errors.New("the group has given this process no partition yet"))
	}
	return errors.Join(errs...)
}
