package pipeline

import (
	"sync"
	"time"

	"github.com/waterclock/waterclock/pipeline/fair"
	"github.com/waterclock/waterclock/trigger"
)

// behind says whose timers fall due faster than they fire: in two stretches of time in a row more of them fell
// due than fired, and the oldest is later than a bound. What an outage has left, and a herd, grow less: they
// are no reason to refuse anything.
//
// A tenant that gets no turn, because others go first or because nothing fires at all, is not behind.
type behind struct {
	after time.Duration // the bound; 0 or less: nobody is behind

	mu      sync.Mutex
	checked time.Time
	late    map[string]excess // at the last check
}

// excess is what fell due since the last check and did not fire.
type excess struct {
	late  time.Duration // the oldest timer
	twice bool          // there was some at the check before, too
}

const (
	checkEvery = 5 * time.Second
	checkHolds = 3 * checkEvery // a partition without turns says nothing of its tenants
)

// check compares what fell due and what fired since the last check, if it is time.
func (b *behind) check(wall time.Time, now trigger.Instant, q *fair.Queue) {
	since := wall.Sub(b.checked)
	if since < checkEvery {
		return
	}
	late := map[string]excess{}
	q.Flows(func(tenant string, f fair.Flow) {
		if f.Came > f.Took && f.Took >= fair.Quantum && f.Oldest != 0 && now.Sub(f.Oldest) > b.after && b.after > 0 {
			_, twice := b.late[tenant]
			late[tenant] = excess{now.Sub(f.Oldest), twice && since < checkHolds}
		}
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.checked, b.late = wall, late
}

// of is how late the oldest timer of a tenant was at the last check, if it is behind; else 0.
func (b *behind) of(tenant string, wall time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.late[tenant]; t.twice && wall.Sub(b.checked) < checkHolds {
		return t.late
	}
	return 0
}
