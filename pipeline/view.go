package pipeline

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/lateness"
	"github.com/waterclock/waterclock/internal/live"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Status describes a partition.
type Status struct {
	Partition      int32
	Owner          string
	Term           int64
	CommandsOffset int64 // next offset to read
	CommandsLag    int64
	Pending        int64
	Done           int64
	FiredThrough   trigger.Instant // everything due up to here has fired
	OldestOverdue  time.Duration
	ClockOffset    time.Duration
	Restored       int64  // records of topic state read, while restoring
	RestoreTotal   int64  // and how many there are
	Doing          string // step of opening, or of the turn
	Ready          bool
	Held           bool // clocks are too far apart to fire
	// Refused is why the partition must not be opened: gap, newer_format, second_writer,
	// topic_limit, disk_full; "" if it may.
	Refused        string
	RefusedBecause string // the reason in words
	StoreBytes     int64  // on disk
	Turns          int64
	ControlOffset  int64 // settings below it are applied
	Replanning     bool  // triggers are being resolved again after a setting changed
	TrimBelow      int64 // commands below it will never be read again
	// Retries are, by channel, the occurrences that wait to be sent again; nil: not counted yet
	Retries map[string]int64
}

// View is what other goroutines may see of a partition. All reads are answered from it.
type View struct {
	partition int32
	now       func() time.Time

	mu      sync.RWMutex
	store   *statestore.Store // nil: closed
	changed chan struct{}     // closed and replaced at every commit
	read    int64             // commands below it are decided and in the store
	next    trigger.Instant   // everything due before it has fired
	ending  bool              // a transaction is ending: readers of topics may see it before the store has it
	status  Status
	retries *retryCounts
	late    *lateness.Recent
	live    *live.Recent
	decided decided
	mends   mends
	behind  behind
	rouse   func() // ends the wait for records
}

// start shows a partition that is open.
func (v *View) start(p *Partition) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.partition, v.now = p.id, p.opts.Now
	v.retries, v.rouse, v.late, v.live = p.retries, p.kafka.watcher.Rouse, p.kept.late, p.kept.live
	v.late.Begin(int64(trigger.At(v.now())))
	v.store, v.changed, v.decided.by = p.store, make(chan struct{}), map[origin]outcome{}
	v.decided.most = p.opts.OutcomeMemory
	v.behind.after = p.opts.BehindAfter
	v.show(p.status(), p.consumer.barrier.Commands.At(), p.timers.next())
}

// shut sends readers to the next owner. It waits for reads that are under way.
func (v *View) shut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.store = nil
	v.status.Ready = false
	if v.changed != nil {
		close(v.changed)
		v.changed = nil
	}
}

// end marks that readers of topics may from now on know more than the store. Readers of the
// store wait for publish.
func (v *View) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ending = true
}

// publish shows a committed turn: its decisions, the position that it read up to, and the
// time before which everything has fired.
func (v *View) publish(decisions []decision, s Status, read int64, next trigger.Instant) {
	v.decided.add(decisions, time.Now())
	v.mu.Lock()
	defer v.mu.Unlock()
	v.show(s, read, next)
	v.ending = false
	v.wake()
}

// showPosition shows a position without a turn: markers and aborted records move it, too.
func (v *View) showPosition(read int64, next trigger.Instant) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.read < read {
		v.read = read
		v.wake()
	}
	v.next = next
}

// showNext shows the time before which everything has fired.
func (v *View) showNext(next trigger.Instant) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.next = next
}

func (v *View) show(s Status, read int64, next trigger.Instant) {
	v.status, v.read, v.next = s, max(v.read, s.CommandsOffset, read), next
}

// wake lets waiting readers check.
func (v *View) wake() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// ErrNotOwner sends a reader to the partition's present owner.
var ErrNotOwner = &trigger.Error{Code: trigger.CodeNotOwner, Msg: "the partition moved; try again"}

// Await waits until every command acknowledged before the call is decided and in the store.
// It is the read barrier of readers. commands reads the ends of topic commands.
func (v *View) Await(ctx context.Context, commands *kafkapart.EndReader) error {
	end, err := commands.End(ctx, v.partition)
	if err != nil {
		return fmt.Errorf("read barrier: %w", err)
	}
	return v.AwaitOffset(ctx, end)
}

// AwaitOffset waits until commands below offset are decided.
func (v *View) AwaitOffset(ctx context.Context, offset int64) error {
	for {
		v.mu.RLock()
		read, changed, ending := v.read, v.changed, v.ending
		v.mu.RUnlock()
		if changed == nil {
			return ErrNotOwner
		}
		if read >= offset && !ending {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Snapshot returns a consistent snapshot of the store.
func (v *View) Snapshot() (*statestore.Snapshot, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.store == nil {
		return nil, ErrNotOwner
	}
	return v.store.Snapshot(), nil
}

// NextUnfired returns the due time below which everything has fired.
func (v *View) NextUnfired() trigger.Instant {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.next
}

// Status describes the partition.
func (v *View) Status() Status {
	v.mu.RLock()
	defer v.mu.RUnlock()
	s := v.status
	now := trigger.At(v.now())
	s.CommandsOffset = v.read
	s.FiredThrough, s.OldestOverdue = min(now, v.next-1), max(0, now.Sub(v.next))
	if v.store != nil {
		s.StoreBytes, s.Retries = int64(v.store.Stats().DiskBytes), v.retries.all()
	}
	return s
}

// Lateness reports how late the due events of a tenant were, or of all if it is empty.
func (v *View) Lateness(now trigger.Instant, w lateness.Window, tenant string) (lateness.Report, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.store == nil {
		return lateness.Report{}, ErrNotOwner
	}
	return v.late.Report(int64(now), w, tenant), nil
}

// Behind is how late the oldest timer of a tenant is, if the tenant's timers fall due faster than they fire;
// else 0.
func (v *View) Behind(tenant string) time.Duration {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.store == nil {
		return 0
	}
	return v.behind.of(tenant, time.Now())
}

// News answers who watches tenants. It goes by the owner's clock, as turns do.
func (v *View) News(asked []live.Asked) ([]live.News, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.store == nil {
		return nil, ErrNotOwner
	}
	return v.live.News(int64(trigger.At(v.now())), asked), nil
}

// Get reads a trigger from the store as it is.
func (v *View) Get(key trigger.Key) (*trigger.State, error) {
	sn, err := v.Snapshot()
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

// Decision returns the outcome of the command that was first appended at (partition,
// offset) with topics.HeaderAsk. It waits until the command is decided. ok is false if the
// outcome is not kept any more.
func (v *View) Decision(ctx context.Context, partition int32, offset int64) (d Decided, ok bool, err error) {
	if v.partition == partition {
		if err := v.AwaitOffset(ctx, offset+1); err != nil {
			return Decided{}, false, err
		}
	}
	d, ok = v.decided.get(origin{partition, offset})
	return d, ok, nil
}
