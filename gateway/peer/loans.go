package peer

import (
	"context"
	"net/http/httptrace"
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
	l.visits = (b.Visits - b.counted() - b.lent.Load()) / n
	l.time = (b.Time - b.countedTime() - time.Duration(b.lentTime.Load())) / time.Duration(n)
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

// cutShort charges the questions to other instances that were cut short by who waits for the answer: a caller who left,
// or met a deadline.
type cutShort struct {
	began time.Time
	cut   atomic.Bool
}

// asking asks another instance with ctx, which may end before its caller does: what we give up ourselves is not
// charged. Nor is what had no connection yet: nobody has read.
func (c *cutShort) asking(ctx, caller context.Context, ask func(ctx context.Context) error) error {
	var connected atomic.Bool
	err := ask(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	}))
	if err != nil && caller.Err() != nil && connected.Load() {
		c.cut.Store(true)
	}
	return err
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
