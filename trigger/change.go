package trigger

// change applies the ops that need a trigger that has not ended.
func (d *decision) change(c *Command) *Error {
	s := d.s
	if s == nil || s.Status.Finished() {
		return &Error{Code: CodeNotFound, Msg: "there is no pending trigger with this key"}
	}
	switch c.Op {
	case OpReschedule:
		return d.reschedule(c)
	case OpPause:
		return d.pause(c)
	case OpResume:
		return d.resume(c)
	case OpRunNow:
		return d.runNow(c)
	case OpSkip:
		return d.skip(c)
	case OpRezone:
		return d.rezone(c)
	}
	return &Error{Code: CodeUnknownOp, Field: "op", Msg: "unknown op " + c.Op.String()}
}

// reschedule changes the time only. The content hash stays, so a producer's late retry of the
// register is still a duplicate and does not undo the reschedule.
func (d *decision) reschedule(c *Command) *Error {
	s := d.s
	if s.Status == InFlight {
		return &Error{Code: CodeAlreadyFired, Msg: "the occurrence is in flight"}
	}
	if err := d.zoneExists(c.Zone); err != nil {
		return err
	}
	spec := s.Spec
	spec.When = c.Spec.When
	series, err := d.m.plan(&spec, s.Life, s.Key, c.From.Append, d.past(&spec.When, c.From.Append))
	if err != nil {
		return err
	}
	if spec.When.Kind != WhenRecurrence && s.mayHaveFired(&series) {
		return &Error{Code: CodeAlreadyFired, Msg: "this occurrence has already fired: " + series.Occurrence}
	}
	if !s.Recurring() { // a one-shot's occurrence is moved, even if it was snoozed
		if due := d.dropSnoozes(); s.Series.At == 0 {
			s.Series.At = due // for the event: the instant planned so far
		}
	}
	d.replacePlan(spec, series, "")
	return nil
}

// replacePlan replaces the plan and adds the fact.
func (d *decision) replacePlan(spec Spec, series Series, reason string) {
	s := d.s
	before := s.Series
	s.Spec, s.Series = spec, series
	s.Revision++
	s.UpdatedAt = d.now
	f := d.addPlanFact(Rescheduled)
	f.Rule, f.PreviousScheduled, f.PreviousTZData, f.Reason = &s.Spec, before.At, before.TZData, reason
}
