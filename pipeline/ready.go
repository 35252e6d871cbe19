package pipeline

import (
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// ready holds what the wheel has let go and no turn has fired yet, so that who
// comes first is ours to choose: high priority before normal before low, and
// inside a priority every tenant in turn. A million triggers of one tenant due
// at 09:00:00.000 then hold back another's of 09:00:00.001 by one turn, not by
// the million. With one tenant and one priority it is the due index's order.
//
// It holds keys alone, no payloads, and at most what the wheel held.
type ready struct {
	lanes [3]laneSet // by priority
	n     int
}

// laneSet is the tenants of one priority that have something due.
type laneSet struct {
	by    map[string]*lane
	order []*lane // round robin; the next to serve first
}

// lane is one tenant's due timers, earliest first.
type lane struct {
	tenant string
	queue  []statestore.DueKey
	head   int
}

// quantum is how many timers of one tenant go before the next tenant's.
const quantum = 32

func (r *ready) push(d statestore.DueKey) {
	priority, key, _, _, ok := statestore.ParseRef(d.Ref)
	if !ok {
		panic("pipeline: the wheel holds a ref that is none: " + d.Ref)
	}
	set := &r.lanes[min(priority, trigger.Low)]
	tenant := key.Tenant()
	l := set.by[tenant]
	if l == nil {
		if set.by == nil {
			set.by = map[string]*lane{}
		}
		l = &lane{tenant: tenant}
		set.by[tenant] = l
		set.order = append(set.order, l)
	}
	l.queue = append(l.queue, d)
	r.n++
}

// take removes the next n timers, fewer if there are no more.
func (r *ready) take(n int) []statestore.DueKey {
	out := make([]statestore.DueKey, 0, min(n, r.n))
	for i := range r.lanes {
		out = r.lanes[i].take(out, n)
	}
	r.n -= len(out)
	return out
}

func (s *laneSet) take(out []statestore.DueKey, n int) []statestore.DueKey {
	for len(s.order) > 0 && len(out) < n {
		l := s.order[0]
		k := min(quantum, n-len(out), len(l.queue)-l.head)
		if len(s.order) == 1 {
			k = min(n-len(out), len(l.queue)-l.head)
		}
		out = append(out, l.queue[l.head:l.head+k]...)
		l.head += k
		s.order = s.order[1:]
		if l.head < len(l.queue) {
			s.order = append(s.order, l)
		} else {
			delete(s.by, l.tenant)
		}
	}
	return out
}

// first is the earliest due time held; ok is false without any.
func (r *ready) first() (due trigger.Instant, ok bool) {
	if r.n == 0 {
		return 0, false
	}
	for i := range r.lanes {
		for _, l := range r.lanes[i].order {
			if at := l.queue[l.head].Due; !ok || at < due {
				due, ok = at, true
			}
		}
	}
	return due, ok
}
