package pipeline

import "time"

// pace spaces the turns of one partition.
type pace struct {
	fixed  time.Duration // > 0: the least interval between turns, set by the operator; < 0: no pacing
	budget *transactions // of the process
	slot   time.Time     // reserved for the next turn; zero: none is
	start  time.Time     // of the last turn
}

// wait is how long the next turn must still wait. Records are read in the meantime, so the
// turn is fuller. high is how long it is until a timer of priority high falls due: for a slot
// no turn waits longer. One that does not wait begins without a slot, and the budget counts
// it. An interval that the operator has set holds for all.
func (p *pace) wait(now time.Time, high time.Duration) time.Duration {
	switch {
	case p.fixed < 0:
		return 0
	case p.fixed > 0:
		return p.fixed - now.Sub(p.start)
	case high <= 0:
		return 0
	case p.slot.IsZero():
		p.slot = p.budget.reserve(now)
	}
	return min(p.slot.Sub(now), high)
}

// begun notes that a turn begins.
func (p *pace) begun() {
	p.start = time.Now()
	if p.fixed == 0 && p.slot.IsZero() {
		p.budget.reserve(p.start)
	}
	p.slot = time.Time{}
}

// fireBatch is how many timers a turn may fire. Other commands and timers wait until the turn
// ends, so it follows from what one timer costs this process: to decide it and to encode its
// records. That the turn waits for the broker or the disk does not make timers dearer. When it did,
// a slow moment made turns small, and small turns were too few for the load: the partition
// stayed behind for good.
//
// While every turn waits long, it fires more: a share of the time that it takes anyway. Else a
// broker that is far away would carry so few turns that their timers, too, are fewer than fall due.
//
// A turn that reads much fires twice as many. Else registers, which are read first, could outrun
// what fires for good: an engine with more to do than it can would take new triggers and let those
// that it has fall behind.
//
// While timers of priority high fall due, turns are shorter: each of them waits for the rest
// of one turn and for its own. A turn that reads much is long anyway.
type fireBatch struct {
	last   [16]figures // of the last turns that fired enough to say
	next   int         // where in last the next goes
	urgent time.Time   // when a turn last fired a timer of priority high
}

// figures are what a turn says about turns.
type figures struct {
	cost time.Duration // of one timer; 0: of no turn yet
	wait time.Duration // what else than firing took time
}

const (
	turnBudget   = 5 * time.Millisecond // work of firing in one turn
	mostBudget   = emitTime / 2         // the same, of a turn that waits long
	waitShare    = 4                    // work may be one in this many of what a turn waits
	urgentShare  = 8                    // the same, while timers of priority high fall due
	urgentBudget = turnBudget / urgentShare
	urgentFor    = time.Second // so long after the last timer of priority high
	leastBatch   = 256         // of a turn while the cost is not known, or high
	leastUrgent  = leastBatch / urgentShare
	leastToSay   = leastUrgent // timers whose cost says something: no turn that has enough to do fires fewer
	firedOfRead  = 2           // timers that a turn may fire for each record that it has read
)

// size is how many timers a turn may fire that has read some records.
func (b *fireBatch) size(most, read int) int {
	known := b.least()
	budget, n := max(turnBudget, min(known.wait/waitShare, mostBudget)), max(leastBatch, firedOfRead*read)
	if b.isUrgent() {
		budget, n = max(urgentBudget, min(known.wait/urgentShare, mostBudget)), max(leastUrgent, firedOfRead*read)
	}
	if known.cost > 0 {
		n = max(n, int(budget/known.cost))
	}
	return min(n, most)
}

// isUrgent reports whether timers of priority high have fallen due within the last second.
func (b *fireBatch) isUrgent() bool { return time.Since(b.urgent) < urgentFor }

// least is the least of the last turns, each figure for itself. A turn that had to wait for a core
// says nothing about the work, and a slow moment nothing about the next.
func (b *fireBatch) least() (least figures) {
	for _, f := range b.last {
		switch {
		case f.cost == 0:
		case least.cost == 0:
			least = f
		default:
			least = figures{min(least.cost, f.cost), min(least.wait, f.wait)}
		}
	}
	return least
}

// turned notes what a turn has fired that took so long.
func (b *fireBatch) turned(f firing, took time.Duration) {
	if f.high > 0 {
		b.urgent = time.Now()
	}
	if f.timers >= leastToSay {
		b.last[b.next] = figures{max(1, f.work/time.Duration(f.timers)), took - f.work}
		b.next = (b.next + 1) % len(b.last)
	}
}

// firing is what a turn has fired, and the work of it.
type firing struct {
	timers int
	high   int // those of priority high that were on time
	work   time.Duration
}

// wrote adds the timers' part of writing the states that the turn has changed.
func (f *firing) wrote(took time.Duration, states int) {
	if states > 0 {
		f.work += took * time.Duration(min(f.timers, states)) / time.Duration(states)
	}
}
