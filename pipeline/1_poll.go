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
	p.breathe(ctx)
	if err := p.pace.wait(ctx); err != nil {
		return input{}, err
	}
	if err := p.hydrate(); err != nil {
		return input{}, err
	}
	now := p.now()
	p.consumer.barrier.Clock(now)
	p.timers.wheel.Prepare(int64(now) + herdAhead.Milliseconds())
	var in input
	if err := p.consumer.read(ctx, &in, p.maxPollWait(), p.mostRecords()); err != nil {
		return input{}, err
	}
	now = p.now()
	p.consumer.barrier.Clock(now)
	p.timers.mark = 0
	if at := p.watermarks.due(now); at <= now {
		p.timers.mark = at
	}
	if (p.dueBy(now) || p.timers.mark != 0) && !p.clock.held {
		if err := p.readOn(ctx, &in); err != nil {
			return input{}, err
		}
	}
	p.claims.check(ctx, in.records)
	in.beat = p.mustBeat(now)
	if in.empty() {
		p.view.showPosition(p.consumer.barrier.Commands.At(), p.timers.next())
	}
	return in, nil
}

// readOnFor bounds how long commands that were read wait for the rest that the barrier
// needs. After that they get a turn of their own.
const readOnFor = 5 * time.Millisecond

// readOn asks the barrier for the end of the inputs and reads up to it. So what is due
// fires in this turn. If the turn began first, newer commands would arrive meanwhile, and
// what is due would fire a turn later.
func (p *Partition) readOn(ctx context.Context, in *input) (err error) {
	p.consumer.suspectStanding()
	for start := time.Now(); ; {
		if in.fire, err = p.consumer.passed(ctx, &p.timers); err != nil || in.fire != 0 {
			return err
		}
		if len(in.records) >= p.mostRecords() || time.Since(start) >= readOnFor {
			return nil
		}
		if err := p.consumer.read(ctx, in, p.consumer.barrier.MaxPollWait(), p.mostRecords()); err != nil {
			return err
		}
	}
}

// While memory is short, a turn reads a tenth of the usual, and a partition with nothing
// due pauses before each turn. Unread commands stay in the log. Timers are not delayed.
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

// breathe is that pause. It ends before the next timer is due.
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

// dueBy reports whether a timer is due, even if it must wait for receipts.
func (p *Partition) dueBy(now trigger.Instant) bool {
	return p.timers.ready.Held() > 0 || p.timers.anyReady(now)
}

// anyReady reports whether a timer may fire as soon as commands are read.
func (ts *timers) anyReady(now trigger.Instant) bool {
	at, ok := ts.wake(now)
	return ok && at <= now
}

// maxPollWait is how long poll may wait: until the next timer, the next scan of the due index,
// the next done record to forget, or the heartbeat.
func (p *Partition) maxPollWait() time.Duration {
	now := p.now()
	idle := time.Since(p.committed)
	wait := untilNote(p.progress.Forwarded, idle, p.opts.Heartbeat-idle)
	if p.mustBeat(now) {
		if p.dueBy(now) { // the turn runs when the barrier has answered
			return p.consumer.barrier.MaxPollWait()
		}
		return 0
	}
	next := min(p.timers.attention(now), p.watermarks.due(now))
	if p.clock.held {
		return min(max(wait, 0), time.Second) // after a second the clocks are compared
	}
	if next <= now {
		return p.consumer.barrier.MaxPollWait()
	}
	if p.timers.ready.Held() > 0 {
		wait = min(wait, p.consumer.barrier.MaxPollWait())
	}
	wait = min(wait, next.Sub(now))
	if forget := p.done.due(); forget != 0 {
		wait = min(wait, max(forget.Sub(now), 100*time.Millisecond))
	}
	return max(wait, 0)
}

// mustBeat reports whether a turn must run although nothing happened. The reasons: a new
// owner announces itself, an idle partition sends its heartbeat, clocks must be compared,
// records must be forgotten, progress must note what was forwarded, or a watermark is late.
func (p *Partition) mustBeat(now trigger.Instant) bool {
	if !p.announced || p.replan != nil || p.store.DoneCount() > p.opts.MaxDone ||
		time.Since(p.committed) >= p.opts.Heartbeat || p.clock.doubtful(p.opts.Now()) {
		return true
	}
	if !p.forward.noted(p.progress.Forwarded, time.Since(p.committed)) || p.view.mends.some() ||
		p.watermarks.must(now) {
		return true
	}
	forget := p.done.due()
	return forget != 0 && forget <= now && time.Since(p.committed) >= forgetInterval
}

// hydrate keeps the wheel full. It shows readers the next due time at once, because the
// wait for it may last minutes.
func (p *Partition) hydrate() error {
	filled, err := p.timers.hydrate(p.now())
	if err != nil || !filled {
		return err
	}
	p.view.showNext(p.timers.next())
	return nil
}
