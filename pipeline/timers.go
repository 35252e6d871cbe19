package pipeline

import (
	"math"
	"time"

	"github.com/waterclock/waterclock/pipeline/fair"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
	"github.com/waterclock/waterclock/wheel"
)

// timers holds what is due next. All timers of a partition are in the due index of the
// store. The near ones are in the wheel, too. A due one waits for its turn in ready. If more
// is due than there is room for, the rest is left in the store (timers_left.go).
type timers struct {
	store        *statestore.Store
	wheelEntries int // the most that the wheel and ready hold of what is read ahead
	pacedEntries int // the most that may wait for the pacer

	wheel    *wheel.Wheel
	high     dueTimes          // when timers of priority high in the wheel fall due
	hydrated statestore.DueKey // the due index was read up to here
	ready    fair.Queue        // due, and waiting to fire
	mark     trigger.Instant   // a watermark is due since then; 0: none is
	atOnce   bool              // the inputs of the last turn made a timer due at once
	expect   trigger.Instant   // since then those that were read may do so, too; 0: they are not expected to
	left     *stretch          // among these are timers that found no room with the pacer; nil: none
	skipped  *stretch          // among these are timers that found no room in memory; nil: none
}

// The wheel is filled well ahead of the hand, a chunk of the due index at a time, so that
// no scan delays a turn.
const (
	hydrateAhead = 2 * time.Minute
	scanChunk    = 8192
)

// hydrateBudget is how long a poll reads what is overdue, beyond the first chunk. What is on time lies behind it.
const hydrateBudget = 50 * time.Millisecond

// timerBytes is about what a timer takes in memory, in the wheel or in ready, with a key of 30 bytes.
const timerBytes = 80

// pacedShare is how many timers the wheel may hold for each one that may wait for the pacer. The
// rest of those stay in the store until half of them have fired.
const pacedShare = 4

// entriesOf is how many timers may be read ahead, so that with the reserve, and with those that wait for the
// pacer, all take so many bytes.
func entriesOf(bytes int64) int {
	return max(1, int(bytes/timerBytes)*pacedShare*reserveShare/(pacedShare*reserveShare+pacedShare+reserveShare))
}

// herdAhead is how long before its due time a herd is sorted.
const herdAhead = time.Second

// everything sorts after every ref.
const everything = "\xff"

// held is how many timers are in memory, without those that wait for the pacer.
func (ts *timers) held() int { return ts.wheel.Len() + ts.ready.Unpaced() }

// hydrate copies the near part of the due index into the wheel, a chunk at most. While there is
// no room, it reads what has fallen due, and nothing ahead.
func (ts *timers) hydrate(now trigger.Instant) (filled bool, err error) {
	if err := ts.hydrateLeft(now); err != nil {
		return false, err
	}
	if now < ts.hydratesAt() {
		return false, nil
	}
	ts.wheel.Advance(min(int64(now), ts.handBefore()), func(int64, string) bool { return false })
	end := trigger.Instant(ts.wheel.End() - 1)
	n := 0
	err = ts.store.ScanDue(ts.hydrated, func(due trigger.Instant, ref string) bool {
		d := statestore.DueKey{Due: due, Ref: ref}
		full := ts.held() >= ts.wheelEntries
		switch {
		case due > end:
			return false
		case n == scanChunk || full && due > now:
			end = due - 1
			return false
		case full && !ts.hasRoom(d, now):
			ts.skip(d)
		case full:
			ts.ready.Came(d)
			ts.takeIn(d, now)
		default:
			ts.add(due, ref)
		}
		ts.hydrated = d
		n++
		return true
	})
	if err != nil {
		return false, err
	}
	if ts.hydrated.Due < end {
		ts.hydrated = statestore.DueKey{Due: end, Ref: everything}
	}
	return true, nil
}

// hydratesAt is when hydrate has something to read. While there is no room, that is when the next
// timer may fall due.
func (ts *timers) hydratesAt() trigger.Instant {
	switch {
	case ts.held() >= ts.wheelEntries:
		return ts.hydrated.Due + 1
	case ts.skipped != nil: // those go first, so no more is read ahead than a herd needs to be sorted
		return ts.hydrated.Due - trigger.Instant(herdAhead.Milliseconds())
	}
	return ts.hydrated.Due - trigger.Instant(hydrateAhead.Milliseconds())
}

// handBefore is the newest time that the hand can move to without passing a timer that has
// not fired.
func (ts *timers) handBefore() int64 {
	if due, ok := ts.wheel.Next(); ok {
		return due - 1
	}
	return math.MaxInt64
}

// advance moves the hand to a time, and makes the timers that it passes ready.
func (ts *timers) advance(to, now trigger.Instant) {
	ts.high.passed(to)
	ts.wheel.Advance(int64(to), func(at int64, ref string) bool {
		ts.ready.Push(statestore.DueKey{Due: trigger.Instant(at), Ref: ref}, now)
		return ts.ready.Unpaced() < ts.mostHeld()
	})
}

// add puts a timer into the wheel. It returns false if it lies beyond the wheel's range.
func (ts *timers) add(due trigger.Instant, ref string) bool {
	ok := ts.wheel.Add(int64(due), ref)
	if ok && statestore.IsHigh(ref) {
		ts.high.add(due)
	}
	return ok
}

// highDue is when the next timer of priority high falls due, or fell due if it waits. It may
// be one that was cancelled since.
func (ts *timers) highDue() trigger.Instant {
	if ts.ready.High() > 0 {
		return 0
	}
	return ts.high.first()
}

// due reports whether a timer is due, even if it must wait for receipts.
func (ts *timers) due(now trigger.Instant) bool {
	return ts.ready.Held() > 0 || ts.anyReady(now)
}

// anyReady reports whether a timer may fire as soon as commands are read.
func (ts *timers) anyReady(now trigger.Instant) bool {
	at, ok := ts.wake(now)
	return ok && at <= now
}

// expectDue says whether the records that were read may make timers due at once: they may if
// those of the last turn did. Then the barrier is asked before they are decided. So they fire in
// the turn that decides them, and their state is written once.
func (ts *timers) expectDue(now trigger.Instant, records int) {
	if ts.expect = 0; ts.atOnce && records > 0 {
		ts.expect = now
	}
}

// attention is when the timers next need a turn: one is due, the due index must be scanned,
// or a herd must be sorted.
func (ts *timers) attention(now trigger.Instant) trigger.Instant {
	next := ts.hydratesAt()
	if ts.roomForSkipped() > 0 {
		next = min(next, ts.skipped.from.Due)
	}
	if at, ok := ts.wake(now); ok {
		next = min(next, at)
	}
	if herd, ok := ts.wheel.NextHerd(); ok {
		next = min(next, trigger.Instant(herd-herdAhead.Milliseconds()))
	}
	return next
}

// arm puts a timer into the wheel if its part of the due index is there already. Else
// hydrate brings it when its time comes near. A paced timer skips the wheel. A due one that
// finds no room is left in the store.
func (ts *timers) arm(key trigger.Key, tm trigger.Timer, paced bool, now trigger.Instant) {
	d := statestore.DueKey{Due: tm.Due, Ref: statestore.Ref(tm, key)}
	if !paced && ts.free() <= 0 && !fair.Before(&ts.hydrated, &d) {
		ts.unread(d.Due, now)
	}
	switch {
	case fair.Before(&ts.hydrated, &d):
	case paced:
		ts.pace(d)
	case d.Due > now || ts.held() < ts.wheelEntries || ts.hasRoom(d, now):
		ts.put(d)
	default:
		ts.skip(d)
	}
}

// newWheel makes an empty wheel whose hand is at now.
func (ts *timers) newWheel(now trigger.Instant) {
	ts.wheel, ts.high = wheel.New(wheel.Options{MaxEntries: ts.wheelEntries}, int64(now)), dueTimes{}
}

// unread makes room: what the wheel holds is in the store as well, and is read from there once more, the nearest
// first. So a timer that is armed for the near future, at due, does not wait for those that fall due after it.
func (ts *timers) unread(due, now trigger.Instant) {
	first, some := ts.wheel.Next()
	next := trigger.Instant(first)
	if due > now && (!some || due < next) {
		next, some = due, true
	}
	if ts.wheel.Len() > 0 {
		ts.newWheel(now)
	}
	if some {
		ts.hydrated = statestore.DueKey{Due: min(ts.hydrated.Due, next-1), Ref: everything}
	}
}

// put adds a timer whose part of the due index was passed. If it lies beyond the wheel's range,
// it is read later.
func (ts *timers) put(d statestore.DueKey) {
	if !ts.add(d.Due, d.Ref) {
		ts.hydrated = statestore.DueKey{Due: min(ts.hydrated.Due, d.Due-1)}
	}
}

// earliest is the due time of the next timer to fire, in the wheel, left in the store, or
// first of those in ready that the caller means, if there are some.
func (ts *timers) earliest(first trigger.Instant, some bool) (trigger.Instant, bool) {
	due, ok := ts.wheel.Next()
	next := trigger.Instant(due)
	if some && (!ok || first < next) {
		next, ok = first, true
	}
	for _, s := range []*stretch{ts.left, ts.skipped} {
		if s != nil && (!ok || s.from.Due < next) {
			next, ok = s.from.Due, true
		}
	}
	return next, ok
}

// wake is when the next timer may fire. It is earliest, except for timers at the pacer's
// rate.
func (ts *timers) wake(now trigger.Instant) (trigger.Instant, bool) {
	due, ok := ts.wheel.Next()
	next := trigger.Instant(due)
	if at, some := ts.ready.Wake(now); some && (!ok || at < next) {
		return at, true
	}
	return next, ok
}

// next is a time at or before the next timer. Everything due earlier has fired.
func (ts *timers) next() trigger.Instant { return ts.before(ts.ready.First()) }

// unfired is next without the timers that wait for receipts, of which none fires for the first
// time.
func (ts *timers) unfired() trigger.Instant { return ts.before(ts.ready.Queued()) }

// before is a time at or before earliest, and before all that the wheel does not have yet.
func (ts *timers) before(first trigger.Instant, some bool) trigger.Instant {
	if due, ok := ts.earliest(first, some); ok {
		return min(ts.hydrated.Due, due)
	}
	return ts.hydrated.Due
}

// cursor is the earliest due time that may still be in the due index.
func (ts *timers) cursor() trigger.Instant {
	cursor := ts.hydrated.Due
	if due, ok := ts.earliest(ts.ready.First()); ok {
		cursor = min(cursor, due)
	}
	return cursor
}
