package trigger

import (
	"slices"
	"strings"
)

// cancel ends a trigger, or says that it came too late and where it fired.
func (d *decision) cancel(c *Command) *Error {
	s := d.s
	if s == nil || s.Status == Unknown || s.Status == Erased {
		d.keepCancel(c)
		return nil
	}
	switch s.Status {
	case Cancelled:
		return d.duplicate("already cancelled")
	case Fired, Failed, Expired:
		d.tooLate(s.Status, "")
		d.out.Changed = true
	case InFlight:
		occurrence, stopped := s.openOccurrence(), d.escalating()
		d.endWithCancel(c)
		s.Revision++
		d.tooLate(InFlight, occurrence)
		d.addStoppedFacts(stopped)
	default:
		next, others := s.planned()
		stopped := d.escalating()
		d.endWithCancel(c)
		if s.CancelledInFlight() {
			s.Series.Occurrence = next.Occurrence // what fired was another one: a repeat of this cancel is not too late
		}
		s.Revision++
		d.addFact(Fact{
			Type: CancelledFact, Scheduled: next.Nominal, Local: next.Local, Occurrence: next.Occurrence,
			Tags: s.Spec.Tags,
		})
		d.addDroppedFacts(others, "cancelled")
		d.addStoppedFacts(stopped)
	}
	return nil
}

// CancelledInFlight reports whether a one-shot was cancelled after it had gone out: too late. If an earlier occurrence
// had fired, and the cancel came before the next one, Series has that one's id.
func (s *State) CancelledInFlight() bool {
	return s.Status == Cancelled && !s.Recurring() && s.Series.Occurrence == "" &&
		slices.ContainsFunc(s.Done, func(f Firing) bool { return !strings.HasPrefix(f.Occurrence, runPrefix) })
}

// planned is the next occurrence of the plan, or, without one, the first snoozed occurrence.
// others are the other snoozed ones.
func (s *State) planned() (next Live, others []Live) {
	if s.Series.At != 0 {
		next = Live{Occurrence: s.Series.Occurrence, Nominal: s.Series.At, Local: s.Series.Local}
	}
	for _, l := range s.Live {
		switch {
		case l.Kind != LiveSnoozed:
		case next.Nominal == 0:
			next = l
		default:
			others = append(others, l)
		}
	}
	return next, others
}

// addDroppedFacts adds a fact for each snoozed occurrence that will not fire.
func (d *decision) addDroppedFacts(dropped []Live, reason string) {
	for i := range dropped {
		d.addFact(Fact{Type: Skipped, Reason: reason, Scheduled: dropped[i].Nominal, Occurrence: dropped[i].Occurrence})
	}
}

// openOccurrence is the last occurrence of a one-shot that was emitted and still waits for a
// receipt or a retry; "" if there is none.
func (s *State) openOccurrence() (occurrence string) {
	for i := range s.Live {
		if l := &s.Live[i]; l.open() {
			occurrence = l.Occurrence
		}
	}
	return occurrence
}

// endWithCancel ends a life by a cancel. It replaces the partition and offset of the life's
// start, which nobody needs any more, by the cancel's. Later commands from that partition are
// then ordered by offset, not by clock.
func (d *decision) endWithCancel(c *Command) {
	d.end(Cancelled)
	d.s.Life.Partition, d.s.Life.Offset = c.From.Partition, c.From.Offset
}

// keepCancel keeps the cancel of an unknown key for the horizon. A register that was appended
// before it, and is still being forwarded from another partition, stays cancelled.
func (d *decision) keepCancel(c *Command) {
	if d.s == nil {
		d.s = &State{Key: c.Key, Status: Unknown, CreatedAt: c.From.Append}
	}
	d.s.ForgetAt = d.now.Add(d.m.Horizon)
	d.s.UpdatedAt = c.From.Append
	if !d.s.endedAfter(c) {
		d.s.Life.Partition, d.s.Life.Offset = c.From.Partition, c.From.Offset
	}
	d.addFact(Fact{Type: CancelTooLate, Reason: "unknown"})
}

// endedAfter reports whether the last command was a cancel or an erase that was appended
// after c. It compares append times, because the two may come from different partitions.
func (s *State) endedAfter(c *Command) bool {
	return s != nil && s.cancelled() && s.LastAppend > c.From.Append
}

// tooLate adds the fact that a cancel came too late, with the due record of the occurrence,
// or of the last one that fired.
func (d *decision) tooLate(was Status, occurrence string) {
	f := Fact{Type: CancelTooLate, Reason: tooLateReasons[was]}
	if n := len(d.s.Done); n > 0 {
		last := &d.s.Done[n-1]
		if i := slices.IndexFunc(d.s.Done, func(f Firing) bool { return f.Occurrence == occurrence }); i >= 0 {
			last = &d.s.Done[i]
		}
		f.DueTopic, f.DuePart, f.HasDue = last.Topic, last.Partition, true
		f.Occurrence, f.Scheduled = last.Occurrence, last.Nominal
	}
	d.addFact(f)
}

var tooLateReasons = map[Status]string{
	Fired: "already_fired", InFlight: "in_flight", Failed: "failed",
	Expired: "expired",
}
