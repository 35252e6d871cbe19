package worker

import (
	"math"
	"time"
)

// clock estimates how far the brokers' clock is ahead of ours. Kafka has no request for the time,
// but append times reveal it:
//
//   - A record that was polled at our time t and appended at the broker's time a was appended before t.
//     So the broker is ahead by at least a-t.
//   - Suppose that we asked for the end of the log at our time t0, and the record's offset is not below
//     that end. Then it was appended after t0, and the broker is ahead by at most a-t0.
//
// Our clock counts as right unless these bounds contradict it: the estimate is the value between
// the bounds that is nearest to 0. So the first event that is appended after a worker has asked
// for the end corrects a wrong clock.
type clock struct {
	low, high   bound
	initialized bool
}

// steady is our clock: the system's at the beginning, and then the time that passes. A step of the
// system's clock does not move it. Between the step and the next bounds, events would count as expired.
func steady(begin time.Time, passed func() time.Duration) func() time.Time {
	return func() time.Time { return begin.Add(passed()) }
}

// bound is one of the two bounds, at our time at.
type bound struct {
	value time.Duration
	at    time.Time
}

// drift is how fast a bound weakens with age, because clocks run at different speeds.
const drift = 1000 // 1 ms a second

// unbounded means that nothing is known. It is half of the range, so that sums do not overflow.
const unbounded = time.Duration(math.MaxInt64 / 2)

func (b bound) weakened(now time.Time) time.Duration { return max(now.Sub(b.at), 0) / drift }

func (c *clock) bounds(now time.Time) (low, high time.Duration) {
	if !c.initialized {
		return -unbounded, unbounded
	}
	return c.low.value - c.low.weakened(now), c.high.value + c.high.weakened(now)
}

// observe learns from a record: when the broker appended it, when we polled it, and when we asked
// for an end that is not above its offset. asked is zero if there was no such request.
func (c *clock) observe(appended, polled, asked time.Time) {
	low, high := appended.Sub(polled), unbounded
	if !asked.IsZero() {
		high = appended.Add(time.Millisecond).Sub(asked) // append times are truncated to milliseconds
	}
	oldLow, oldHigh := c.bounds(polled)
	if low > oldHigh || high < oldLow { // a clock was set, so the old bounds are void
		oldLow, oldHigh = -unbounded, unbounded
	}
	c.low, c.high = bound{max(low, oldLow), polled}, bound{min(high, oldHigh), polled}
	c.initialized = true
}

// ahead returns the estimate.
func (c *clock) ahead(now time.Time) time.Duration {
	low, high := c.bounds(now)
	return min(max(0, low), high)
}

// now returns the brokers' time.
func (c *clock) now(now time.Time) time.Time { return now.Add(c.ahead(now)) }
