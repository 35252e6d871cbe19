package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/trigger"
)

// maxClockError is how far a node's clock may be from the broker's before the
// broker's counts.
const maxClockError = time.Second

// clock says what time decides what is due. The append time of our own last
// record on topic state (LogAppendTime) is the broker's time, asked for at
// most once a second after a commit; in between the monotonic clock carries it
// on. A node whose own clock is further than a second from that
// follows the broker's to within a second: a step forward fires nothing early,
// a step back holds nothing up, and a node that is ahead hands over nothing
// that its successor would fire twice.
//
// That is for clocks that are a little off. Beyond limit nobody knows which of
// the two is right, and to follow a leader that is a month ahead would fire a
// month, for good: then the partition holds, until a second broker agrees with
// the first, or the operator does, by a larger limit.
type clock struct {
	limit   time.Duration
	held    bool          // they are too far apart, and nobody has agreed
	agreed  time.Duration // offset that a second broker has agreed to; 0: none
	broker  time.Time     // broker's time, when we last learned it
	learned time.Time     // our monotonic time then
	asked   time.Time     // last time a doubt was taken to the broker
	offset  time.Duration
}

// compare takes the append time of a record that was acknowledged at
// acknowledged, when our own clock showed wall. The broker's time then was at
// most a round trip later.
func (c *clock) compare(appended, acknowledged, wall time.Time) {
	c.broker, c.learned = appended, acknowledged
	c.offset = wall.Sub(appended)
	switch {
	case c.offset.Abs() <= c.limit:
		c.held, c.agreed = false, 0
	case c.agreed != 0 && (c.offset-c.agreed).Abs() <= c.limit:
		c.held = false
	default:
		c.held, c.agreed = true, 0
	}
}

// agree notes that another broker's clock is as far from ours.
func (c *clock) agree() { c.held, c.agreed = false, c.offset }

// stale says that it is time to learn the broker's time again.
func (c *clock) stale(wall time.Time) bool {
	age := time.Since(c.learned)
	return age >= 5*time.Second || age >= time.Second && (c.held || wall.Sub(c.estimate()).Abs() > maxClockError)
}

// estimate is the broker's time now.
func (c *clock) estimate() time.Time { return c.broker.Add(time.Since(c.learned)) }

// now is the wall clock's time, kept within maxClockError of the broker's; while
// they are too far apart, the earlier of the two, so that nothing of what is
// written comes from a future that may not be.
func (c *clock) now(wall time.Time) trigger.Instant {
	broker := c.estimate()
	switch {
	case c.held && broker.Before(wall):
		return trigger.At(broker)
	case c.held:
	case wall.After(broker.Add(maxClockError)):
		wall = broker.Add(maxClockError)
	case wall.Before(broker.Add(-maxClockError)):
		wall = broker.Add(-maxClockError)
	}
	return trigger.At(wall)
}

// latest is the later of the two clocks: what it says is old, is old.
func (c *clock) latest(wall time.Time) trigger.Instant {
	return max(trigger.At(wall), trigger.At(c.estimate()))
}

// doubtful says that wall and broker time have come apart, and that it is time
// to ask the broker again: at most once a second.
func (c *clock) doubtful(wall time.Time) bool {
	d := wall.Sub(c.estimate())
	if d.Abs() <= maxClockError && !c.held || time.Since(c.asked) < time.Second {
		return false
	}
	c.asked = time.Now()
	return true
}

// brokerClock asks the brokers for what clock goes by.
type brokerClock struct {
	clock
	opts       *Process
	kafka      *session
	log        *slog.Logger
	state      kafkapart.TopicPartition // our partition of topic state
	heldLogged time.Time                // when it was last said in the log that clocks are too far apart
}

// ask reads when our record at offset was appended. An answer without
// it (a leader just elected) changes nothing: the next turn asks again. The
// newest stamp of the partition would not do: one append by a broker whose
// clock was ahead would stand there until the clocks caught up.
func (c *brokerClock) ask(ctx context.Context, offset int64, acknowledged, wall time.Time) error {
	at, ok, err := c.kafka.reader.AppendTime(ctx, c.state, offset)
	if err != nil {
		return fmt.Errorf("compare clocks: %w", err)
	}
	switch {
	case ok:
		c.compare(at, acknowledged, wall)
	case c.learned.IsZero():
		c.compare(wall, acknowledged, wall)
	}
	c.askOthers(ctx)
	return nil
}

// askOthers goes on firing if a second broker has the time of the first.
func (c *brokerClock) askOthers(ctx context.Context) {
	leader, _, err := c.kafka.cl.PartitionLeader(c.state.Topic, c.state.Partition)
	if err != nil {
		leader = -1
	}
	c.opts.clocks.note(leader, c.offset)
	if !c.held {
		c.heldLogged = time.Time{}
		return
	}
	who, agrees := c.opts.clocks.agrees(leader, c.offset, c.limit)
	if !agrees && c.offset < 0 {
		who, agrees = c.othersAsLate(ctx, leader)
	}
	if agrees {
		c.agree()
		c.log.Warn("this node's clock is far from the brokers', two of which agree: firing by theirs", "offset",
			c.offset, "broker", leader, "agrees", who)
		return
	}
	if time.Since(c.heldLogged) >= clockWarnInterval {
		c.heldLogged = time.Now()
		c.log.Error("firing is held: this node's clock and the broker's are too far apart", "offset", c.offset, "limit",
			c.limit,
			"broker", leader, "advice", "set the wrong one right; or, if the broker is right, raise clock.max_offset")
	}
}

// clockWarnInterval is how often a held partition says so.
const clockWarnInterval = 30 * time.Second

// othersWithin bounds that question.
const othersWithin = 2 * time.Second

// othersAsLate looks for a record that a leader on another broker has stamped
// as late as ours: two brokers then say that it is that late.
func (c *brokerClock) othersAsLate(ctx context.Context, leader int32) (who int32, agrees bool) {
	ctx, cancel := context.WithTimeout(ctx, othersWithin)
	defer cancel()
	at := c.estimate().Add(-c.limit).UnixMilli()
	for _, topic := range []string{c.opts.Names.State(), c.opts.Names.Commands(), c.opts.Names.Events()} {
		for other := range c.opts.Partitions {
			broker, _, err := c.kafka.cl.PartitionLeader(topic, other)
			if err != nil || broker < 0 || broker == leader {
				continue
			}
			answers, err := kafkapart.FindOffsets(ctx, c.kafka.cl, []string{topic}, other, kafkapart.ReadUncommitted,
				at)
			if err == nil && answers[0].Offset >= 0 { // there is one, at or after at
				return broker, true
			}
		}
	}
	return -1, false
}

// clocks are the brokers' clocks as all partitions of a process have met them.
type clocks struct {
	mu sync.Mutex
	by map[int32]metClock // by broker
}

type metClock struct {
	offset time.Duration // of ours from the broker's
	at     time.Time
}

// clockServes is how long it serves as a second opinion.
const clockServes = time.Minute

func (c *clocks) note(broker int32, offset time.Duration) {
	if broker < 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[int32]metClock{}
	}
	c.by[broker] = metClock{offset, time.Now()}
}

// agrees names another broker whose clock is as far from ours.
func (c *clocks) agrees(broker int32, offset, limit time.Duration) (who int32, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	who = -1
	for other, met := range c.by {
		if other != broker && broker >= 0 && time.Since(met.at) <= clockServes && (met.offset-offset).Abs() <= limit &&
			(!ok || other < who) {
			who, ok = other, true
		}
	}
	return who, ok
}
