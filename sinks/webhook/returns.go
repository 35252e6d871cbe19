package webhook

import (
	"math/rand/v2"
	"time"
)

// longestAway bounds how long an event is away because others of its endpoint come back first. A
// longer queue comes back over the second half of this time.
const longestAway = time.Hour

// returns schedules when postponed events of one endpoint come back: one after the other, at a rate.
// Otherwise a million that wait behind one open breaker would all come back each time it lets calls
// out, and engine and worker would be busy with nothing else.
type returns struct {
	next time.Time // when the next one may come back
}

// after returns how long an event is away: at least so long, and until its turn.
func (r *returns) after(now time.Time, least time.Duration, perSecond float64) time.Duration {
	if first := now.Add(least); r.next.Before(first) {
		r.next = first
	}
	away := r.next.Sub(now)
	if away > longestAway && away > least {
		return max(least, longestAway/2+rand.N(longestAway/2))
	}
	r.next = r.next.Add(time.Duration(float64(time.Second) / perSecond))
	return away
}
