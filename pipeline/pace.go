package pipeline

import (
	"context"
	"time"

	"github.com/waterclock/waterclock/internal/wait"
)

// pace spaces the turns of one partition. A broker runs out of transactions per second
// before anything else. If many partitions of one broker turn without a pause, they
// saturate it, and the latency of all rises. So the interval grows when EndTransaction
// slows down, and shrinks when it is quick.
type pace struct {
	fixed    time.Duration        // > 0: set by the operator; < 0: no pacing
	floor    func() time.Duration // grows with the number of open partitions of this process
	interval time.Duration
	start    time.Time
}

// maxInterval bounds how much adaptive pacing may delay a due event.
const maxInterval = 100 * time.Millisecond

// wait sleeps until the next turn may begin.
func (p *pace) wait(ctx context.Context) error {
	if d := p.next() - time.Since(p.start); d > 0 {
		wait.For(ctx, d)
	}
	return ctx.Err()
}

func (p *pace) next() time.Duration {
	switch {
	case p.fixed > 0:
		return p.fixed
	case p.fixed < 0:
		return 0
	}
	return max(p.floor(), p.interval)
}

func (p *pace) begun() { p.start = time.Now() }

// committed adapts the interval to how long the broker took. The interval falls by a
// quarter at a time; in smaller steps, one slow answer had an effect for seconds.
func (p *pace) committed(took time.Duration) {
	switch {
	case took > 50*time.Millisecond:
		p.interval = min(max(2*p.interval, 2*time.Millisecond), maxInterval)
	case p.interval > 0:
		p.interval -= max(p.interval/4, min(p.interval, 100*time.Microsecond))
	}
}

// fireBatch is how many timers a turn may fire. Other commands and timers wait until the turn
// ends, so it follows from what one timer costs this process: to decide it and to encode its
// records. How long the turn waits for the broker or the disk does not count. When it did, a
// slow moment made turns small, and small turns were too few for the load: the partition
// stayed behind for good.
//
// While timers of priority high fall due, turns are shorter: each of them waits for the rest
// of one turn and for its own.
type fireBatch struct {
	costs  [16]time.Duration // of one timer, in the last turns that fired enough to say
	next   int               // where in costs the next goes
	urgent time.Time         // when a turn last fired a timer of priority high
}

const (
	turnBudget   = 5 * time.Millisecond // work of firing in one turn
	urgentBudget = turnBudget / 8
	urgentFor    = time.Second // so long after the last timer of priority high
	leastBatch   = 256         // of a turn while the cost is not known, or high
	leastUrgent  = leastBatch / 8
	leastToSay   = 64 // timers whose cost says something
)

// size is how many timers the next turn may fire.
func (b *fireBatch) size(most int) int {
	budget, n := turnBudget, leastBatch
	if time.Since(b.urgent) < urgentFor {
		budget, n = urgentBudget, leastUrgent
	}
	if cost := b.cost(); cost > 0 {
		n = max(n, int(budget/cost))
	}
	return min(n, most)
}

// cost is the least of the last turns; 0: it is not known. A turn that had to wait for a core
// says nothing about the work.
func (b *fireBatch) cost() (least time.Duration) {
	for _, c := range b.costs {
		if c > 0 && (least == 0 || c < least) {
			least = c
		}
	}
	return least
}

// turned notes what a turn has fired.
func (b *fireBatch) turned(f firing) {
	if f.high > 0 {
		b.urgent = time.Now()
	}
	if f.timers >= leastToSay {
		b.costs[b.next] = max(1, f.work/time.Duration(f.timers))
		b.next = (b.next + 1) % len(b.costs)
	}
}

// firing is what a turn has fired, and the work of it.
type firing struct {
	timers int
	high   int // those of priority high that were on time
	work   time.Duration
}

// wrote adds the timers' part of writing the states that the turn has changed.
func (f *firing) wrote(took time.Duration, states int) {
	if states > 0 {
		f.work += took * time.Duration(min(f.timers, states)) / time.Duration(states)
	}
}
