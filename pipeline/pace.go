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
	fixed    time.Duration // > 0: set by the operator; < 0: no pacing
	floor    time.Duration // grows with the number of partitions of this process
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
	return max(p.floor, p.interval)
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

// batch bounds how many timers a turn fires, by time. A turn of a herd should take about
// turnTarget, because other commands and timers wait until it ends. While timers of priority
// high fall due, it should take about urgentTarget: each of them waits for the rest of one
// turn and for its own.
type batch struct {
	n      int
	last   time.Time // when the last turn ended
	urgent time.Time // when the last turn ended that fired a timer of priority high
}

const (
	turnTarget   = 40 * time.Millisecond
	urgentTarget = 10 * time.Millisecond
	urgentFor    = time.Second // so long after the last timer of priority high
	minBatch     = 256
	batchIdle    = time.Second // after such a pause the next turn is small, because its cost is not known
)

// size is how many timers the next turn may fire.
func (b *batch) size(most int) int {
	if b.n == 0 || time.Since(b.last) > batchIdle {
		b.n = minBatch
	}
	b.n = min(b.n, most)
	return b.n
}

// turned adapts the size to how long a full turn took. urgent is how many of the timers it
// took have priority high.
func (b *batch) turned(taken, urgent int, took time.Duration) {
	b.last = time.Now()
	if urgent > 0 {
		b.urgent = b.last
	}
	target := turnTarget
	if b.last.Sub(b.urgent) < urgentFor {
		target = urgentTarget
	}
	switch {
	case taken < b.n:
	case took > target:
		b.n = max(minBatch, b.n*3/4)
	case took < target*3/4:
		b.n += b.n / 4
	}
}
