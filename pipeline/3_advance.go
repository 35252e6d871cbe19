package pipeline

import (
	"github.com/waterclock/waterclock/pipeline/fair"
)

// advance moves the hand to the newest time the read barrier has passed and
// takes a turn's worth of what is due, fairly (package fair). What this turn's own
// commands armed is in the wheel already.
func (p *Partition) advance(t *turn, in input) fair.Taken {
	p.step(StepAdvance)
	if in.fire == 0 {
		return fair.Taken{}
	}
	p.timers.advance(min(in.fire, t.now), t.now)
	due := p.timers.ready.Take(p.batch.size(p.opts.MaxTurnRecords), t.now)
	t.taken = len(due.Due)
	return due
}
