package trigger

import (
	"cmp"
	"slices"
)

func (d *decision) pause(c *Command) *Error {
	s := d.s
	switch {
	case s.Series.stranded() && s.Series.Retry != strandedPaused:
		s.Series.Retry = strandedPaused
	case s.Status == Paused:
		return d.duplicate("already paused")
	case !s.pausable():
		return &Error{Code: CodeAlreadyFired, Msg: "the occurrence is in flight"}
	}
	s.Status, s.Note = Paused, cmp.Or(c.Note, s.Note) // a stranded series has the reason as its note
	s.Revision++
	s.UpdatedAt = d.now
	d.addPlanFact(PausedFact)
	return nil
}

// pausable reports whether a pause would hold anything back: a series, or a one-shot's
// planned or snoozed occurrence. A run_now is never held back.
func (s *State) pausable() bool {
	return s.Recurring() || s.Series.At != 0 || slices.ContainsFunc(s.Live,
		func(l Live) bool { return l.Kind == LiveSnoozed })
}

// resume ends a pause. The misfire policy decides about the occurrences missed meanwhile when
// the timer goes off, as after an outage.
func (d *decision) resume(c *Command) *Error {
	s := d.s
	if s.Status != Paused {
		return d.duplicate("not paused")
	}
	if err := d.unstrand(); err != nil {
		return err
	}
	s.Revision++
	d.goOn("")
	return nil
}

// goOn ends a pause.
func (d *decision) goOn(reason string) {
	s := d.s
	s.Status, s.Note = Pending, ""
	s.UpdatedAt = d.now
	d.addPlanFact(Resumed).Reason = reason
	d.deriveStatus()
}
