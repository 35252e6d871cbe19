package pipeline

import (
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// maxClockError is how far a node's clock may be from the broker's before the
// broker's counts.
const maxClockError = time.Second

// clock says what time decides what is due. Every commit tells the broker's
// time (topic state is LogAppendTime); between commits the monotonic clock
// carries it on. A node whose own clock is further than a second from that
// follows the broker's to within a second: a step forward fires nothing early,
// a step back holds nothing up, and a node an hour ahead hands over nothing
// that its successor would fire twice.
type clock struct {
	broker    time.Time // broker's time at the last commit
	committed time.Time // our monotonic time at the last commit
	asked     time.Time // last time a doubt was taken to the broker
	offset    time.Duration
}

// compare takes the append time of a record just committed.
func (c *clock) compare(appended, wall time.Time) {
	c.committed = time.Now()
	c.broker = appended
	c.offset = wall.Sub(appended)
}

// estimate is the broker's time now.
func (c *clock) estimate() time.Time { return c.broker.Add(time.Since(c.committed)) }

// now is the wall clock's time, kept within maxClockError of the broker's.
func (c *clock) now(wall time.Time) trigger.Instant {
	broker := c.estimate()
	switch {
	case wall.After(broker.Add(maxClockError)):
		wall = broker.Add(maxClockError)
	case wall.Before(broker.Add(-maxClockError)):
		wall = broker.Add(-maxClockError)
	}
	return trigger.At(wall)
}

// doubtful says that wall and broker time have come apart, and that it is time
// to ask the broker again: at most once a second.
func (c *clock) doubtful(wall time.Time) bool {
	d := wall.Sub(c.estimate())
	if d.Abs() <= maxClockError || time.Since(c.asked) < time.Second {
		return false
	}
	c.asked = time.Now()
	return true
}
