package fair

import (
	"time"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// Queue holds the timers that are due and that no turn has fired yet, and
// decides their order. Timers on time go before overdue ones, and runs that fire_all
// catches up with go at a rate of their own (pacer). Within each group, priority high goes
// before normal, and normal before low. Within a priority, tenants take turns. So a million
// triggers of one tenant at 09:00:00.000 delay another tenant's at 09:00:00.001 by one
// turn. With one tenant and one priority the order of each group is that of the due index.
//
// It holds keys and no payloads. How many is up to its owner.
type Queue struct {
	onTime  lanes
	overdue lanes // later than overdueAfter
	paced   lanes // of runs under fire_all
	pacer   pacer
	held    heldTimers      // wait for receipts that are still unread
	flows   flows           // since the last Flows
	n       int             // number of timers, without held
	newest  trigger.Instant // latest due time of a timer that skipped the wheel
}

// New makes an empty queue. rate is how many occurrences under fire_all fire per second; 0
// or less: no limit.
func New(rate float64) Queue { return Queue{pacer: pacer{rate: rate}} }

// Paced is how many timers wait for the pacer.
func (r *Queue) Paced() int { return r.paced.n }

// High is how many timers of priority high wait that are on time.
func (r *Queue) High() int { return r.onTime.sets[trigger.High].n }

// Newest is the latest due time of a timer that skipped the wheel.
func (r *Queue) Newest() trigger.Instant { return r.newest }

// Unpaced is how many timers are here without those that wait for the pacer.
func (r *Queue) Unpaced() int { return r.n - r.paced.n + r.held.n() }

// overdueShare is the part of a turn that overdue timers get even if many are on time: one
// in this many. So a busy engine catches up, too.
const overdueShare = 8

// overdueAfter is how late a timer may be and still count as on time. After an outage, not
// only the missed occurrences would delay punctual ones, but also those of the last minute,
// which are no misfires. So would those that fell due on time, while fewer fired than fell due,
// and have waited here since. Priority high that fell due on time stays so: it would go behind lower ones.
const overdueAfter = time.Second

// Push adds a timer that the wheel has released.
func (r *Queue) Push(d statestore.DueKey, now trigger.Instant) {
	r.flows.came(r.push(d, isOverdue(d, now)))
}

// isOverdue reports whether a timer that may fire from now on is late.
func isOverdue(d statestore.DueKey, now trigger.Instant) bool { return now.Sub(d.Due) > overdueAfter }

// Waiting is how many timers wait that have the tenant and priority of this one, and are on time,
// or overdue, as it is.
func (r *Queue) Waiting(d statestore.DueKey, now trigger.Instant) int {
	if isOverdue(d, now) {
		return r.overdue.waiting(d)
	}
	return r.onTime.waiting(d)
}

// PushRead adds a due timer that was read from the due index and skipped the wheel.
func (r *Queue) PushRead(d statestore.DueKey, now trigger.Instant) {
	r.newest = max(r.newest, d.Due)
	r.push(d, isOverdue(d, now))
}

func (r *Queue) push(d statestore.DueKey, overdue bool) (tenant string) {
	r.n++
	if overdue {
		return r.overdue.push(d)
	}
	return r.onTime.push(d)
}

// Pace adds a timer that goes at the pacer's rate.
func (r *Queue) Pace(d statestore.DueKey) {
	r.n++
	r.newest = max(r.newest, d.Due)
	r.paced.push(d)
}

// Taken are the timers of one turn. The last paced of them go at the pacer's rate.
type Taken struct {
	Due   []statestore.DueKey
	Paced int
	High  int // the first of them, on time and of priority high
}

// Take removes the next n timers, or all if there are fewer, and adds those that the pacer
// allows.
func (r *Queue) Take(n int, now trigger.Instant) Taken {
	if r.onTime.n > n { // some of them may have waited for long: what falls due now must not wait behind them
		r.onTime.pass(&r.overdue, now-trigger.Instant(overdueAfter.Milliseconds()))
	}
	out := make([]statestore.DueKey, 0, min(n, r.n))
	room := n - min(r.overdue.n, n/overdueShare)
	high := min(room, r.onTime.sets[trigger.High].n)
	out = r.onTime.take(out, room, &r.flows)
	out = r.overdue.take(out, n, &r.flows)
	free := len(out)
	out = r.paced.take(out, free+r.pacer.grant(r.paced.n, now), nil)
	r.n -= len(out)
	return Taken{Due: out, Paced: len(out) - free, High: high}
}

// First is the earliest due time here; ok is false if the queue is empty.
func (r *Queue) First() (due trigger.Instant, ok bool) {
	due, ok = r.Queued()
	if r.held.n() > 0 && (!ok || r.held.first < due) {
		due, ok = r.held.first, true
	}
	return due, ok
}

// Queued is the earliest due time without the held ones.
func (r *Queue) Queued() (due trigger.Instant, ok bool) {
	for _, l := range []*lanes{&r.onTime, &r.overdue, &r.paced} {
		if at, some := l.first(); some && (!ok || at < due) {
			due, ok = at, true
		}
	}
	return due, ok
}

// Wake is when the next timer may fire, without the held ones. It lies in the past, or is
// when the pacer allows one. ok is false if there is none.
func (r *Queue) Wake(now trigger.Instant) (at trigger.Instant, ok bool) {
	switch {
	case r.n == 0:
		return 0, false
	case r.n > r.paced.n:
		return r.Queued()
	}
	return r.pacer.next(r.paced.n, now), true
}
