package trigger

import (
	"cmp"
	"slices"
)

// snooze moves a pending one-shot, or adds an occurrence to a series or to a trigger that has
// fired (docs/formats/commands.md).
func (d *decision) snooze(c *Command) *Error {
	s := d.s
	if s == nil || s.reborn() {
		return &Error{Code: CodeNotFound, Msg: "there is no trigger with this key"}
	}
	at, err := d.snoozeUntil(c)
	if err != nil {
		return err
	}
	switch {
	case s.Status.Finished() && s.Spec.UserID == "":
		return &Error{
			Code: CodeAlreadyFired,
			Msg:  "the trigger has fired, and its content is kept only if it has a user_id",
		}
	case !s.Recurring() && s.Series.At != 0:
		d.moveOneShot(c, at)
	default:
		d.snoozeExtra(c, at)
	}
	return nil
}

// snoozeUntil is when a snoozed occurrence fires: at until, or else for after the command's
// append. for may be 0.
func (d *decision) snoozeUntil(c *Command) (Instant, *Error) {
	switch {
	case c.UntilLocal != "":
		return d.snoozeUntilLocal(c)
	case c.Until != 0:
		return c.Until, nil
	}
	return c.From.Append.Add(c.For), nil
}

func (d *decision) snoozeUntilLocal(c *Command) (Instant, *Error) {
	p, err := d.m.Timetable.local(c.UntilLocal, cmp.Or(d.s.Spec.When.Zone, "UTC"), DST{})
	if err == nil {
		err = within(p.At, c.From.Append)
	}
	if err != nil {
		err.Field = "until"
		return 0, err
	}
	return p.At, nil
}

// moveOneShot moves a one-shot to another instant. It sets MissedUntil to that instant,
// because a snooze never misfires.
func (d *decision) moveOneShot(c *Command, at Instant) {
	s := d.s
	moved := d.m.instant(&s.Spec, s.Life, s.Key, at)
	if s.mayHaveFired(&moved) {
		moved.Occurrence, moved.Jitter = offPlan(snoozePrefix, c, s.Life), 0
	}
	moved.After, moved.MissedUntil = s.Series.After, at
	before := s.Series.At
	s.Series = moved
	s.Revision++
	s.UpdatedAt = d.now
	d.addFact(Fact{Type: Snoozed, Scheduled: at, Occurrence: moved.Occurrence, PreviousScheduled: before})
}

// snoozeExtra adds an occurrence. What is in flight counts as acknowledged, and an earlier
// snooze of a one-shot is replaced.
func (d *decision) snoozeExtra(c *Command, at Instant) {
	s := d.s
	acked := d.dropInFlight("")
	var before Instant
	if !s.Recurring() {
		before = d.dropSnoozes()
	}
	if s.Status.Finished() {
		s.Status, s.ForgetAt = Pending, 0
	}
	occurrence := offPlan(snoozePrefix, c, s.Life)
	d.addLive(Live{
		Kind:       LiveSnoozed,
		Occurrence: occurrence,
		Nominal:    at,
		Due:        at,
		Attempt:    1,
	})
	s.Revision++
	d.deriveStatus()
	d.addFact(Fact{Type: Snoozed, Scheduled: at, Occurrence: occurrence, PreviousScheduled: before})
	d.addAckedFacts(acked)
}

// dropSnoozes drops all snoozed occurrences and returns when the last was due.
func (d *decision) dropSnoozes() (due Instant) {
	d.s.Live = slices.DeleteFunc(slices.Clone(d.s.Live), func(l Live) bool {
		if l.Kind != LiveSnoozed {
			return false
		}
		due = l.Nominal
		return true
	})
	return due
}
