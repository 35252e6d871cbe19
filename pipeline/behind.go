package pipeline

import (
	"sync"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// behind says whose timers fall due faster than they fire: whose oldest overdue timer is late by more
// than a bound, and was not less so at the check before. A backlog that shrinks is none, however long it is: what an
// outage has left needs no help.
//
// Timers that fire_all catches up with have a rate of their own, and do not count.
type behind struct {
	after time.Duration // the bound; 0 or less: nobody is behind

	mu      sync.Mutex
	checked trigger.Instant
	late    map[string]overdueTenant
}

type overdueTenant struct {
	by      time.Duration // how late the oldest timer was at the last check
	growing bool
}

// A check finds the oldest timer of each tenant. Within checkEvery, a partition that keeps up fires what is due,
// and one that has a backlog can tell whether it shrinks.
const (
	checkEvery = 5 * time.Second
	checkHolds = 3 * checkEvery // a partition without turns, as one that waits for Kafka, says nothing
)

// oldest calls f for each tenant that has overdue timers, with the due time of the first of each priority.
type oldest func(f func(tenant string, due trigger.Instant))

// check finds who is behind, if it is time.
func (b *behind) check(now trigger.Instant, all oldest) {
	if b.after <= 0 || now.Sub(b.checked) < checkEvery && now >= b.checked {
		return
	}
	late := map[string]overdueTenant{}
	all(func(tenant string, due trigger.Instant) {
		if by := now.Sub(due); by > max(b.after, late[tenant].by) {
			was, known := b.late[tenant]
			late[tenant] = overdueTenant{by, known && by >= was.by}
		}
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.checked, b.late = now, late
}

// of is how late the oldest timer of a tenant is, if it is behind; else 0.
func (b *behind) of(tenant string, now trigger.Instant) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.late[tenant]; t.growing && now.Sub(b.checked) < checkHolds {
		return t.by
	}
	return 0
}
