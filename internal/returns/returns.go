// Package returns schedules when postponed due events come back: one after the other. Otherwise a
// million that wait for one endpoint or provider would all come back each time it may be asked, and
// engine and worker would be busy with nothing else.
package returns

import (
	"math/rand/v2"
	"time"
)

// PerSecond is how many events come back a second, if no setting says otherwise.
const PerSecond = 1000

// longestAway bounds how long an event is away because others come back first. A longer queue comes
// back over the second half of this time.
const longestAway = time.Hour

// Queue is the order in which the events that one cause holds up come back. Those of priority high
// wait for none of the others. The zero Queue is empty. It is not safe for concurrent use.
type Queue struct {
	normal, high time.Time // when the next one may come back
}

// After returns how long an event is away: at least so long, and until its turn. perSecond is more
// than 0.
func (q *Queue) After(now time.Time, high bool, least time.Duration, perSecond float64) time.Duration {
	next := &q.normal
	if high {
		next = &q.high
	}
	if first := now.Add(least); next.Before(first) {
		*next = first
	}
	away := next.Sub(now)
	if away > longestAway && away > least {
		return max(least, longestAway/2+rand.N(longestAway/2))
	}
	*next = next.Add(time.Duration(float64(time.Second) / perSecond))
	return away
}

// Idle reports whether nothing waits to come back any more. A Queue that is idle may be dropped.
func (q *Queue) Idle(now time.Time) bool { return !q.normal.After(now) && !q.high.After(now) }
