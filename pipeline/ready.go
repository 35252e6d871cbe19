package pipeline

import (
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// ready holds what the wheel has let go and no turn has fired yet, so that who
// comes first is ours to choose. What is on time goes before what is overdue,
// and the runs that fire_all catches up with go at a rate of their own (pacer).
// Inside each, high priority goes before normal before low, and inside a
// priority every tenant in turn, so that a million triggers of one tenant due
// at 09:00:00.000 hold back another's of 09:00:00.001 by one turn, not by the
// million. With one tenant and priority it is the due index's order.
//
// It holds keys alone, no payloads, and at most what the wheel held, and
// pacedEntries beside it.
type ready struct {
	onTime  lanes
	overdue lanes // later than overdueAfter when the wheel let them go
	paced   lanes // of runs under fire_all
	pacer   pacer
	held    heldTimers      // for receipts that are still to be read
	n       int             // without held
	newest  trigger.Instant // latest due time that came here without passing the wheel
}

// heldTimers are due, but a receipt may decide otherwise.
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

// release lets go what was due up to an instant before which all receipts have
// been read.
func (r *ready) release(through, now trigger.Instant) {
	if r.held.n() == 0 || r.held.first > through {
		return
	}
	all := r.held.due
	r.held = heldTimers{}
	for _, d := range all {
		if d.Due > through {
			r.held.add(d)
		} else {
			r.push(d, isOverdue(d.Due, now))
		}
	}
}

// unpaced is how many timers are here but those that wait for the pacer.
func (r *ready) unpaced() int { return r.n - r.paced.n + r.held.n() }

// lanes are timers by priority, and by tenant inside.
type lanes struct {
	sets [3]laneSet
	n    int
}

// laneSet is the tenants of one priority that have something due.
type laneSet struct {
	by     map[string]*lane
	order  []*lane // round robin; the next to serve first
	joined *lane   // who was pushed to last; nil: nobody, or it is gone
}

// quantum is how many timers of one tenant go before the next tenant's.
const quantum = 32

// overdueShare is the part of a turn that what is overdue gets however much is
// on time, so that a busy engine catches up, too: one in so many.
const overdueShare = 8

// push adds what the wheel has let go.
func (r *ready) push(d statestore.DueKey, overdue bool) {
	r.n++
	if overdue {
		r.overdue.push(d)
	} else {
		r.onTime.push(d)
	}
}

// pace adds a timer that goes at the pacer's rate.
func (r *ready) pace(d statestore.DueKey) {
	r.n++
	r.newest = max(r.newest, d.Due)
	r.paced.push(d)
}

// taken are timers for one turn: the last paced of them are the pacer's.
type taken struct {
	due   []statestore.DueKey
	paced int
}

// take removes the next n timers, fewer if there are no more, and beside them
// what the pacer lets go.
func (r *ready) take(n int, now trigger.Instant) taken {
	out := make([]statestore.DueKey, 0, min(n, r.n))
	out = r.onTime.take(out, n-min(r.overdue.n, n/overdueShare))
	out = r.overdue.take(out, n)
	free := len(out)
	out = r.paced.take(out, free+r.pacer.grant(r.paced.n, now))
	r.n -= len(out)
	return taken{out, len(out) - free}
}

// first is the earliest due time here; ok is false without any.
func (r *ready) first() (due trigger.Instant, ok bool) {
	due, ok = r.firstOfLanes()
	if r.held.n() > 0 && (!ok || r.held.first < due) {
		due, ok = r.held.first, true
	}
	return due, ok
}

func (r *ready) firstOfLanes() (due trigger.Instant, ok bool) {
	for _, l := range []*lanes{&r.onTime, &r.overdue, &r.paced} {
		if at, some := l.first(); some && (!ok || at < due) {
			due, ok = at, true
		}
	}
	return due, ok
}

// wake is when the next timer may go, those held for receipts aside: in the past, or when the pacer lets
// it; ok is false without any.
func (r *ready) wake(now trigger.Instant) (at trigger.Instant, ok bool) {
	switch {
	case r.n == 0:
		return 0, false
	case r.n > r.paced.n:
		return r.firstOfLanes()
	}
	return r.pacer.next(r.paced.n, now), true
}

func (l *lanes) push(d statestore.DueKey) {
	priority, key, _, _, ok := statestore.ParseRef(d.Ref)
	if !ok {
		panic("pipeline: the wheel holds a ref that is none: " + d.Ref)
	}
	l.sets[min(priority, trigger.Low)].push(key.Tenant(), d)
	l.n++
}

// take appends to out until it has n.
func (l *lanes) take(out []statestore.DueKey, n int) []statestore.DueKey {
	had := len(out)
	for i := range l.sets {
		out = l.sets[i].take(out, n)
	}
	l.n -= len(out) - had
	return out
}

func (l *lanes) first() (due trigger.Instant, ok bool) {
	if l.n == 0 {
		return 0, false
	}
	for i := range l.sets {
		for _, lane := range l.sets[i].order {
			if at := lane.first(); !ok || at < due {
				due, ok = at, true
			}
		}
	}
	return due, ok
}

func (s *laneSet) push(tenant string, d statestore.DueKey) {
	if s.joined == nil || s.joined.tenant != tenant {
		s.joined = s.of(tenant)
	}
	s.joined.push(d)
}

// of is a tenant's lane.
func (s *laneSet) of(tenant string) *lane {
	l := s.by[tenant]
	if l == nil {
		if s.by == nil {
			s.by = map[string]*lane{}
		}
		l = &lane{tenant: tenant}
		s.by[tenant] = l
		s.order = append(s.order, l)
	}
	return l
}

func (s *laneSet) take(out []statestore.DueKey, n int) []statestore.DueKey {
	for len(s.order) > 0 && len(out) < n {
		l := s.order[0]
		k := min(quantum, n-len(out))
		if len(s.order) == 1 {
			k = n - len(out)
		}
		out = l.take(out, k)
		s.order = s.order[1:]
		if l.len() > 0 {
			s.order = append(s.order, l)
		} else {
			delete(s.by, l.tenant)
			if s.joined == l {
				s.joined = nil
			}
		}
	}
	return out
}
