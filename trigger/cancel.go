package trigger

import "slices"

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

// planned is what will go out next of the plan, or else the first that was
// snoozed, and the others that were.
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

// addDroppedFacts tells of snoozes that will not come.
func (d *decision) addDroppedFacts(dropped []Live, reason string) {
	for i := range dropped {
		d.addFact(Fact{Type: Skipped, Reason: reason, Scheduled: dropped[i].Nominal, Occurrence: dropped[i].Occurrence})
	}
}

// openOccurrence is the occurrence of a one-shot that went out last and is still open.
func (s *State) openOccurrence() (occurrence string) {
	for i := range s.Live {
		if l := &s.Live[i]; l.open() {
			occurrence = l.Occurrence
		}
	}
	return occurrence
}

// endWithCancel ends a life by a cancel. It stores the cancel's partition and offset over those
// of the life's start, which nobody needs any more. Later commands from that partition
// are then ordered by offset, not by clock.
func (d *decision) endWithCancel(c *Command) {
	d.end(Cancelled)
	d.s.Life.Partition, d.s.Life.Offset = c.From.Partition, c.From.Offset
}

// keepCancel keeps the cancel of a key we do not know for the horizon, so
// that a register on its way from another partition stays cancelled.
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

// endedAfter reports whether a cancel or an erase was applied that was appended after c.
// A command at a later offset of c's log may still have an earlier append time than it.
func (s *State) endedAfter(c *Command) bool {
	return s != nil && s.cancelled() && s.LastAppend > c.From.Append
}

// tooLate tells where an occurrence went, or else the last one.
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
