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
	unreadable map[*kgo.Record]*unreadable // the batches that some of records stand for
	fire       trigger.Instant             // timers due up to here may fire; 0: none
	beat       bool                        // commit a turn although nothing happened
}

func (in *input) empty() bool { return len(in.records) == 0 && in.fire == 0 && !in.beat }

// poll waits for commands, for receipts, or for the next due time whose read barrier has
// passed. It may return an empty input; then the caller calls it once more.
func (p *Partition) poll(ctx context.Context) (input, error) {
	p.step(StepPoll)
	if p.opts.Pressed() {
		now := p.now()
		wait.For(ctx, pressedPause(now, p.timers.attention(now)))
	}
	if err := p.hydrate(); err != nil {
		return input{}, err
	}
	now := p.now()
	p.consumer.barrier.Clock(now)
	p.timers.wheel.Prepare(int64(now) + herdAhead.Milliseconds())
	var in input
	waits := p.wait(p.now())
	if err := p.consumer.read(ctx, &in, waits.most(), p.opts.mostRecords()); err != nil {
		return input{}, err
	}
	if err := p.awaitSlot(ctx, &in); err != nil {
		return input{}, err
	}
	now = p.now()
	p.consumer.barrier.Clock(now)
	p.timers.mark = 0
	if at := p.watermarks.due(now); at <= now {
		p.timers.mark = at
	}
	p.timers.expectDue(now, len(in.records))
	if (p.timers.due(now) || p.timers.mark != 0 || p.timers.expect != 0) && !p.clock.held {
		if err := p.readOn(ctx, &in); err != nil {
			return input{}, err
		}
	}
	p.claims.check(ctx, in.records)
	beats := p.beat(now)
	in.beat = beats.must()
	if beats.doubtful {
		p.clock.asked = time.Now()
	}
	if in.empty() {
		p.view.showPosition(p.consumer.barrier.Commands.At(), p.timers.next())
	}
	return in, nil
}

// awaitSlot waits until the turn may begin, if there is a reason for one, and reads what has
// arrived meanwhile. It does not wait while timers of priority high are due, or before them.
func (p *Partition) awaitSlot(ctx context.Context, in *input) error {
	now := p.now()
	if len(in.records) == 0 && !p.timers.due(now) && p.watermarks.due(now) > now {
		if beats := p.beat(now); !beats.must() {
			return nil
		}
	}
	high := p.timers.highDue().Sub(now)
	if p.batch.isUrgent() {
		high = 0
	}
	rest := p.pace.wait(time.Now(), high)
	if rest <= 0 {
		return nil
	}
	if wait.For(ctx, rest); ctx.Err() != nil {
		return ctx.Err()
	}
	if len(in.records) >= p.opts.mostRecords() {
		return nil
	}
	return p.consumer.read(ctx, in, 0, p.opts.mostRecords())
}

// readOnFor bounds how long commands that were read wait for the rest that the barrier
// needs, once it has an answer. After that they get a turn of their own.
const readOnFor = 5 * time.Millisecond

// readOn asks the barrier for the end of the inputs and reads up to it. So what is due
// fires in this turn. If the turn began first, newer commands would arrive meanwhile, and
// what is due would fire a turn later.
func (p *Partition) readOn(ctx context.Context, in *input) (err error) {
	p.consumer.suspectStanding()
	for answered := (time.Time{}); ; {
		if in.fire, err = p.consumer.passed(ctx, &p.timers); err != nil || in.fire != 0 {
			return err
		}
		if answered.IsZero() { // what a slow answer asks for has arrived meanwhile, and is only to be read
			answered = time.Now()
		}
		if len(in.records) >= p.opts.mostRecords() || time.Since(answered) >= readOnFor {
			return nil
		}
		within := p.consumer.barrier.MaxPollWait()
		if within == 0 {
			return nil // all was read, and nothing is due: the clock has been set back since poll read it
		}
		if err := p.consumer.read(ctx, in, within, p.opts.mostRecords()); err != nil {
			return err
		}
	}
}

// now is the time that decides what is due.
func (p *Partition) now() trigger.Instant { return p.clock.now(p.opts.Now()) }

// beat gathers the reasons for a turn in which nothing happened.
func (p *Partition) beat(now trigger.Instant) beat {
	idle := time.Since(p.committed)
	return beat{
		announced: p.announced, replanning: p.replan != nil, full: p.store.DoneCount() > p.opts.MaxDone,
		now: now, idle: idle, heartbeat: p.opts.Heartbeat,
		unnoted:  !p.forward.noted(p.progress.Forwarded, idle),
		doubtful: p.clock.doubtful(p.opts.Now()),
		mends:    p.view.mends.some(), watermark: p.watermarks.must(now), forget: p.done.due(),
	}
}

// wait gathers what bounds the wait for records.
func (p *Partition) wait(now trigger.Instant) pollWait {
	return pollWait{
		beat: p.beat(now), due: p.timers.due(now), unfinished: p.timers.ready.Held() > 0, held: p.clock.held,
		next:    min(p.timers.attention(now), p.watermarks.due(now)),
		barrier: p.consumer.barrier.MaxPollWait(), forwarded: p.progress.Forwarded,
	}
}

// hydrate keeps the wheel full. It shows readers the next due time at once, because the
// wait for it may last minutes. After an outage it reads on for a while: what is on time lies behind
// all that is overdue.
func (p *Partition) hydrate() error {
	began := time.Now()
	for {
		now, was := p.now(), p.timers.hydrated
		filled, err := p.timers.hydrate(now)
		if err != nil || !filled {
			return err
		}
		p.view.showNext(p.timers.next())
		// It stands still where the wheel ends: the hand waits for what is due to fire.
		if h := p.timers.hydrated; h.Due >= now || h == was || time.Since(began) > hydrateBudget {
			return nil
		}
	}
}
