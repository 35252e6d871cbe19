package pipeline

import (
	"github.com/waterclock/waterclock/pipeline/fair"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// stretch is a part of the due index that was passed, and in which timers were left because
// they found no room in memory. Others of it may be in memory, or have fired. One that is read
// twice is stale the second time.
type stretch struct {
	from statestore.DueKey // those after it
	to   statestore.DueKey // up to and with this one
}

// widen makes a stretch take in a timer, too. s may be nil.
func (s *stretch) widen(d statestore.DueKey) *stretch {
	switch {
	case s == nil:
		return &stretch{from: statestore.DueKey{Due: d.Due}, to: d}
	case !fair.Before(&s.from, &d):
		s.from = statestore.DueKey{Due: d.Due}
	case fair.Before(&s.to, &d):
		s.to = d
	}
	return s
}

// read reads the next timers of a stretch, a chunk at most, until most were taken. It returns
// what is still unread; nil: nothing is.
func (ts *timers) read(s *stretch, most int, take func(d statestore.DueKey) (taken bool)) (*stretch, error) {
	var rest *stretch
	n := scanChunk
	err := ts.store.ScanDue(s.from, func(due trigger.Instant, ref string) bool {
		d := statestore.DueKey{Due: due, Ref: ref}
		switch {
		case fair.Before(&s.to, &d) || fair.Before(&ts.hydrated, &d):
			return false
		case n == 0 || most == 0:
			rest = s
			return false
		case take(d):
			most--
		}
		s.from = d
		n--
		return true
	})
	return rest, err
}

// Room in memory. Timers are read ahead until wheelEntries of them are held. On top of that is a
// reserve for those that fall due while it is full. A timer finds room there if few others of its
// tenant and priority wait that are on time, or overdue, as it is: the fewer, the less room is left. So
// one tenant's backlog, however long it is, delays neither what falls due of another tenant nor, by
// more than these few, what falls due of its own. What was skipped may take half of the reserve.

const (
	reserveShare = 4 // the reserve is one in this many of wheelEntries
	waitingShare = 8 // fewer than one in this many of the free places wait, if a timer of their tenant finds room
)

// mostHeld is the most timers that are held.
func (ts *timers) mostHeld() int { return ts.wheelEntries + ts.reserve() }

// reserve is how many more are held than are read ahead.
func (ts *timers) reserve() int { return max(2, ts.wheelEntries/reserveShare) }

// free is how many more timers are held at most.
func (ts *timers) free() int { return ts.mostHeld() - ts.held() }

// roomForSkipped is how many of the timers that were skipped may be read; 0 if none were. Half of the reserve
// stays free, however often the timers are asked before something fires: a timer that is skipped for want of room
// comes behind all that were skipped before it.
func (ts *timers) roomForSkipped() int {
	if ts.skipped == nil {
		return 0
	}
	return max(0, ts.free()-ts.reserve()/2)
}

// hasRoom reports whether a timer that falls due while memory is full finds room.
func (ts *timers) hasRoom(d statestore.DueKey, now trigger.Instant) bool {
	free := ts.free()
	return free > 0 && ts.ready.Waiting(d, now) < max(1, free/waitingShare)
}

// skip leaves a timer in the store, behind those that are held.
func (ts *timers) skip(d statestore.DueKey) {
	ts.ready.Came(d)
	ts.skipped = ts.skipped.widen(d)
}

// hydrateLeft reads timers that were left in the store, if there is room now. Those that found no
// room with the pacer are timers of a series. One that an unhealthy topic put off has a new due time.
func (ts *timers) hydrateLeft(now trigger.Instant) (err error) {
	room := ts.pacedEntries - ts.ready.Paced()
	free := ts.free()
	if ts.left != nil && 2*room >= ts.pacedEntries && free > 0 {
		ts.left, err = ts.read(ts.left, min(max(1, room), free), func(d statestore.DueKey) bool {
			_, _, kind, _, ok := statestore.ParseRef(d.Ref)
			if ok = ok && kind == trigger.TimerSeries; ok {
				ts.takeIn(d, now)
			}
			return ok
		})
	}
	if ts.skipped != nil && ts.roomForSkipped() == 0 && ts.ready.Unpaced() == 0 {
		// Nothing that fires will make room. What is due goes before what is read ahead.
		if next, ok := ts.wheel.Next(); ok && trigger.Instant(next) > now {
			ts.unread(0, now)
		}
	}
	if room = ts.roomForSkipped(); err == nil && room > 0 {
		ts.skipped, err = ts.read(ts.skipped, room, func(d statestore.DueKey) bool {
			ts.takeIn(d, now)
			return true
		})
	}
	return err
}

// takeIn puts a timer into memory. A due one skips the wheel: there it would come before those that
// fell due later, and the barrier, which asks for the first, would not ask for them.
func (ts *timers) takeIn(d statestore.DueKey, now trigger.Instant) {
	if d.Due <= now {
		ts.ready.PushRead(d, now)
	} else {
		ts.put(d)
	}
}

// pace lets a timer fire at the pacer's rate. If it finds no room, it and all that are due
// later stay in the store until there is room.
func (ts *timers) pace(d statestore.DueKey) {
	isLeft := ts.left != nil && fair.Before(&ts.left.from, &d)
	if isLeft || ts.ready.Paced() >= ts.pacedEntries {
		ts.left = ts.left.widen(d)
		return
	}
	ts.ready.Pace(d)
}
