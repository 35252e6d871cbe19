package pipeline

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/wait"
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
	p.breathe(ctx)
	if err := p.pace.wait(ctx); err != nil {
		return input{}, err
	}
	if err := p.hydrate(); err != nil {
		return input{}, err
	}
	p.timers.wheel.Prepare(int64(p.now()) + herdAhead.Milliseconds())
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
		p.view.showPosition(p.barrier.Commands.At(), p.timers.next())
	}
	return in, nil
}

// read polls, for so long at most.
func (p *Partition) read(ctx context.Context, in *input, patience time.Duration) error {
	records, err := p.kafka.poll(ctx, patience, max(p.mostRecords()-len(in.records), 1))
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

// readOn asks the barrier, and reads on to the end in its answer, so that what
// is due goes in this turn. Were the question asked and the turn begun, newer
// commands would be at the end by the next one, and it would go a turn later.
func (p *Partition) readOn(ctx context.Context, in *input) (err error) {
	p.suspectStanding()
	for start := time.Now(); ; {
		if in.fire, err = p.passed(ctx); err != nil || in.fire != 0 {
			return err
		}
		if len(in.records) >= p.mostRecords() || time.Since(start) >= readOnFor {
			return nil
		}
		if err := p.read(ctx, in, p.barrier.Patience()); err != nil {
			return err
		}
	}
}

// While memory is short, a turn reads a tenth of what it else may, and a
// partition that has nothing due rests before it. What it does not read stays
// in the log. Timers do not rest.
const (
	pressedShare = 10
	pressedRest  = 50 * time.Millisecond
)

func (p *Partition) mostRecords() int {
	if p.opts.Pressed() {
		return max(p.opts.MaxTurnRecords/pressedShare, 1)
	}
	return p.opts.MaxTurnRecords
}

// breathe is the rest; it ends before the next timer is due.
func (p *Partition) breathe(ctx context.Context) {
	if !p.opts.Pressed() {
		return
	}
	now := p.now()
	if next := p.timers.attention(now); next > now {
		wait.For(ctx, min(pressedRest, next.Sub(now)))
	}
}

// now is the time that decides what is due.
func (p *Partition) now() trigger.Instant { return p.clock.now(p.opts.Now()) }

// dueBy says that something is due, though it may have to wait for receipts.
func (p *Partition) dueBy(now trigger.Instant) bool {
	return p.timers.ready.Held() > 0 || p.anyReady(now)
}

// anyReady says that something may go as soon as commands are read.
func (p *Partition) anyReady(now trigger.Instant) bool {
	at, ok := p.timers.wake(now)
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
	next := p.timers.attention(now)
	if p.clock.held {
		return min(max(wait, 0), time.Second) // then the clocks are compared again
	}
	if next <= now {
		return p.barrier.Patience()
	}
	if p.timers.ready.Held() > 0 {
		wait = min(wait, p.barrier.Patience())
	}
	wait = min(wait, next.Sub(now))
	if forget := p.forgetDue(); forget != 0 {
		wait = min(wait, max(forget.Sub(now), 100*time.Millisecond))
	}
	return max(wait, 0)
}

// mustBeat says that a turn is owed although nothing happened: the first of a
// new owner, which says to others where to ask, the heartbeat of an idle
// partition, a clock that must be compared, records to forget, or a note of what
// was forwarded.
func (p *Partition) mustBeat(now trigger.Instant) bool {
	if !p.announced || p.replan != nil || p.store.DoneCount() > p.opts.MaxDone ||
		time.Since(p.committed) >= p.opts.Heartbeat || p.clock.doubtful(p.opts.Now()) {
		return true
	}
	if !p.forwardNoted() {
		return true
	}
	forget := p.forgetDue()
	return forget != 0 && forget <= now && time.Since(p.committed) >= forgetInterval
}

// hydrate keeps the wheel full, and shows readers what is due next: the wait for
// that may last minutes.
func (p *Partition) hydrate() error {
	filled, err := p.timers.hydrate(p.now())
	if err != nil || !filled {
		return err
	}
	p.view.showNext(p.timers.next())
	return nil
}
