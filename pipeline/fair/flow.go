package fair

import (
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// Flow is how many timers of a tenant fell due and how many were taken since the last Flows, and when the
// oldest that is here fell due. Timers that wait for the pacer do not count.
type Flow struct {
	Came, Took int
	Oldest     trigger.Instant
}

// flows counts by tenant.
type flows struct {
	by   map[string]*Flow
	last string // the tenant that was counted last
	flow *Flow  // of it; nil: of none
}

// mostFlows bounds the tenants that are counted. Others have no flow.
const mostFlows = 10_000

func (f *flows) of(tenant string) *Flow {
	if f.flow != nil && f.last == tenant {
		return f.flow
	}
	flow := f.by[tenant]
	if flow == nil && len(f.by) < mostFlows {
		if f.by == nil {
			f.by = map[string]*Flow{}
		}
		flow = &Flow{}
		f.by[tenant] = flow
	}
	f.last, f.flow = tenant, flow
	return flow
}

func (f *flows) came(tenant string) {
	if flow := f.of(tenant); flow != nil {
		flow.Came++
	}
}

func (f *flows) took(tenant string, n int) {
	if flow := f.of(tenant); flow != nil {
		flow.Took += n
	}
}

// Came counts a timer that fell due and was not pushed: its owner left it in the store, or reads it from there.
func (r *Queue) Came(d statestore.DueKey) {
	_, tenant := r.onTime.of(d)
	r.flows.came(tenant)
}

// Flows calls f for each tenant whose timers fell due or were taken, and begins to count anew.
func (r *Queue) Flows(f func(tenant string, flow Flow)) {
	for tenant, flow := range r.flows.by {
		flow.Oldest = r.oldest(tenant)
		f(tenant, *flow)
	}
	r.flows = flows{}
}

// oldest is when the first timer of a tenant fell due; 0: there is none.
func (r *Queue) oldest(tenant string) (due trigger.Instant) {
	for _, l := range []*lanes{&r.onTime, &r.overdue} {
		for i := range l.sets {
			if lane := l.sets[i].by[tenant]; lane != nil && (due == 0 || lane.first() < due) {
				due = lane.first()
			}
		}
	}
	return due
}
