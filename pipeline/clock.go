package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// maxClockError is how far a node's clock may be from the broker's before the
// broker's counts.
const maxClockError = time.Second

// clock says what time decides what is due. The append time of our own last
// record on topic state (LogAppendTime) tells the broker's time, asked for at
// most once a second after a commit; in between the monotonic clock carries it
// on. A node whose own clock is further than a second from that
// follows the broker's to within a second: a step forward fires nothing early,
// a step back holds nothing up, and a node an hour ahead hands over nothing
// that its successor would fire twice.
type clock struct {
	broker  time.Time // broker's time, when we last learned it
	learned time.Time // our monotonic time then
	asked   time.Time // last time a doubt was taken to the broker
	offset  time.Duration
}

// compare takes the append time of a record that was acknowledged at
// acknowledged, when our own clock showed wall. The broker's time then was at
// most a round trip later.
func (c *clock) compare(appended, acknowledged, wall time.Time) {
	c.broker, c.learned = appended, acknowledged
	c.offset = wall.Sub(appended)
}

// stale says that it is time to learn the broker's time again.
func (c *clock) stale(wall time.Time) bool {
	age := time.Since(c.learned)
	return age >= 5*time.Second || (age >= time.Second && wall.Sub(c.estimate()).Abs() > maxClockError)
}

// estimate is the broker's time now.
func (c *clock) estimate() time.Time { return c.broker.Add(time.Since(c.learned)) }

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

// compareClock reads when our record at offset was appended. An answer without
// it (a leader just elected) changes nothing: the next turn asks again. The
// newest stamp of the partition would not do: one append by a broker whose
// clock was ahead would stand there until the clocks caught up.
func (p *Partition) compareClock(ctx context.Context, offset int64, acknowledged, wall time.Time) error {
	at, ok, err := p.kafka.appendTime(ctx, p.opts.Names.State(), p.id, offset)
	if err != nil {
		return fmt.Errorf("compare clocks: %w", err)
	}
	switch {
	case ok:
		p.clock.compare(at, acknowledged, wall)
	case p.clock.learned.IsZero():
		p.clock.compare(wall, acknowledged, wall)
	}
	return nil
}
