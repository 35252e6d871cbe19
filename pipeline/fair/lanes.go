package fair

import (
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// lanes holds timers by priority, then by tenant.
type lanes struct {
	sets [3]laneSet
	n    int
}

// laneSet is the tenants of one priority that have due timers.
type laneSet struct {
	by     map[string]*lane
	order  []*lane // round robin; the first is served next
	joined *lane   // lane of the last push; nil: none, or it is gone
	n      int
}

// Quantum is how many timers of one tenant fire before the next tenant's.
const Quantum = 32

func (l *lanes) push(d statestore.DueKey) (tenant string) {
	set, tenant := l.of(d)
	set.push(tenant, d)
	l.n++
	return tenant
}

// of is where a timer waits.
func (l *lanes) of(d statestore.DueKey) (set *laneSet, tenant string) {
	priority, key, _, _, ok := statestore.ParseRef(d.Ref)
	if !ok {
		panic("fair: the wheel holds an invalid ref: " + d.Ref)
	}
	return &l.sets[min(priority, trigger.Low)], key.Tenant()
}

// waiting is how many timers wait in a timer's lane.
func (l *lanes) waiting(d statestore.DueKey) int {
	set, tenant := l.of(d)
	if lane := set.by[tenant]; lane != nil {
		return lane.len()
	}
	return 0
}

// take appends to out until it has n.
func (l *lanes) take(out []statestore.DueKey, n int, counted *flows) []statestore.DueKey {
	had := len(out)
	for i := range l.sets {
		out = l.sets[i].take(out, n, counted)
	}
	l.n -= len(out) - had
	return out
}

// pass moves what is due before a time to other lanes, but for priority high: however long that has waited, nothing of
// a lower priority goes before it.
func (l *lanes) pass(to *lanes, before trigger.Instant) {
	for i := trigger.High + 1; int(i) < len(l.sets); i++ {
		n := l.sets[i].pass(&to.sets[i], before)
		l.n, to.n = l.n-n, to.n+n
	}
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
	s.n++
}

// of returns the lane of a tenant.
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

func (s *laneSet) take(out []statestore.DueKey, n int, counted *flows) []statestore.DueKey {
	had := len(out)
	for len(s.order) > 0 && len(out) < n {
		l := s.order[0]
		k := min(Quantum, n-len(out))
		if len(s.order) == 1 {
			k = n - len(out)
		}
		before := len(out)
		out = l.take(out, k)
		if counted != nil {
			counted.took(l.tenant, len(out)-before)
		}
		s.order = s.order[1:]
		if l.len() > 0 {
			s.order = append(s.order, l)
		} else {
			s.remove(l)
		}
	}
	s.n -= len(out) - had
	return out
}

// remove forgets a lane that is empty, and in order no more.
func (s *laneSet) remove(l *lane) {
	delete(s.by, l.tenant)
	if s.joined == l {
		s.joined = nil
	}
}

// pass moves what is due before a time to another set, and returns how much that was.
func (s *laneSet) pass(to *laneSet, before trigger.Instant) (n int) {
	left := s.order[:0]
	for _, l := range s.order {
		if l.first() < before {
			n += l.pass(to.of(l.tenant), before)
		}
		if l.len() > 0 {
			left = append(left, l)
		} else {
			s.remove(l)
		}
	}
	clear(s.order[len(left):])
	s.order = left
	s.n, to.n = s.n-n, to.n+n
	return n
}
