package trigger

// rezone keeps the wall times and moves them to another zone. The next occurrence is the
// first wall time that is not yet decided. So nothing fires twice and nothing is lost,
// whichever zone is ahead.
func (d *decision) rezone(c *Command) *Error {
	s := d.s
	w := &s.Spec.When
	switch {
	case w.Zone == "" || (w.Kind != WhenLocal && w.Kind != WhenRecurrence):
		return invalid("timezone", "only a trigger with a local time can move to another zone")
	case s.Status == InFlight:
		return &Error{Code: CodeAlreadyFired, Msg: "the occurrence is in flight"}
	case c.Zone == w.Zone:
		return d.duplicate("same zone")
	}
	if err := d.zoneExists(c.Zone); err != nil {
		return err
	}
	spec := s.Spec
	spec.When.Zone = c.Zone
	series, err := d.inZone(&spec, c.From.Append)
	if err != nil {
		return err
	}
	d.replacePlan(spec, series, "rezone")
	return nil
}

// zoneExists refuses a zone that the tz release in force lacks.
func (d *decision) zoneExists(name string) *Error {
	if name == "" {
		return nil
	}
	if _, err := d.m.Timetable.Zones.Lookup(name); err != nil {
		return fromCalendar(err)
	}
	return nil
}

// inZone is the plan in spec's zone. A plan that was snoozed to an instant, or that has
// ended, stays as it is.
func (d *decision) inZone(spec *Spec, from Instant) (Series, *Error) {
	s := d.s
	switch {
	case s.Series.At == 0, s.Series.Local == "" && !s.Recurring():
		return s.Series, nil
	case !s.Recurring():
		return d.m.plan(spec, s.Life, s.Key, from, d.past(&spec.When, from))
	}
	before := d.past(&spec.When, from)
	before.spread = true
	switch {
	case !before.local:
		before.start = s.Series.Start
	case spec.When.Start != "":
		spec.When.Start = before.start
	}
	before.goesOn, before.beyond = true, from-1 // the move makes nothing due that is already past in the new zone
	if at, ok := d.m.Timetable.reach(s.wallOfPlan(), spec.When.Zone); ok {
		before.beyond = max(before.beyond, at-1)
	}
	return d.m.planRule(spec, s.Life, s.Key, from, before)
}
