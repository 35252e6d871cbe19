package pipeline

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Status is what a partition says of itself.
type Status struct {
	Partition      int32
	Owner          string
	Term           int64
	CommandsOffset int64 // next to read
	CommandsLag    int64
	Pending        int64
	Done           int64
	FiredThrough   trigger.Instant // everything due up to here has fired
	OldestOverdue  time.Duration
	ClockOffset    time.Duration
	Restored       int64  // records read of topic state, while restoring
	RestoreTotal   int64  // of so many
	Doing          string // step of opening, or of the turn
	Ready          bool
	Held           bool // clocks are too far apart to fire
	// why it must not be opened: gap, newer_format, second_writer, disk_full; "" if nothing is known against
	// it
	Refused        string
	RefusedBecause string // in words
	StoreBytes     int64  // on disk
	Turns          int64
	ControlOffset  int64 // settings below it are applied
	Replanning     bool  // triggers are being resolved again after a setting changed
	TrimBelow      int64 // commands below it will never be read again
}

// Decided is what became of one command: what a gateway answers a caller.
type Decided struct {
	State    *trigger.State // its Summary, as the command left it; nil for an unknown key
	Rejected *trigger.Error
	Facts    []trigger.FactType
}

// keepDecided is how long a partition remembers outcomes for gateways, which ask
// within seconds. Options.OutcomeMemory bounds them, too.
const keepDecided = time.Minute

// decided remembers the outcomes of the latest commands by their first
// append. It is a convenience with a bound: what it lost can be read from the
// trigger itself.
type decided struct {
	mu    sync.Mutex
	by    map[origin]Decided
	order []keptDecision // oldest first
	bytes int
	most  int // of bytes
}

// keptDecision is an outcome in the order they came.
type keptDecision struct {
	at    origin
	since time.Time
	bytes int
}

// origin is where a command was first appended: what its producer knows.
type origin struct {
	partition int32
	offset    int64
}

// decision waits in the turn until it is committed.
type decision struct {
	at      origin
	decided Decided
}

func (d *decided) add(decisions []decision, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range decisions {
		r := keptDecision{o.at, now, o.decided.size()}
		d.by[o.at] = o.decided
		d.order, d.bytes = append(d.order, r), d.bytes+r.bytes
	}
	n := 0
	for n < len(d.order) && (d.bytes > d.most || now.Sub(d.order[n].since) > keepDecided) {
		delete(d.by, d.order[n].at)
		d.bytes -= d.order[n].bytes
		n++
	}
	d.order = d.order[n:]
}

// size is about what an outcome takes in memory, with its place in the map.
func (d *Decided) size() int {
	n := 256 + 16*len(d.Facts)
	if d.State != nil {
		n += d.State.SummarySize()
	}
	if d.Rejected != nil {
		n += len(d.Rejected.Field) + len(d.Rejected.Msg)
	}
	return n
}

func (d *decided) get(at origin) (Decided, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o, ok := d.by[at]
	return o, ok
}

// answer notes the outcome of a command somebody will ask for.
func (p *Partition) answer(t *turn, rec *topics.Record, e *entry, out *trigger.Outcome) {
	asked := false
	for _, h := range rec.Headers {
		asked = asked || h.Key == topics.HeaderAsk
	}
	if !asked {
		return
	}
	d := Decided{Rejected: out.Rejected}
	if e.state != nil {
		d.State = e.state.Summary()
	}
	for _, f := range out.Facts {
		d.Facts = append(d.Facts, f.Type)
	}
	t.decisions = append(t.decisions, decision{origin{rec.Partition, rec.Offset}, d})
}

// view is what other goroutines may see of a partition.
type view struct {
	mu      sync.RWMutex
	store   *statestore.Store // nil: closed
	changed chan struct{}     // closed and replaced at every commit
	read    int64             // commands below it are decided and in the store
	next    trigger.Instant   // everything due before it has fired
	ending  bool              // a transaction is being ended: others may see it before the store has it
	status  Status
	decided decided
}

func (v *view) start(p *Partition) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.store, v.changed, v.decided.by = p.store, make(chan struct{}), map[origin]Decided{}
	v.decided.most = p.opts.OutcomeMemory
	v.fill(p)
}

// shut makes readers go elsewhere; it waits for those under way.
func (v *view) shut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.store = nil
	v.status.Ready = false
	if v.changed != nil {
		close(v.changed)
		v.changed = nil
	}
}

// publish shows a committed turn to readers.
func (p *Partition) publish(t *turn) {
	p.view.decided.add(t.decisions, time.Now())
	p.view.mu.Lock()
	defer p.view.mu.Unlock()
	p.view.fill(p)
	p.view.ending = false
	close(p.view.changed)
	p.view.changed = make(chan struct{})
}

// end marks the moment from which a reader of topics may know more than the
// store: readers wait for publish.
func (v *view) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ending = true
}

// showPosition shows how far reading got when there was nothing to decide: markers
// and aborted records move the position without a turn.
func (p *Partition) showPosition() {
	p.view.mu.Lock()
	defer p.view.mu.Unlock()
	if read := p.barrier.Commands.At(); p.view.read < read {
		p.view.read = read
		close(p.view.changed)
		p.view.changed = make(chan struct{})
	}
	p.view.next = p.timers.next()
}

func (v *view) fill(p *Partition) {
	v.read = max(v.read, p.progress.NextCommand, p.barrier.Commands.At())
	v.status = Status{
		Partition: p.id, Owner: p.opts.Address, Term: p.progress.Term, CommandsOffset: p.progress.NextCommand,
		Pending: p.store.PendingCount(), Done: p.store.DoneCount(), Turns: p.progress.Seq,
		ClockOffset: p.clock.offset, Held: p.clock.held, Ready: !p.clock.held,
		ControlOffset: p.progress.NextControl, Replanning: p.replan != nil, TrimBelow: p.trimBelow(),
	}
	v.next = p.timers.next()
}

// trimBelow is how far back a successor may have to read commands: to what is
// not applied, or not yet forwarded.
func (p *Partition) trimBelow() int64 {
	_, from := p.opts.unforwarded(p.progress.Forwarded, p.opts.Names.Commands(), p.progress.NextCommand)
	return from
}

// ErrNotOwner sends a reader to whoever owns the partition now.
var ErrNotOwner = &trigger.Error{Code: trigger.CodeNotOwner, Msg: "the partition moved; try again"}

// Await waits until every command acknowledged before the call is decided and
// in the store: the read barrier of readers.
func (p *Partition) Await(ctx context.Context, cl *kgo.Client) error {
	end, err := kafkapart.ListOffset(ctx, cl, p.opts.Names.Commands(), p.id, kafkapart.ReadCommitted, kafkapart.Latest)
	if err != nil {
		return fmt.Errorf("read barrier: %w", err)
	}
	return p.AwaitOffset(ctx, end)
}

// AwaitOffset waits until commands below offset are decided.
func (p *Partition) AwaitOffset(ctx context.Context, offset int64) error {
	for {
		p.view.mu.RLock()
		read, changed, ending := p.view.read, p.view.changed, p.view.ending
		p.view.mu.RUnlock()
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

// Snapshot is a consistent look at the store.
func (p *Partition) Snapshot() (*statestore.Snapshot, error) {
	p.view.mu.RLock()
	defer p.view.mu.RUnlock()
	if p.view.store == nil {
		return nil, ErrNotOwner
	}
	return p.view.store.Snapshot(), nil
}

// NextUnfired is the due time below which everything has fired.
func (p *Partition) NextUnfired() trigger.Instant {
	p.view.mu.RLock()
	defer p.view.mu.RUnlock()
	return p.view.next
}

// Status is what the partition says of itself.
func (p *Partition) Status() Status {
	p.view.mu.RLock()
	defer p.view.mu.RUnlock()
	s := p.view.status
	now := trigger.At(p.opts.Now())
	s.CommandsOffset = p.view.read
	s.FiredThrough, s.OldestOverdue = min(now, p.view.next-1), max(0, now.Sub(p.view.next))
	if p.view.store != nil {
		s.StoreBytes = int64(p.view.store.Stats().DiskBytes)
	}
	return s
}

// Get reads a trigger from the store as it is.
func (p *Partition) Get(key trigger.Key) (*trigger.State, error) {
	sn, err := p.Snapshot()
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

// Decision is what became of a command that was first appended at (partition,
// offset) with topics.HeaderAsk; it waits until the command is decided. ok is
// false when it is not kept any more.
func (p *Partition) Decision(ctx context.Context, partition int32, offset int64) (d Decided, ok bool, err error) {
	if p.id == partition {
		if err := p.AwaitOffset(ctx, offset+1); err != nil {
			return Decided{}, false, err
		}
	}
	d, ok = p.view.decided.get(origin{partition, offset})
	return d, ok, nil
}
