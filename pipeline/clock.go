package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/trigger"
)

// maxClockError is how far a node's clock may be from the broker's. Beyond it the broker's
// clock counts.
const maxClockError = time.Second

// clock is the time that decides what is due. A partition learns the broker's time from the
// append time of its own last record on topic state (LogAppendTime), at most once a second.
// In between, the monotonic clock carries it on. If the node's clock is more than a second
// off, the partition follows the broker's clock. So a clock that jumps forward fires
// nothing early, and one that jumps back delays nothing. A node whose clock is ahead does
// not leave work that its successor would fire twice.
//
// This holds for small errors. Beyond limit, nobody knows which clock is right. To follow a
// leader that is a month ahead would fire a month of triggers for good. So the partition
// holds until a second broker agrees with the first, or until the operator sets a larger
// limit.
type clock struct {
	limit   time.Duration
	held    bool          // the clocks are too far apart, and no second broker agrees
	agreed  time.Duration // offset that a second broker agreed to; 0: none
	broker  time.Time     // broker's time when we last learned it
	learned time.Time     // our monotonic time then
	asked   time.Time     // last time a doubt made a turn, which asks the broker
	offset  time.Duration
}

// compare takes the append time of a record that was acknowledged at acknowledged, when our
// own clock showed wall. The broker's time was then at most one round trip later.
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

// stale reports whether it is time to learn the broker's time.
func (c *clock) stale(wall time.Time) bool {
	age := time.Since(c.learned)
	return age >= 5*time.Second || age >= time.Second && (c.held || wall.Sub(c.estimate()).Abs() > maxClockError)
}

// estimate is the broker's time now.
func (c *clock) estimate() time.Time { return c.broker.Add(time.Since(c.learned)) }

// now is the wall clock's time, kept within maxClockError of the broker's. While the two
// are too far apart it is the earlier one, so that no record carries a time in the future.
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

// latest is the later of the two clocks. What is old by it is old by both.
func (c *clock) latest(wall time.Time) trigger.Instant {
	return max(trigger.At(wall), trigger.At(c.estimate()))
}

// doubtful reports whether the two clocks have moved apart and the broker should be asked,
// at most once a second.
func (c *clock) doubtful(wall time.Time) bool {
	apart := c.held || wall.Sub(c.estimate()).Abs() > maxClockError
	return apart && time.Since(c.asked) >= time.Second
}

// brokerClock asks the brokers for the time that clock uses.
type brokerClock struct {
	clock
	opts       *Process
	kafka      *session
	log        *slog.Logger
	state      kafkapart.TopicPartition // our partition of topic state
	heldLogged time.Time                // when the log last said that the clocks are too far apart
}

// ask reads the append time of our record at offset. If the answer lacks it, because a
// leader was just elected, nothing changes, and the next turn asks. The newest append time
// of the partition would not do. If one broker's clock were ahead, its stamp would stay
// there until the other clocks caught up.
func (c *brokerClock) ask(ctx context.Context, offset int64, acknowledged, wall time.Time) error {
	_, err := c.askOnce(ctx, offset, acknowledged, wall)
	return err
}

// learnWithin bounds how long an opening waits for the broker's time, and askPause is the
// time between two questions.
const (
	learnWithin = 10 * time.Second
	askPause    = 50 * time.Millisecond
)

// learn is ask for a partition that opens. It asks until the answer has the time: this
// node's own clock must not count in its place, or a wrong one fires too early.
func (c *brokerClock) learn(ctx context.Context, offset int64, acknowledged, wall time.Time) error {
	for start := time.Now(); ; {
		ok, err := c.askOnce(ctx, offset, acknowledged, wall)
		if err != nil || ok {
			return err
		}
		if time.Since(start) >= learnWithin {
			return fmt.Errorf("compare clocks: no leader of %s/%d shows the acknowledged record at offset %d",
				c.state.Topic, c.state.Partition, offset)
		}
		if wait.For(ctx, askPause); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (c *brokerClock) askOnce(ctx context.Context, offset int64, acknowledged, wall time.Time) (ok bool, err error) {
	appended, ok, err := c.kafka.reader.AppendTime(ctx, c.state, offset)
	if err != nil {
		return false, fmt.Errorf("compare clocks: %w", err)
	}
	if !ok { // the last reading is old, and may be of another broker
		return false, nil
	}
	c.compare(appended.At, acknowledged, wall)
	c.askOthers(ctx, c.stampedBy(appended.Epoch))
	return true, nil
}

// stampedBy is the broker that appended our record, in the epoch that it had as leader; negative if another one leads
// by now.
func (c *brokerClock) stampedBy(epoch int32) (broker int32) {
	leader, now, err := c.kafka.cl.PartitionLeader(c.state.Topic, c.state.Partition)
	if err != nil || now != epoch {
		return -1
	}
	return leader
}

// askOthers lets the partition fire if a second broker confirms the time of the first.
func (c *brokerClock) askOthers(ctx context.Context, leader int32) {
	c.opts.clocks.note(leader, c.offset)
	if !c.held {
		c.heldLogged = time.Time{}
		return
	}
	who, agrees := c.opts.clocks.agrees(leader, c.offset, c.limit)
	if !agrees && leader >= 0 && c.offset < 0 {
		who, agrees = c.othersAsLate(ctx, leader)
	}
	if agrees {
		c.agree()
		c.log.Warn("this node's clock is far from the clocks of two brokers, which agree: using the brokers' time",
			"offset", c.offset, "broker", leader, "agrees", who)
		return
	}
	if time.Since(c.heldLogged) >= clockWarnInterval {
		c.heldLogged = time.Now()
		// A warning, because a wrong clock holds every partition of this node: warnings of several partitions are
		// folded into one line.
		c.log.Warn("firing is held: this node's clock and the broker's clock differ too much", "offset", c.offset,
			"limit", c.limit,
			"broker", leader, "advice", "correct the wrong clock; if the broker is right, raise clock.max_offset")
	}
}

// clockWarnInterval is the time between two log lines of a held partition.
const clockWarnInterval = 30 * time.Second

// othersWithin bounds askOthers.
const othersWithin = 2 * time.Second

// othersAsLate searches for a record that a leader on another broker has stamped as late as
// ours. Two brokers then agree on the time. A record of an older epoch may have the stamp of our own leader.
func (c *brokerClock) othersAsLate(ctx context.Context, leader int32) (who int32, agrees bool) {
	ctx, cancel := context.WithTimeout(ctx, othersWithin)
	defer cancel()
	at := c.estimate().Add(-c.limit).UnixMilli()
	for _, topic := range []string{c.opts.Names.State(), c.opts.Names.Commands(), c.opts.Names.Events()} {
		for other := range c.opts.Partitions {
			broker, epoch, err := c.kafka.cl.PartitionLeader(topic, other)
			if err != nil || broker < 0 || broker == leader {
				continue
			}
			answers, err := kafkapart.FindOffsets(ctx, c.kafka.cl, []string{topic}, other, kafkapart.ReadUncommitted,
				at)
			if err == nil && answers[0].Offset >= 0 && answers[0].LeaderEpoch == epoch { // such a record exists
				return broker, true
			}
		}
	}
	return -1, false
}

// clocks holds the brokers' clocks as all partitions of a process have seen them.
type clocks struct {
	mu sync.Mutex
	by map[int32]metClock // by broker
}

type metClock struct {
	offset time.Duration // our clock's offset from the broker's
	at     time.Time
}

// clockServes is how long a clock counts as a second opinion.
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

// agrees names another broker whose clock is as far from ours; ok is false if there is
// none.
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
