package fair

import (
	"time"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// Queue holds what the wheel has let go and no turn has fired yet, so that who
// comes first is ours to choose. What is on time goes before what is overdue,
// and the runs that fire_all catches up with go at a rate of their own (pacer).
// Inside each, high priority goes before normal before low, and inside a
// priority every tenant in turn, so that a million triggers of one tenant due
// at 09:00:00.000 hold back another's of 09:00:00.001 by one turn, not by the
// million. With one tenant and priority it is the due index's order.
//
// It holds keys alone, no payloads, and at most what the wheel held, and
// what waits for the pacer beside it.
type Queue struct {
	onTime  lanes
	overdue lanes // later than overdueAfter when the wheel let them go
	paced   lanes // of runs under fire_all
	pacer   pacer
	held    heldTimers      // for receipts that are still to be read
	n       int             // without held
	newest  trigger.Instant // latest due time that came here without passing the wheel
}

// New makes an empty queue. rate is how many runs under fire_all go a second; 0
// or less: no bound.
func New(rate float64) Queue { return Queue{pacer: pacer{rate: rate}} }

// Paced is how many timers wait for the pacer.
func (r *Queue) Paced() int { return r.paced.n }

// Newest is the latest due time that came here without passing the wheel.
func (r *Queue) Newest() trigger.Instant { return r.newest }

// Unpaced is how many timers are here but those that wait for the pacer.
func (r *Queue) Unpaced() int { return r.n - r.paced.n + r.held.n() }

// overdueShare is the part of a turn that what is overdue gets however much is
// on time, so that a busy engine catches up, too: one in so many.
const overdueShare = 8

// overdueAfter is how late something may be and still go first. After an outage
// it is not only what was missed that would hold up what is punctual, but also
// the last minute's, which no misfire policy is asked about.
const overdueAfter = time.Second

// Push adds what the wheel has let go.
func (r *Queue) Push(d statestore.DueKey, now trigger.Instant) {
	r.push(d, now.Sub(d.Due) > overdueAfter)
}

// PushOverdue adds what goes behind all that is on time.
func (r *Queue) PushOverdue(d statestore.DueKey) { r.push(d, true) }

func (r *Queue) push(d statestore.DueKey, overdue bool) {
	r.n++
	if overdue {
		r.overdue.push(d)
	} else {
		r.onTime.push(d)
	}
}

// Pace adds a timer that goes at the pacer's rate.
func (r *Queue) Pace(d statestore.DueKey) {
	r.n++
	r.newest = max(r.newest, d.Due)
	r.paced.push(d)
}

// Taken are timers for one turn: the last paced of them are the pacer's.
type Taken struct {
	Due   []statestore.DueKey
	Paced int
}

// Take removes the next n timers, fewer if there are no more, and beside them
// what the pacer lets go.
func (r *Queue) Take(n int, now trigger.Instant) Taken {
	out := make([]statestore.DueKey, 0, min(n, r.n))
	out = r.onTime.take(out, n-min(r.overdue.n, n/overdueShare))
	out = r.overdue.take(out, n)
	free := len(out)
	out = r.paced.take(out, free+r.pacer.grant(r.paced.n, now))
	r.n -= len(out)
	return Taken{out, len(out) - free}
}

// First is the earliest due time here; ok is false without any.
func (r *Queue) First() (due trigger.Instant, ok bool) {
	due, ok = r.firstOfLanes()
	if r.held.n() > 0 && (!ok || r.held.first < due) {
		due, ok = r.held.first, true
	}
	return due, ok
}

func (r *Queue) firstOfLanes() (due trigger.Instant, ok bool) {
	for _, l := range []*lanes{&r.onTime, &r.overdue, &r.paced} {
		if at, some := l.first(); some && (!ok || at < due) {
			due, ok = at, true
		}
	}
	return due, ok
}

// Wake is when the next timer may go, those held for receipts aside: in the past, or when the pacer lets
// it; ok is false without any.
func (r *Queue) Wake(now trigger.Instant) (at trigger.Instant, ok bool) {
	switch {
	case r.n == 0:
		return 0, false
	case r.n > r.paced.n:
		return r.firstOfLanes()
	}
	return r.pacer.next(r.paced.n, now), true
}
