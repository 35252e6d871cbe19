package worker

import (
	"math"
	"time"
)

// clock estimates how far the brokers' clock is ahead of ours. Kafka has no
// request for the time, but append times say it:
//
//   - A record that was polled at our time t and appended at the broker's time
//     a was appended before t: the broker is ahead by at least a-t.
//   - If its offset is not below the end of the log for which we asked at our
//     time t0, it was appended after t0: the broker is ahead by at most a-t0.
//
// Our clock counts for right unless these bounds say otherwise: the estimate
// is the point between them that is nearest to 0. So a worker with a wrong
// clock is corrected by the first event that is appended after it has asked.
type clock struct {
	low, high   bound
	initialized bool
}

// bound is one of them, as it was at our time at.
type bound struct {
	value time.Duration
	at    time.Time
}

// drift is by how much a bound weakens with its age: clocks run apart.
const drift = 1000 // 1 ms a second

// unbounded is that nothing is known; half of the range, so that sums do not
// overflow.
const unbounded = time.Duration(math.MaxInt64 / 2)

func (b bound) weakened(now time.Time) time.Duration { return max(now.Sub(b.at), 0) / drift }

func (c *clock) bounds(now time.Time) (low, high time.Duration) {
	if !c.initialized {
		return -unbounded, unbounded
	}
	return c.low.value - c.low.weakened(now), c.high.value + c.high.weakened(now)
}

// observe takes a record in: appended by the broker's clock, polled by ours,
// and asked, ours when an end below its offset was asked for; zero if none was.
func (c *clock) observe(appended, polled, asked time.Time) {
	low, high := appended.Sub(polled), unbounded
	if !asked.IsZero() {
		high = appended.Add(time.Millisecond).Sub(asked) // append times are cut to milliseconds
	}
	oldLow, oldHigh := c.bounds(polled)
	if low > oldHigh || high < oldLow { // a clock was set: what was known before is void
		oldLow, oldHigh = -unbounded, unbounded
	}
	c.low, c.high = bound{max(low, oldLow), polled}, bound{min(high, oldHigh), polled}
	c.initialized = true
}

// ahead is the estimate.
func (c *clock) ahead(now time.Time) time.Duration {
	low, high := c.bounds(now)
	return min(max(0, low), high)
}

// now is the brokers' time.
func (c *clock) now(now time.Time) time.Time { return now.Add(c.ahead(now)) }
