package barrier

import (
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// Input is how far one topic has been read, and how far it must be.
type Input struct {
	Topic string

	at      int64           // next offset to read
	end     int64           // high watermark when asked
	asked   trigger.Instant // when that was, before the question; 0: not yet
	through trigger.Instant // all that was acknowledged up to here has been read

	moved     time.Time // when it last brought something
	checked   time.Time // when it was last found out why it brings nothing
	held      time.Time // since when an open transaction holds it; zero: none does
	tolerated int64     // stable offset that was waited for long enough
}

// At is the next offset to read.
func (i *Input) At() int64 { return i.at }

// MoveTo passes what nobody can read.
func (i *Input) MoveTo(offset int64) { i.at = offset }

// Through is the instant up to which all that was acknowledged has been read.
func (i *Input) Through() trigger.Instant { return i.through }

// Reached says that all is read that was there when asked.
func (i *Input) Reached() bool { return i.at >= i.end }

// Stands says that nothing has come for so long although there is more.
func (i *Input) Stands(now time.Time, long time.Duration) bool {
	return !i.Reached() && now.Sub(i.moved) >= long
}

// forget drops an answer to a question that was put later than now: the clock was
// set back since, and what falls due until then once more has not been asked for.
func (i *Input) forget(now trigger.Instant) {
	if i.asked > now || i.through > now {
		i.asked, i.through = 0, 0
	}
}

// pass notes that the end was reached. It returns since when an open transaction
// held it back, if one did.
func (i *Input) pass() (held time.Time) {
	if !i.Reached() {
		return time.Time{}
	}
	i.through = max(i.through, i.asked)
	held, i.held = i.held, time.Time{}
	return held
}

// hiddenAfter is how long an input may bring nothing before it is found out why,
// and how often that is asked.
const hiddenAfter = 25 * time.Millisecond

// stalled says that nothing comes although the end is not reached.
func (i *Input) stalled(now time.Time) bool {
	return i.Stands(now, hiddenAfter) && now.Sub(i.checked) >= hiddenAfter
}

// hold waits at a stable offset for a foreign open transaction, but not for ever:
// then only this end is given up. The position stays, and what the transaction
// commits later is read as always. It says whether it gave up.
func (i *Input) hold(stable int64, now time.Time, most time.Duration) bool {
	if i.at < stable || i.Reached() {
		return false
	}
	if i.held.IsZero() {
		i.held = now
	}
	if stable > i.tolerated && now.Sub(i.held) < most {
		return false
	}
	i.tolerated, i.end = stable, i.at
	return true
}
