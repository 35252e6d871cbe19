package pipeline

import (
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// advance moves the hand to the newest time the read barrier has passed and
// takes a turn's worth of what is due, fairly (ready.go). What this turn's own
// commands armed is in the wheel already.
func (p *Partition) advance(t *turn, in input) ([]statestore.DueKey, error) {
	p.opts.Listener.Step(p.id, "advance")
	if in.fire == 0 {
		return nil, nil
	}
	p.wheel.Advance(int64(min(in.fire, t.now)), func(at int64, ref string) bool {
		p.ready.push(statestore.DueKey{Due: trigger.Instant(at), Ref: ref})
		return p.ready.n < wheelEntries
	})
	due := p.ready.take(p.batch.size(p.opts.MaxTurnRecords))
	t.taken = len(due)
	return due, nil
}

// earliest is the due time of the next timer to fire, in the wheel or already
// out of it.
func (p *Partition) earliest() (trigger.Instant, bool) {
	due, ok := p.wheel.Next()
	next := trigger.Instant(due)
	if first, some := p.ready.first(); some && (!ok || first < next) {
		return first, true
	}
	return next, ok
}
