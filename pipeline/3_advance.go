package pipeline

import (
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// advance moves the hand to the newest time the read barrier has passed and
// takes what is due, at most a turn's worth. What this turn's own commands
// armed is in the wheel already.
func (p *Partition) advance(t *turn, in input) ([]statestore.DueKey, error) {
	p.opts.Listener.Step(p.id, "advance")
	if in.fire == 0 {
		return nil, nil
	}
	through := min(in.fire, t.now)
	var due []statestore.DueKey
	p.wheel.Advance(int64(through), func(at int64, ref string) bool {
		due = append(due, statestore.DueKey{Due: trigger.Instant(at), Ref: ref})
		return len(due) < p.opts.MaxTurnRecords
	})
	return due, nil
}
