package pipeline

import (
	"github.com/waterclock/waterclock/pipeline/fair"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// advance moves the hand to the newest time the read barrier has passed and
// takes a turn's worth of what is due, fairly (ready.go). What this turn's own
// commands armed is in the wheel already.
func (p *Partition) advance(t *turn, in input) fair.Taken {
	p.step(StepAdvance)
	if in.fire == 0 {
		return fair.Taken{}
	}
	p.wheel.Advance(int64(min(in.fire, t.now)), func(at int64, ref string) bool {
		p.ready.Push(statestore.DueKey{Due: trigger.Instant(at), Ref: ref}, t.now)
		return p.ready.Unpaced() < p.opts.wheelEntries
	})
	due := p.ready.Take(p.batch.size(p.opts.MaxTurnRecords), t.now)
	t.taken = len(due.Due)
	return due
}

// earliest is the due time of the next timer to fire, in the wheel, already out
// of it, or left in the store for want of room.
func (p *Partition) earliest() (trigger.Instant, bool) {
	due, ok := p.wheel.Next()
	next := trigger.Instant(due)
	if first, some := p.ready.First(); some && (!ok || first < next) {
		next, ok = first, true
	}
	if p.left != nil && (!ok || p.left.Due < next) {
		next, ok = p.left.Due, true
	}
	return next, ok
}

// wake is when the next timer may go: earliest, but for those that go at the
// pacer's rate.
func (p *Partition) wake(now trigger.Instant) (trigger.Instant, bool) {
	due, ok := p.wheel.Next()
	next := trigger.Instant(due)
	if at, some := p.ready.Wake(now); some && (!ok || at < next) {
		return at, true
	}
	return next, ok
}
