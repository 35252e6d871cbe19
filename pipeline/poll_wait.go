package pipeline

import (
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// beat is why a turn may have to run although nothing happened.
type beat struct {
	announced  bool // progress names us as owner
	replanning bool
	full       bool // more done records are kept than may be
	doubtful   bool // the clocks must be compared
	unnoted    bool // progress must note what was forwarded
	mends      bool // an audit has found something to mend
	watermark  bool // a watermark is late

	now       trigger.Instant
	forget    trigger.Instant // when the oldest done record expires; 0: there is none
	idle      time.Duration   // since the last turn
	heartbeat time.Duration
}

// must reports whether a turn must run.
func (b *beat) must() bool {
	if !b.announced || b.replanning || b.full || b.idle >= b.heartbeat {
		return true
	}
	if b.doubtful || b.unnoted || b.mends || b.watermark {
		return true
	}
	return b.forget != 0 && b.forget <= b.now && b.idle >= forgetInterval
}

// pollWait is what bounds how long poll may wait for records.
type pollWait struct {
	beat
	due        bool            // a timer is due, even if it must wait for receipts
	unfinished bool            // some timers wait for receipts
	held       bool            // the clocks are too far apart to fire
	next       trigger.Instant // when a timer, a scan of the due index or a watermark needs a turn
	barrier    time.Duration   // how long the read barrier lets poll wait
	forwarded  map[int32]int64 // what progress says is still to be forwarded
}

// most is how long poll may wait.
func (w *pollWait) most() time.Duration {
	most := untilNote(w.forwarded, w.idle, w.heartbeat-w.idle)
	switch {
	case w.must() && w.due: // the turn runs when the barrier has answered
		return w.barrier
	case w.must():
		return 0
	case w.held:
		return min(max(most, 0), time.Second) // after a second the clocks are compared
	case w.next <= w.now:
		return w.barrier
	}
	if w.unfinished {
		most = min(most, w.barrier)
	}
	most = min(most, w.next.Sub(w.now))
	if w.forget != 0 {
		most = min(most, max(w.forget.Sub(w.now), 100*time.Millisecond))
	}
	return max(most, 0)
}

// While memory is short, a turn reads a tenth of the usual, and a partition with nothing
// due pauses before each turn. Unread commands stay in the log. Timers are not delayed.
const (
	pressedShare = 10
	pressedRest  = 50 * time.Millisecond
)

// mostRecords is how many records a turn reads.
func (o *Options) mostRecords() int {
	if o.Pressed() {
		return max(o.MaxTurnRecords/pressedShare, 1)
	}
	return o.MaxTurnRecords
}

// pressedPause is that pause. It ends before next, when a timer needs a turn.
func pressedPause(now, next trigger.Instant) time.Duration {
	return max(0, min(pressedRest, next.Sub(now)))
}
