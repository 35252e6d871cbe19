package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/trigger"
)

// Engine runs the partitions that the consumer group gives to this process.
type Engine struct {
	process   *pipeline.Process
	cl        *kgo.Client // group membership, and offsets for readers
	adm       *kadm.Client
	barriers  *kafkapart.EndReader // ends of topic commands, for reads
	opener    chan struct{}        // bounds how many partitions open at once
	fatal     chan error
	committed map[int32]int64 // group offsets; only Run uses it

	rounds atomic.Uint32 // how many rebalances this member has asked for

	agreeing  atomic.Bool   // agreeing on a format before the first turn
	agreed    chan struct{} // closed when the agreement is done
	readByAll atomic.Uint64 // the newest format that every member reads; 0: not known yet

	mu    sync.Mutex
	owned map[int32]*ownership
	lost  map[int32]*ownership // partitions that the group took without notice; see onLost
	tails map[int32]*tail      // standbys of partitions that others own
	ends  map[int32]int64      // end offsets of topic commands, at most a second old
	uses  map[int32]*use       // of stores; see hold

	stopping bool                 // no partition is accepted any more
	ending   map[int32]*ownership // ownerships that stop waits for

	disk     diskState
	identity atomic.Pointer[Identity] // which topics we mean; set before we join

	filling chan struct{} // one standby at a time reads if it is far behind
	opening atomic.Int32  // number of openings under way
}

// New checks the options and makes an engine. Run starts it.
func New(o pipeline.Options) (*Engine, error) {
	p, err := pipeline.NewProcess(o)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		process: p, owned: map[int32]*ownership{}, lost: map[int32]*ownership{}, tails: map[int32]*tail{},
		uses:    map[int32]*use{},
		filling: make(chan struct{}, 1), ends: map[int32]int64{}, committed: map[int32]int64{},
		opener: make(chan struct{}, p.OpenAtOnce), fatal: make(chan error, 1), agreed: make(chan struct{}),
		disk: diskState{woken: make(chan struct{}, 1)},
	}
	p.NoRoom = e.disk.noRoom
	return e, nil
}

// Run takes part in the group until ctx ends, then hands over cleanly. It returns an error
// only if an operator must act: after a log gap, or when the topics do not fit the
// settings.
func (e *Engine) Run(ctx context.Context) error {
	if err := e.mayJoin(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	e.mu.Lock() // a partition needs cl and adm: none is accepted before they are set
	cl, err := kgo.NewClient(e.groupOptions()...)
	if err != nil {
		e.mu.Unlock()
		return fmt.Errorf("group client: %w", err)
	}
	e.cl, e.adm = cl, kadm.NewClient(cl)
	e.barriers = kafkapart.NewEndReader(cl, e.process.Names.Commands(), kafkapart.ReadCommitted)
	e.process.Connect(cl) // its own partitions are paused
	e.mu.Unlock()
	hangs := false
	defer func() { e.stop(cl, hangs) }()
	polled := make(chan struct{})
	pctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(polled)
		for pctx.Err() == nil { // keeps the membership alive; the partitions are paused
			e.groupFailed(pctx, cl.PollFetches(pctx).Errors())
		}
	}()
	defer func() { cancel(); <-polled }()
	var beside sync.WaitGroup
	defer beside.Wait()
	bctx, halt := context.WithCancel(ctx)
	defer halt()
	beside.Go(func() { e.watch(bctx) })
	beside.Go(func() { e.watchDisk(bctx) })
	beside.Go(func() { e.watchGroup(bctx) })
	beside.Go(func() { e.removeUnused(bctx) })
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

// stop ends the turns of every partition and leaves the group, so that others take over at
// once. Then it closes the stores, which may wait for their disks. A partition that hangs
// does not delay the others.
func (e *Engine) stop(cl *kgo.Client, hangs bool) {
	last := e.Partitions()
	e.mu.Lock()
	e.stopping = true
	var all []int32
	for p := range e.owned {
		all = append(all, p)
	}
	e.mu.Unlock()
	e.sayMoved("partitions given up", all, "this process stops")
	ending := e.stopOwning(all)
	e.mu.Lock()
	e.ending = ending
	e.mu.Unlock()
	deadline := context.Background()
	if hangs {
		short, cancel := context.WithTimeout(deadline, 2*time.Second)
		defer cancel()
		deadline = short
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var leave func()
	var tails, beside sync.WaitGroup // beside the last turns, because nothing fires until others take over
	tails.Go(e.stopTails)
	beside.Go(func() { e.commitOffsets(ctx, cl, last) })
	beside.Go(func() { leave = e.readyToLeave(ctx, cl) })
	e.await(ending, (*ownership).untilTurnsEnded, deadline.Done())
	beside.Wait()
	leave()
	e.await(ending, (*ownership).untilClosed, deadline.Done())
	tails.Wait()
	e.process.Close()
}

// partition returns the view of an open partition of this process.
func (e *Engine) partition(id int32) (*pipeline.View, error) {
	e.mu.Lock()
	own := e.owned[id]
	e.mu.Unlock()
	if own == nil {
		return nil, pipeline.ErrNotOwner
	}
	p, _ := own.get()
	if p == nil {
		return nil, &trigger.Error{Code: trigger.CodeNotOwner, Msg: "the partition is being restored; try again"}
	}
	return p, nil
}

// Timetable returns a copy of the tz database and calendars in force.
func (e *Engine) Timetable() *trigger.Timetable { return e.process.Timetable() }

// setLag notes how many commands wait to be decided. end is where the partition's commands end.
func setLag(s *pipeline.Status, end int64) { s.CommandsLag = max(0, end-s.CommandsOffset) }

// Partitions returns the status of every partition that this process owns.
func (e *Engine) Partitions() []pipeline.Status {
	e.mu.Lock()
	owned, lost, ends := maps.Clone(e.owned), maps.Clone(e.lost), maps.Clone(e.ends)
	e.mu.Unlock()
	disk := e.Disk()
	full := "the disk of " + e.process.Dir + " is full, and no other member has taken it yet: " + disk.Why
	out := make([]pipeline.Status, 0, len(owned)+len(lost))
	for id, own := range lost {
		if s, known := own.lastKnown(trigger.At(e.process.Now())); known && owned[id] == nil {
			s.Doing = "this process has lost its membership in the group; wait until it has joined again"
			if disk.Full {
				s.Doing, s.Refused, s.RefusedBecause = string(pipeline.StepRefused), pipeline.RefusedDisk, full
			}
			setLag(&s, ends[id])
			out = append(out, s)
		}
	}
	for id, own := range owned { // without the lock: a store that hangs must not stop the group
		s := pipeline.Status{Partition: id, Owner: e.process.Address}
		s.Restored, s.RestoreTotal = own.kept.Restored()
		last, known := own.lastKnown(trigger.At(e.process.Now()))
		if known {
			s = last
		}
		if p, _ := own.get(); p != nil {
			s, known = p.Status(), true
		}
		if known {
			setLag(&s, ends[id])
		}
		s.Doing = string(own.kept.Doing())
		s.Refused, s.RefusedBecause = own.refusal()
		out = append(out, s)
	}
	return out
}

// Ready reports whether this process owns partitions and all of them are restored and
// firing.
func (e *Engine) Ready() bool { return e.Unready() == nil }

// groupFailed logs the last failure of one poll, and waits. All of one poll are told together: a pause for each would
// have the log speak of an outage long after its end.
func (e *Engine) groupFailed(ctx context.Context, all []kgo.FetchError) {
	if len(all) == 0 || ctx.Err() != nil {
		return
	}
	e.process.Logger.Warn("the group client failed; retrying", "group", e.process.Group,
		"error", all[len(all)-1].Err)
	wait.For(ctx, time.Second)
}

// Unready says why this process is not ready; nil if it is.
func (e *Engine) Unready() error {
	var errs []error
	parts := e.Partitions()
	disk := e.Disk()
	if disk.Full {
		errs = append(errs, fmt.Errorf("the disk of %s is full (%s): this process owns no partitions until there is "+
			"room: free some space", e.process.Dir, disk.Why))
	}
	errs = append(errs, unready(parts)...)
	if len(parts) == 0 && !disk.Full {
		errs = append(errs, errors.New("the group has given this process no partition yet"))
	}
	return errors.Join(errs...)
}

// unready says why partitions do not fire. Those that wait for the same, which often is all of them, share a line.
func unready(parts []pipeline.Status) (errs []error) {
	waits, held := map[string][]int32{}, map[time.Duration][]int32{}
	for _, s := range parts {
		switch {
		case s.Ready:
		case s.Held:
			off := s.ClockOffset.Round(time.Second)
			held[off] = append(held[off], s.Partition)
		case s.Refused != "":
			errs = append(errs, fmt.Errorf("partition %d is refused: %s", s.Partition, s.RefusedBecause))
		case s.Restored < s.RestoreTotal && s.Doing == string(pipeline.StepRestore):
			errs = append(errs, fmt.Errorf("partition %d: %s, %d of %d records",
				s.Partition, s.Doing, s.Restored, s.RestoreTotal))
		default:
			waits[s.Doing] = append(waits[s.Doing], s.Partition)
		}
	}
	for _, off := range slices.Sorted(maps.Keys(held)) {
		errs = append(errs, fmt.Errorf("%s firing: this node's clock is %v off the broker's, and no second broker "+
			"confirms either", holders(held[off]), off))
	}
	for _, doing := range slices.Sorted(maps.Keys(waits)) {
		slices.Sort(waits[doing])
		errs = append(errs, fmt.Errorf("partitions %d: %s", waits[doing], doing))
	}
	return errs
}

// heldNamed is how many of the partitions that hold firing are named; the others are counted. A wrong clock holds all
// of them.
const heldNamed = 3

func holders(parts []int32) string {
	if len(parts) == 1 {
		return fmt.Sprintf("partition %d holds", parts[0])
	}
	slices.Sort(parts)
	names := fmt.Sprint(parts[0])
	for _, p := range parts[1:min(len(parts), heldNamed)] {
		names += fmt.Sprintf(", %d", p)
	}
	if more := len(parts) - heldNamed; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%d partitions (%s) hold", len(parts), names)
}

// Ending lists the partitions that are still closing, and their steps. It explains why Run
// does not return; "" if there are none.
func (e *Engine) Ending() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []string
	for id, own := range e.ending {
		select {
		case <-own.closed:
		default:
			all = append(all, fmt.Sprintf("partition %d at step %q", id, own.kept.Doing()))
		}
	}
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return " (" + strings.Join(all, ", ") + ")"
}
