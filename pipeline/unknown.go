package pipeline

import (
	"fmt"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// maxUnknown bounds the cancels and erases of unknown keys that a partition keeps; the
// oldest go first. They have a bound of their own. Else a flood of them would push out the
// done records of fired triggers, and a producer's late retry would fire one twice.
const maxUnknown = 100_000

// unknowns are those remembered by this owner, and those of earlier owners as far as
// they have been looked for. Both are in the order in which they end.
type unknowns struct {
	own, earlier keyQueue

	since    trigger.Instant // when the first of this owner's own ends
	searched unknownKey      // how far the done records have been searched
	complete bool            // they have been, up to since
}

// keyQueue is some of them, first in first out.
type keyQueue struct {
	order []unknownKey
	head  int
}

type unknownKey struct {
	key      trigger.Key
	forgetAt trigger.Instant // distinguishes it from a later record of the same key
}

// isUnknown reports whether e is a cancel or erase of an unknown key.
func isUnknown(e *entry) bool {
	return e.dirty && e.state != nil && knowsNothing(e.state)
}

func knowsNothing(s *trigger.State) bool {
	return s.Status == trigger.Unknown || s.Status == trigger.Erased && s.CreatedAt == 0
}

func (u *unknowns) len() int { return u.own.len() + u.earlier.len() }

// add takes those of a committed turn.
func (u *unknowns) add(t *turn) {
	for _, e := range t.order {
		if isUnknown(e) {
			if u.since == 0 {
				u.since = e.state.ForgetAt
			}
			u.own.push(unknownKey{e.key, e.state.ForgetAt})
		}
	}
}

// pop takes the oldest out.
func (u *unknowns) pop() unknownKey {
	if u.earlier.len() > 0 {
		return u.earlier.pop()
	}
	return u.own.pop()
}

func (q *keyQueue) len() int { return len(q.order) - q.head }

func (q *keyQueue) push(k unknownKey) { q.order = append(q.order, k) }

func (q *keyQueue) pop() unknownKey {
	k := q.order[q.head]
	q.head++
	if q.head > 1024 && 2*q.head > len(q.order) {
		q.order, q.head = append([]unknownKey(nil), q.order[q.head:]...), 0
	}
	return k
}

// inherit looks for those that earlier owners remembered, some in each turn: else every
// owner would have a budget of its own, and several together would push out what has
// fired. It looks only once this owner has a tenth of its budget. Most never have.
func (d *doneRecords) inherit(t *turn) error {
	u := &d.unknown
	if u.complete || u.own.len() <= d.opts.maxUnknown/10 {
		return nil
	}
	var s trigger.State
	n, from := 0, u.searched
	u.complete = true // unless the scan ends before its end
	err := d.store.ScanDone(from.forgetAt, from.key, func(at trigger.Instant, key trigger.Key, value []byte) bool {
		next := unknownKey{key, at}
		if at >= u.since {
			return false
		}
		if n++; n > forgetMost(t) {
			u.searched, u.complete = next, false
			return false
		}
		// without a value it has a timer, so there is more to know of it
		if len(value) > 0 && topics.DecodeStateInto(&s, key, value) == nil && knowsNothing(&s) {
			u.earlier.push(next)
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("find unknown keys of earlier owners: %w", err)
	}
	return nil
}

// forgetUnknown drops the oldest ones beyond the bound, and returns how many.
func (d *doneRecords) forgetUnknown(t *turn) (evicted int64, err error) {
	if err := d.inherit(t); err != nil {
		return 0, err
	}
	u := &d.unknown
	for n, most := 0, forgetMost(t); n < most && u.len() > d.opts.maxUnknown; n++ {
		oldest := u.pop()
		e, err := d.load(t, oldest.key)
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
		d.opts.Listener.DoneEvicted(int(evicted))
	}
	return evicted, nil
}
