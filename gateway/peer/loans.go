package peer

import (
	"context"
	"sync/atomic"
	"time"
)

// loan is a part of a budget, for another instance that reads while others of the same request do.
type loan struct {
	visits int64         // 0: no bound
	time   time.Duration // 0: no bound
}

// lend divides what is left of the budget among those who may still be asked at once, this one included. What
// others have borrowed is not left. ok is false if nothing is.
func (b *Budget) lend(atOnce int) (l loan, ok bool) {
	b.lending.Lock()
	defer b.lending.Unlock()
	n := int64(max(1, atOnce-b.loans))
	l.visits = (b.Visits - b.visited.Load() - b.lent.Load()) / n
	l.time = (b.Time - time.Duration(b.spent.Load()+b.lentTime.Load())) / time.Duration(n)
	if b.Visits == 0 {
		l.visits = 0
	}
	if b.Time == 0 {
		l.time = 0
	}
	if b.Visits > 0 && l.visits < 1 || b.Time > 0 && l.time < 1 {
		return loan{}, false
	}
	b.loans++
	b.lent.Add(l.visits)
	b.lentTime.Add(int64(l.time))
	return l, true
}

// repay ends a loan. What it cost is charged before.
func (b *Budget) repay(l loan) {
	b.lending.Lock()
	defer b.lending.Unlock()
	b.loans--
	b.lent.Add(-l.visits)
	b.lentTime.Add(-int64(l.time))
}

// cutShort charges the questions to other instances that were cut short: by a caller who left, or by a deadline.
type cutShort struct {
	began time.Time
	cut   atomic.Bool
}

// note takes the error of a question that was asked with ctx.
func (c *cutShort) note(ctx context.Context, err error) {
	if err != nil && ctx.Err() != nil {
		c.cut.Store(true)
	}
}

// mostCut is what is charged at most for instances that were cut short: they have not said what it cost there, and may
// have done nothing but wait.
const mostCut = time.Second

// charge adds to the budget the time since the first question, once for all that were cut short.
func (c *cutShort) charge(to *Budget) {
	if c.cut.Load() {
		to.used(0, min(time.Since(c.began), mostCut))
	}
}
