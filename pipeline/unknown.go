package pipeline

import "github.com/waterclock/waterclock/trigger"

// maxUnknown is how many cancels and erases of keys that nothing is known of a
// partition remembers, oldest out first. Their budget is their own: a flood of
// them would push out the done records of what has fired, and a producer's late
// retry would fire it again.
const maxUnknown = 100_000

// unknowns are those remembered by this owner, oldest first. What earlier owners
// remembered ends with its horizon.
type unknowns struct {
	order []unknownKey
	head  int
}

type unknownKey struct {
	key      trigger.Key
	forgetAt trigger.Instant // distinguishes it from a later record of the key
}

// isUnknown says that e is the record of a key that nothing else was known of.
func isUnknown(e *entry) bool {
	return e.dirty && e.state != nil && (e.state.Status == trigger.Unknown || e.state.Status == trigger.Erased &&
		e.state.CreatedAt == 0)
}

func (u *unknowns) len() int { return len(u.order) - u.head }

// add takes those of a turn that is committed.
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

// forgetUnknown drops the oldest of them beyond their budget, and says how many.
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
			continue // there is more to know of it by now
		}
		e.state, e.timers, e.dirty = nil, nil, true
		evicted++
	}
	if evicted > 0 {
		p.opts.Listener.DoneEvicted(int(evicted))
	}
	return evicted, nil
}
