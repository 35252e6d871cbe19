package fair

import (
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// heldTimers are due, but an unread receipt may stop them.
type heldTimers struct {
	due    []statestore.DueKey
	first  trigger.Instant
	newest trigger.Instant
}

func (h *heldTimers) n() int { return len(h.due) }

func (h *heldTimers) add(d statestore.DueKey) {
	if len(h.due) == 0 || d.Due < h.first {
		h.first = d.Due
	}
	h.due, h.newest = append(h.due, d), max(h.newest, d.Due)
}

// Hold keeps a timer until Release.
func (r *Queue) Hold(d statestore.DueKey) { r.held.add(d) }

// Held is how many timers wait for receipts.
func (r *Queue) Held() int { return r.held.n() }

// HeldNewest is the latest due time of the held timers.
func (r *Queue) HeldNewest() trigger.Instant { return r.held.newest }

// Release queues the timers that were due up to through. All receipts before that instant
// have been read.
func (r *Queue) Release(through, now trigger.Instant) {
	if r.held.n() == 0 || r.held.first > through {
		return
	}
	all := r.held.due
	r.held = heldTimers{}
	for _, d := range all {
		if d.Due > through {
			r.held.add(d)
		} else {
			r.Push(d, now)
		}
	}
}
