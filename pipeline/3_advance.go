package pipeline

import (
	"github.com/waterclock/waterclock/pipeline/fair"
)

// advance moves the hand to the newest time that the read barrier has passed. It takes a
// fair share of what is due (package fair). What this turn's commands armed is in the wheel
// already.
func (p *Partition) advance(t *turn, in input) fair.Taken {
	p.step(StepAdvance)
	if in.fire == 0 {
		return fair.Taken{}
	}
	t.hand = min(in.fire, t.now)
	p.timers.advance(t.hand, t.now)
	due := p.timers.ready.Take(p.batch.size(p.opts.MaxTurnRecords, len(in.records)), t.now)
	t.firing.high = due.High
	return due
}
