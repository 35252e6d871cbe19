package pipeline

import (
	"cmp"
	"context"
	"strings"

	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// putOff counts, by channel, the planned occurrences that their due topics have put off. The
// name of a trigger with priority high ends in highMark. Nothing keeps the counts: when a
// partition opens, what its store holds is counted beside the turns (countPutOff). Until that is
// added, a count says what turns have changed, and may be negative.
type putOff map[string]int64

const highMark = "\x00high"

// moved notes what a decision has changed. A turn that fails takes it back: the partition opens
// again, and begins with what progress has.
func (c putOff) moved(was, is *trigger.State) {
	from, to := putOffBy(was), putOffBy(is)
	if from == nil && to == nil {
		return
	}
	if from != nil {
		c.change(channelOf(from), -1)
	}
	if to != nil {
		c.change(channelOf(to), 1)
	}
}

// change adds to a count. The text may lie in a turn's memory.
func (c putOff) change(channel string, by int64) {
	if n := c[channel] + by; n != 0 {
		c[strings.Clone(channel)] = n
	} else {
		delete(c, channel)
	}
}

// add adds what was counted.
func (c putOff) add(found map[string]int64) {
	for channel, n := range found {
		c.change(channel, n)
	}
}

// putOffBy is the content of a state whose planned occurrence was put off; else nil. A paused
// trigger waits for who has paused it.
func putOffBy(s *trigger.State) *trigger.Spec {
	if s == nil || s.Series.At == 0 || s.Series.RetryAt < s.Series.Due() || s.Status.Finished() ||
		s.Status == trigger.Paused {
		return nil
	}
	return &s.Spec
}

func channelOf(s *trigger.Spec) string {
	channel := s.ChannelOfStep(0)
	if s.Priority == trigger.High {
		return channel + highMark
	}
	return channel
}

// countPutOff counts what a store holds. Whatever was put off is tried by the instant until, so
// nothing behind it is read.
func countPutOff(ctx context.Context, sn *statestore.Snapshot, until trigger.Instant) (putOff, error) {
	counts := putOff{}
	var bad error
	for at, more := (statestore.Home{}), true; more; {
		n := 0
		more = false
		err := sn.ScanHomes(at, func(home statestore.Home, key trigger.Key, value []byte) bool {
			if home.Here != "" || home.Due.Due > until {
				return false // neither has a paused trigger anything that was put off
			}
			var s *trigger.State
			if s, bad = topics.DecodeState(key, value); bad != nil {
				return false
			}
			counts.moved(nil, s)
			at, n = home, n+1
			more = n == retriesChunk
			return !more
		})
		if err = cmp.Or(bad, err, ctx.Err()); err != nil {
			return nil, err
		}
		wait.For(ctx, retriesPause)
	}
	return counts, nil
}
