// Package watermark decides what a partition may say about how far it has fired.
//
// # The claim
//
// A record on topic watermarks claims: every first emission whose time is at or before
// fired_through stands below these offsets. The time of an emission is its effective_at, or its
// due time if it has none. Two things make that true for ever.
//
//   - The offsets of a turn are known only after its flush. So a turn that emits writes the
//     record about the turn before it. A turn that emits nothing may speak for itself, because
//     the offsets are still those of the turn before.
//   - What is emitted after a claim counts as due after it (Ledger.Effective), however long ago
//     it was due: a register with a time in the past, a trigger that was paused, one that a sick
//     due topic put off.
//
// # Source of truth
//
// The last committed record of the partition on the topic is: it was written by the transaction
// of its turn. A successor reads it after it has fenced its predecessor, and begins there, also
// if its clock is behind. Compaction leaves the last record. If it is gone all the same, or hidden
// by a transaction that somebody left open, or unreadable, the successor takes the time of the
// last turn, which progress has: no record says more (Last.Published). That is certain, too; but
// what is overdue then counts as due after it.
//
// The offsets the successor asks Kafka for, once: the ends of all topics are above all that was
// emitted.
//
// # Promises
//
//   - fired_through never goes back, over owners and restarts.
//   - At most one record in Interval; without anything new, one in Idle.
//   - No goroutine, no lock, no clock. A turn that fails leaves nothing behind: its owner opens
//     the partition anew, or begins the next turn.
package watermark

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Options are what stays the same as long as one owner runs the partition.
type Options struct {
	Partition int32
	Term      int64
	Interval  time.Duration // least time between two records
	Idle      time.Duration // time between two records if nothing is new
}

// Offsets are the next offsets of what a partition's turns write to.
type Offsets struct {
	Events int64
	Due    map[string]map[int32]int64 // by due topic and its partition
	// Unknown are due topics whose ends nobody could tell. They count as held until they are known:
	// that a turn writes to one of their partitions says nothing of the others.
	Unknown []string
}

// Ledger is what one owner knows of the watermark of its partition.
type Ledger struct {
	opts Options

	ends    Offsets         // of committed turns
	known   bool            // Know was called
	unknown map[string]bool // due topics whose ends are not known

	published trigger.Instant // the latest fired_through that is committed; 0: none
	last      claim           // of the last committed turn
	tried     trigger.Instant // when a turn last wrote a record, or had nothing to say; 0: never
	news      bool            // the next record says more than the time

	turn turn
}

// claim is what may be said after a turn.
type claim struct {
	through  trigger.Instant // everything due up to here is emitted, or counts as due later
	commands int64
	held     []string
}

// turn is the turn under way.
type turn struct {
	now     trigger.Instant
	writes  bool
	floor   trigger.Instant // the latest fired_through that is published with this turn, or before
	own     claim
	emits   bool
	written bool
}

// Last is what an opening has read of the last record of its partition.
type Last struct {
	Record    *topics.Watermark // nil: none was found
	Withdrawn bool              // the last record is a null
	NoTopic   bool              // the topic does not exist
	Unknown   bool              // there may be a record, and nobody can say which
}

// Published is the fired_through behind which a new owner goes on; 0 if it need not care. at is
// the time of the last turn that was committed. A record that says more is none of ours.
func (l Last) Published(at trigger.Instant) trigger.Instant {
	switch {
	case l.Withdrawn || l.NoTopic:
		return 0
	case l.Record != nil:
		return min(l.Record.FiredThrough, at)
	}
	return at // it may be that no record was ever written; readers of one that is lost do not forget it
}

// InForce reports whether readers may see a record that says something.
func (l Last) InForce() bool { return l.Record != nil || l.Unknown }

// Found is what a ledger must know before it says anything.
type Found struct {
	Ends   Offsets
	PutOff map[string]int64 // by channel, occurrences that their due topics had put off when the search began
}

// Resume begins for a new owner. published is Last.Published.
func Resume(o Options, published trigger.Instant) *Ledger {
	return &Ledger{opts: o, published: published, last: claim{through: published}, news: true}
}

// Know takes the ends of the topics, which were asked for after the last owner was fenced, and the
// due topics that have put something off, as of the last committed turn. It is called again while ends
// are unknown.
func (l *Ledger) Know(ends Offsets, held []string) {
	l.known, l.news = true, true
	l.last.held = append(held, l.last.held...)
	slices.Sort(l.last.held)
	l.last.held = slices.Compact(l.last.held)
	l.unknown = map[string]bool{}
	for _, topic := range ends.Unknown {
		l.unknown[topic] = true
	}
	l.add(ends)
}

// add raises the offsets.
func (l *Ledger) add(more Offsets) {
	l.ends.Events = max(l.ends.Events, more.Events)
	if l.ends.Due == nil {
		l.ends.Due = map[string]map[int32]int64{}
	}
	for topic, ends := range more.Due {
		if l.ends.Due[topic] == nil {
			l.ends.Due[topic] = map[int32]int64{}
		}
		for partition, end := range ends {
			l.ends.Due[topic][partition] = max(l.ends.Due[topic][partition], end)
		}
	}
}

// Never is a Wake without end.
const Never trigger.Instant = math.MaxInt64

// Wake is when the next record is due. A clock that was set back does not delay it.
func (l *Ledger) Wake(now trigger.Instant) trigger.Instant {
	switch {
	case !l.known:
		return Never
	case l.tried == 0:
		return now
	}
	l.tried = min(l.tried, now)
	if l.news {
		return l.tried.Add(l.opts.Interval)
	}
	return l.tried.Add(l.opts.Idle)
}

// Begin starts a turn. may is false if the topic refuses records. If waits is true, a record that is
// due waits for a later turn.
func (l *Ledger) Begin(now trigger.Instant, may, waits bool) {
	l.turn = turn{now: now, floor: l.published, writes: l.Wake(now) <= now}
	switch {
	case waits:
		l.turn.writes = false
	case l.turn.writes && !may:
		l.turn.writes, l.tried = false, now // the next try is an interval later
	case l.turn.writes:
		l.turn.floor = max(l.published, l.last.through)
	}
}

// Effective is effective_at of an emission of this turn that was due at due; 0 if that is due
// itself. What is due after the turn's clock counts as due now, because its event has a lateness of
// 0: a run_now, if the clock of the broker that appended it is ahead of ours.
func (l *Ledger) Effective(due trigger.Instant) trigger.Instant {
	due = min(due, l.turn.now)
	if l.turn.floor == 0 || due > l.turn.floor {
		return 0
	}
	return l.turn.floor + 1
}

// Work is what a turn has done, but for its commit.
type Work struct {
	Hand     trigger.Instant // what was due up to here was taken up; 0: nothing was
	Next     trigger.Instant // everything due before is emitted
	Commands int64           // commands below are decided
	Held     []string        // what may keep something due back
	Emits    bool            // it writes to events or to due topics
}

// End ends the decisions of a turn. It returns the record to write, nil if none is due. The record
// shares its maps with the ledger: encode it at once.
func (l *Ledger) End(w Work) *topics.Watermark {
	t := &l.turn
	t.emits = w.Emits
	t.own = claim{through: l.last.through, commands: w.Commands, held: l.held(w.Held)}
	if w.Hand != 0 {
		t.own.through = max(t.own.through, min(w.Hand, w.Next-1))
	}
	if !t.writes {
		return nil
	}
	says := t.own
	if t.emits {
		says = l.last
	}
	t.floor = max(t.floor, says.through)
	if t.floor == 0 {
		return nil // nothing can be said yet
	}
	t.written = true
	return &topics.Watermark{
		Partition: l.opts.Partition, Term: l.opts.Term, At: t.now, FiredThrough: t.floor,
		CommandsOffset: says.commands, EventsOffset: l.ends.Events, Due: l.ends.Due, Held: says.held,
	}
}

// held adds the topics whose ends are not known.
func (l *Ledger) held(names []string) []string {
	all := append(slices.Collect(maps.Keys(l.unknown)), names...)
	slices.Sort(all)
	return slices.Compact(all)
}

// Committed ends a turn that Kafka has committed. wrote has the offsets behind what it wrote.
func (l *Ledger) Committed(wrote Offsets) {
	t := &l.turn
	l.add(wrote)
	l.news = t.emits || !t.written && (l.news || !slices.Equal(t.own.held, l.last.held))
	if t.written {
		l.published = t.floor
	}
	if t.writes {
		l.tried = t.now
	}
	l.last = t.own
}
