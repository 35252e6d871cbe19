package barrier

import (
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// Input is how far one topic has been read, and how far it must be.
type Input struct {
	Topic string

	at      int64           // next offset to read
	end     int64           // high watermark of the last answer
	asked   trigger.Instant // when it was asked for, before the question; 0: not yet
	through trigger.Instant // everything acknowledged up to here has been read

	moved     time.Time // when it last brought records
	checked   time.Time // when it was last checked why it brings nothing
	held      time.Time // since when open transactions hold it; zero: none
	since     time.Time // since when they hold it before this end; zero: they have not yet
	tolerated int64     // stable offset that was waited for long enough
}

// At returns the next offset to read.
func (i *Input) At() int64 { return i.at }

// MoveTo skips what nobody can read.
func (i *Input) MoveTo(offset int64) { i.at = offset }

// Through is the instant up to which everything acknowledged has been read.
func (i *Input) Through() trigger.Instant { return i.through }

// give takes an end that was asked for at asked. What holds the input from now on may have
// begun since the last answer.
func (i *Input) give(asked trigger.Instant, end int64) {
	i.asked, i.end, i.since = asked, end, time.Time{}
}

// Reached reports whether everything that was there when asked has been read.
func (i *Input) Reached() bool { return i.at >= i.end }

// Stands reports whether nothing has come for so long although there is more.
func (i *Input) Stands(now time.Time, long time.Duration) bool {
	return !i.Reached() && now.Sub(i.moved) >= long
}

// forget drops an answer to a question that lies in the future of now. The clock was set
// back, and what falls due until then has not been asked for.
func (i *Input) forget(now trigger.Instant) {
	if i.asked > now || i.through > now {
		i.asked, i.through = 0, 0
	}
}

// pass notes that the end was reached. It returns since when an open transaction held it;
// zero if none did.
func (i *Input) pass() (held time.Time) {
	if !i.Reached() {
		return time.Time{}
	}
	i.through = max(i.through, i.asked)
	held, i.held = i.held, time.Time{}
	return held
}

// hiddenAfter is how long an input may bring nothing before the cause is checked, and the
// time between two checks.
const hiddenAfter = 25 * time.Millisecond

// stalled reports whether nothing comes although the end is not reached.
func (i *Input) stalled(now time.Time) bool {
	return i.Stands(now, hiddenAfter) && now.Sub(i.checked) >= hiddenAfter
}

// hold waits at a stable offset for a foreign open transaction. Then it gives this end up.
// The position stays, and what the transaction commits later is read. It reports whether it
// gave up.
//
// It waits at most for most before one end, over all transactions. Each of them was open
// when the end was given, because it begins below it. So each has been open for as long as
// the first one has held the input.
func (i *Input) hold(stable int64, now time.Time, most time.Duration) bool {
	if i.at < stable || i.Reached() {
		return false
	}
	if i.held.IsZero() {
		i.held = now
	}
	if i.since.IsZero() {
		i.since = now
	}
	if stable > i.tolerated && now.Sub(i.since) < most {
		return false
	}
	i.tolerated, i.end = stable, i.at
	return true
}
