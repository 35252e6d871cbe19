package peer

import (
	"math"
	"strings"

	"github.com/waterclock/waterclock/trigger"
)

// A list by next fire has two parts. First stand the triggers that will fire, in the order of their
// timers. Behind them, at noFire, stand the others in the order of keys: those that are paused, have
// finished, or wait for a receipt alone.
//
// UserCursor.Due is four times the instant, plus the priority: timers of one instant fire by
// priority.
const noFire trigger.Instant = math.MaxInt64

func timerCursor(at TimerCursor) UserCursor {
	return UserCursor{at.Due<<2 | trigger.Instant(at.Priority), at.Key}
}

func (c UserCursor) timer() TimerCursor {
	return TimerCursor{c.Due >> 2, trigger.Priority(c.Due & 3), c.Key}
}

// mayFire are the states that the first part may have. The second may have any: a trigger whose rule has ended is
// pending until its last occurrence has its receipt.
const mayFire = StateSet(1<<trigger.Pending | 1<<trigger.InFlight)

// byNextFire reads a page of the list. What fires again is found by its timers. A trigger has more
// timers than the one at which it fires next, so each is compared with the state.
func (f *finder) byNextFire() error {
	q, after := f.q, f.q.After
	if q.states()&mayFire != 0 && after.Due != noFire {
		if err := f.byTimer(max(0, q.From)); err != nil || f.page.More || f.scan.err != nil {
			return err
		}
	}
	if (q.From != 0 || q.To != 0) && q.states()&^mayFire == 0 {
		return nil // what waits for a receipt alone has no next fire that could lie between them
	}
	key := trigger.Key("")
	if after.Due == noFire {
		key = after.Key
	}
	return f.byKey(key, func(s *trigger.State) UserCursor {
		if _, fires := firesByTimer(s); fires {
			return UserCursor{Due: noFire} // it stands in the first part
		}
		return UserCursor{noFire, s.Key}
	})
}

// byTimer reads what fires at from or later.
func (f *finder) byTimer(from trigger.Instant) (err error) {
	q, after := f.q, f.q.After
	if first := timerCursor(TimerCursor{Due: from}); after.Compare(first) < 0 {
		after = first
	}
	scanErr := f.owner.ScanTimers(f.scan.ctx, f.partition, after.timer(),
		func(at TimerCursor, state func() (*trigger.State, error)) bool {
			if q.To != 0 && at.Due >= q.To || !f.spend() {
				return false
			}
			if q.inTenant(at.Key) && strings.HasPrefix(at.Key.ID(), q.Prefix) {
				var s *trigger.State
				if s, err = state(); err != nil {
					return false
				}
				if next, fires := firesByTimer(s); fires && next == at.Due {
					f.take(timerCursor(at), s)
				}
			}
			return f.passed(timerCursor(at))
		})
	if err == nil {
		err = scanErr
	}
	return err
}

// firesByTimer says when a trigger fires next, as its timers have it. It does not fire if no timer
// has that instant, or if it is paused: retries and further steps keep their timers then.
func firesByTimer(s *trigger.State) (next trigger.Instant, fires bool) {
	if s.Status == trigger.Paused {
		return 0, false
	}
	var space [4]trigger.Timer
	next = s.Next()
	for _, t := range s.Timers(space[:]) {
		if t.Due == next {
			return max(0, next), true // the store has what is before 1970 at 1970
		}
	}
	return 0, false
}
