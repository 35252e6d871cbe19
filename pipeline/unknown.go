package pipeline

import "github.com/waterclock/waterclock/trigger"

// maxUnknown bounds the cancels and erases of unknown keys that a partition keeps; the
// oldest go first. They have a bound of their own. Else a flood of them would push out the
// done records of fired triggers, and a producer's late retry would fire one twice.
const maxUnknown = 100_000

// unknowns lists those that this owner has kept, oldest first. Those of earlier owners end
// with their horizon.
type unknowns struct {
	order []unknownKey
	head  int
}

type unknownKey struct {
	key      trigger.Key
	forgetAt trigger.Instant // distinguishes it from a later record of the same key
}

// isUnknown reports whether e is a cancel or erase of an unknown key.
func isUnknown(e *entry) bool {
	return e.dirty && e.state != nil && (e.state.Status == trigger.Unknown || e.state.Status == trigger.Erased &&
		e.state.CreatedAt == 0)
}

func (u *unknowns) len() int { return len(u.order) - u.head }

// add takes those of a committed turn.
func (u *unknowns) add(t *turn) {
	for _, e := range t.order {
		if isUnknown(e) {
			u.order = append(u.order, unknownKey{e.key, e.state.ForgetAt})
		}
	}
	if u.head > 1024 && 2*u.head > len(u.order) {
		u.order, u.head = append([]unknownKey(nil), u.order[u.head:]...), 0
	}
}

// forgetUnknown drops the oldest ones beyond the bound, and returns how many.
func (p *Partition) forgetUnknown(t *turn) (evicted int64, err error) {
	u := &p.unknown
	for n, most := 0, forgetMost(t); n < most && u.len() > p.opts.maxUnknown; n++ {
		oldest := u.order[u.head]
		u.head++
		e, err := p.load(t, oldest.key)
		if err != nil {
			return evicted, err
		}
		if e.state == nil || e.state.ForgetAt != oldest.forgetAt || e.state.Status != trigger.Unknown &&
			e.state.Status != trigger.Erased {
			continue // the key has another record by now
		}
		e.state, e.timers, e.dirty = nil, nil, true
		evicted++
	}
	if evicted > 0 {
		p.opts.Listener.DoneEvicted(int(evicted))
	}
	return evicted, nil
}
