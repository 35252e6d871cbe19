package pipeline

import (
	"context"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/pipeline/fair"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// input is what a turn begins with.
type input struct {
	records    []*kgo.Record
	unreadable map[*kgo.Record]*unreadable // what some of them stand for
	fire       trigger.Instant             // timers up to here may go; 0: none may
	beat       bool                        // commit although nothing happened
}

func (in *input) empty() bool { return len(in.records) == 0 && in.fire == 0 && !in.beat }

// poll waits for commands, receipts, or the next due time whose read barrier
// has passed. An empty input means: come again.
func (p *Partition) poll(ctx context.Context) (input, error) {
	p.step(StepPoll)
	if err := p.pace.wait(ctx); err != nil {
		return input{}, err
	}
	if err := p.hydrate(); err != nil {
		return input{}, err
	}
	p.wheel.Prepare(int64(p.now()) + herdAhead.Milliseconds())
	var in input
	if err := p.read(ctx, &in, p.patience()); err != nil {
		return input{}, err
	}
	now := p.now()
	if p.dueBy(now) && !p.clock.held {
		if err := p.readOn(ctx, &in); err != nil {
			return input{}, err
		}
	}
	p.checkClaims(ctx, in.records)
	in.beat = p.mustBeat(now)
	if in.empty() {
		p.showPosition()
	}
	return in, nil
}

// read polls, for wait at most.
func (p *Partition) read(ctx context.Context, in *input, wait time.Duration) error {
	records, err := p.kafka.poll(ctx, wait, p.opts.MaxTurnRecords-len(in.records))
	if err != nil {
		return err
	}
	now := time.Now()
	for _, r := range records {
		p.barrier.Read(r.Topic, r.Offset, now)
		if r.Topic == p.opts.Names.Control() {
			p.controlAt = r.Offset + 1
		}
	}
	in.records = append(in.records, records...)
	return p.passUnreadable(ctx, in)
}

// readOnFor bounds how long commands that are read already wait for those that
// the barrier still lacks. Beyond it they get a turn of their own.
const readOnFor = 5 * time.Millisecond

// readOn asks the barrier, and reads on to the end it was told, so that what
// is due goes in this turn. Were the question asked and the turn begun, newer
// commands would be at the end by the next one, and it would go a turn later.
func (p *Partition) readOn(ctx context.Context, in *input) (err error) {
	p.suspectStanding()
	for start := time.Now(); ; {
		if in.fire, err = p.passed(ctx); err != nil || in.fire != 0 {
			return err
		}
		if len(in.records) >= p.opts.MaxTurnRecords || time.Since(start) >= readOnFor {
			return nil
		}
		if err := p.read(ctx, in, p.barrier.Patience()); err != nil {
			return err
		}
	}
}

// now is the time that decides what is due.
func (p *Partition) now() trigger.Instant { return p.clock.now(p.opts.Now()) }

// dueBy says that something is due, though it may have to wait for receipts.
func (p *Partition) dueBy(now trigger.Instant) bool { return p.ready.Held() > 0 || p.anyReady(now) }

// anyReady says that something may go as soon as commands are read.
func (p *Partition) anyReady(now trigger.Instant) bool {
	at, ok := p.wake(now)
	return ok && at <= now
}

// patience is how long poll may wait: until the next timer, the next look at
// the due index, the next done record to forget, or the heartbeat.
func (p *Partition) patience() time.Duration {
	now := p.now()
	wait := p.forwardPatience(time.Until(p.committed.Add(p.opts.Heartbeat)))
	if p.mustBeat(now) {
		if p.dueBy(now) { // a replan goes on: the barrier's answer is on its way
			return p.barrier.Patience()
		}
		return 0
	}
	next := p.hydrated.Due
	if p.wheel.Len() < p.opts.wheelEntries { // else the next look waits for a timer to go
		next -= trigger.Instant(hydrateAhead.Milliseconds())
	}
	if at, ok := p.wake(now); ok {
		next = min(next, at)
	}
	if herd, ok := p.wheel.NextHerd(); ok {
		next = min(next, trigger.Instant(herd-herdAhead.Milliseconds()))
	}
	if p.clock.held {
		return min(max(wait, 0), time.Second) // then the clocks are compared again
	}
	if next <= now {
		return p.barrier.Patience()
	}
	if p.ready.Held() > 0 {
		wait = min(wait, p.barrier.Patience())
	}
	wait = min(wait, next.Sub(now))
	if forget := p.forgetDue(); forget != 0 {
		wait = min(wait, max(forget.Sub(now), 100*time.Millisecond))
	}
	return max(wait, 0)
}

// mustBeat says that a turn is owed although nothing happened: the first of a
// new owner, which tells others where to ask, the heartbeat of an idle
// partition, a clock that must be compared, records to forget, or a note of what
// was forwarded.
func (p *Partition) mustBeat(now trigger.Instant) bool {
	if !p.announced || p.replan != nil || p.store.DoneCount() > p.opts.MaxDone || time.Since(p.committed) >= p.opts.Heartbeat || p.clock.doubtful(p.opts.Now()) {
		return true
	}
	if !p.forwardNoted() {
		return true
	}
	forget := p.forgetDue()
	return forget != 0 && forget <= now && time.Since(p.committed) >= forgetInterval
}

// How the wheel is kept full: a chunk of the due index at a time, so that no
// single look stalls the turn, and well ahead of the hand.
const (
	hydrateAhead = 2 * time.Minute
	wheelEntries = 1 << 20
)

// hydrateChunk is how much of the due index one look reads.
func (o *Options) hydrateChunk() int { return max(1, o.wheelEntries/50) }

// pacedEntries bounds the timers that wait for the pacer in memory: 70 B each.
// Those beyond it stay in the store until half of them have gone.
const pacedEntries = 1 << 18

// herdAhead is how long before its time a herd is put in order.
const herdAhead = time.Second

// everything sorts after every ref.
const everything = "\xff"

// hydrate copies the near part of the due index into the wheel.
func (p *Partition) hydrate() error {
	if p.left != nil && p.ready.Paced() <= p.opts.pacedEntries/2 {
		if err := p.hydrateLeft(); err != nil {
			return err
		}
	}
	now := int64(p.now())
	if p.wheel.Len()+p.ready.Unpaced() >= p.opts.wheelEntries || int64(p.hydrated.Due) > now+hydrateAhead.Milliseconds() {
		return nil
	}
	p.wheel.Advance(min(now, p.handBefore()), func(int64, string) bool { return false })
	end := p.wheel.End() - 1
	n := 0
	stopped := false
	err := p.store.ScanDue(p.hydrated, func(due trigger.Instant, ref string) bool {
		if int64(due) > end || n == p.opts.hydrateChunk() {
			stopped = n == p.opts.hydrateChunk()
			return false
		}
		p.wheel.Add(int64(due), ref)
		p.hydrated = statestore.DueKey{Due: due, Ref: ref}
		n++
		return true
	})
	if err != nil {
		return err
	}
	if !stopped {
		p.hydrated = statestore.DueKey{Due: trigger.Instant(end), Ref: everything}
	}
	p.view.mu.Lock()
	defer p.view.mu.Unlock()
	p.view.next = p.nextDue() // the wait for what is due may last minutes
	return nil
}

// paceTimer lets a timer go at the pacer's rate. One that finds no room, and all
// that are due after it, stay in the store until there is some.
func (p *Partition) paceTimer(d statestore.DueKey) {
	if p.left != nil && fair.Before(p.left, &d) {
		p.leftTo = max(p.leftTo, d.Due)
		return
	}
	if p.left == nil && p.ready.Paced() >= p.opts.pacedEntries {
		p.left, p.leftTo = &statestore.DueKey{Due: d.Due}, max(p.leftTo, d.Due)
		return
	}
	p.ready.Pace(d)
}

// hydrateLeft reads a chunk of what found no room with the pacer. Only timers of
// a series can be among them, and not only late ones: what a sick topic has put
// off is due anew. One that is read twice is stale when it goes for the second
// time.
func (p *Partition) hydrateLeft() error {
	from, to, n := *p.left, p.leftTo, 0
	p.left = nil
	return p.store.ScanDue(from, func(due trigger.Instant, ref string) bool {
		d := statestore.DueKey{Due: due, Ref: ref}
		if due > to || fair.Before(&p.hydrated, &d) {
			return false
		}
		if n == p.opts.hydrateChunk() {
			p.left = &from
			return false
		}
		if _, _, kind, _, ok := statestore.ParseRef(ref); ok && kind == trigger.TimerSeries {
			p.ready.PushOverdue(d)
		}
		from, n = d, n+1
		return true
	})
}

// handBefore is the newest time the wheel's hand can move to without passing
// a timer that has not fired.
func (p *Partition) handBefore() int64 {
	if due, ok := p.wheel.Next(); ok {
		return due - 1
	}
	return math.MaxInt64
}
