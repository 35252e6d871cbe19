package trigger

import (
	"slices"
	"strings"
)

// Replan resolves the planned occurrence once more, after an update of the tz database or of
// a calendar that the trigger names. What has fired for its wall time stays fired. If the
// plan moves, a fact has the old instant and both releases. Rules of elapsed time (every:)
// and instants never move.
func (m *Machine) Replan(s *State, now Instant, reason string) Outcome {
	d := m.begin(s, now)
	if s.Series.stranded() && !s.Status.Finished() {
		return d.replanStranded(s, reason)
	}
	if s.Status.Finished() || s.Series.At == 0 || !s.movable() {
		return Outcome{State: s}
	}
	before := s.Series
	series, ok := d.replannedSeries()
	same := series.At == before.At && series.Occurrence == before.Occurrence
	if !ok || same && len(series.Skip) == len(before.Skip) {
		return Outcome{State: s}
	}
	if same { // its due topic may refuse it
		series.Retry, series.RetryAt = before.Retry, before.RetryAt
	}
	d.s.Series = series
	d.s.UpdatedAt = now
	d.out.Changed = true
	if same {
		return d.finish()
	}
	if series.At == 0 { // a calendar leaves out all that was left
		d.deriveStatus()
		return d.finish()
	}
	f := d.addPlanFact(Rescheduled)
	f.Rule, f.PreviousScheduled, f.PreviousTZData, f.Reason = &d.s.Spec, before.At, before.TZData, reason
	return d.finish()
}

// replanStranded plans a stranded series, if that can be done now, and ends its pause unless a
// user has paused it.
func (d *decision) replanStranded(old *State, reason string) Outcome {
	paused := old.Series.Retry == strandedPaused
	if d.unstrand() != nil {
		return Outcome{State: old}
	}
	if !paused {
		d.goOn(reason)
		return d.finish()
	}
	if d.s.Series.At != 0 {
		f := d.addPlanFact(Rescheduled)
		f.Rule, f.PreviousTZData, f.Reason = &d.s.Spec, old.Series.TZData, reason
	}
	d.deriveStatus()
	return d.finish()
}

// movable reports whether the plan depends on zone rules or calendars.
func (s *State) movable() bool {
	w := &s.Spec.When
	switch w.Kind {
	case WhenLocal:
		return s.Series.Local != "" // a snooze turns it into an instant
	case WhenRecurrence:
		return w.Zone != "" || w.Calendars != nil
	}
	return false
}

// replannedSeries is the plan by the rules now in force.
func (d *decision) replannedSeries() (Series, bool) {
	s := d.s
	if s.Spec.When.Kind == WhenLocal {
		o, err := d.m.Timetable.local(s.Spec.When.Local, s.Spec.When.Zone, s.Spec.When.DST)
		if err != nil {
			return Series{}, false
		}
		p := d.m.series(&s.Spec, s.Life, s.Key, o)
		p.After = s.Series.After
		return p, true
	}
	r, err := d.rule()
	if err != nil {
		return s.Series, false
	}
	from := d.decidedUntil()
	moved := d.decidedNames(r)
	o, ok, err := d.nextUndecided(r, from, moved)
	if err != nil {
		return s.Series, false
	}
	// The planned one counts also if it is past now, and was given back after the rule began: it has not fired, and
	// does so late.
	if planned, found := r.named(bare(s.Series.Occurrence)); found && (!ok || planned.At < o.At) &&
		(planned.ID == bare(s.Series.Occurrence) || !d.decided(planned, moved.late(planned))) {
		o, ok = planned, true
	}
	p := Series{TZData: d.m.Timetable.Zones.Release()}
	if ok {
		p = d.m.series(&s.Spec, s.Life, s.Key, o)
	}
	p.Start, p.After, p.MissedUntil = s.Series.Start, s.Series.After, s.Series.MissedUntil
	if p.Begun = s.Series.Begun; moved != nil {
		p.Decided, p.Begun = moved.decided, moved.begun
	}
	base := d.replansFrom(from)
	p.Skip = d.withFiredEarly(r, base, moved.until(base))
	switch {
	case p.After == 0:
	case moved != nil && ok && p.At <= base: // it is late, and of what has no name nothing else is
		p.After = base
	default:
		p.After = from
	}
	return p, true
}

// planStands reports whether the calendars in force give the plan that the trigger has.
func (d *decision) planStands() bool {
	r, err := d.rule()
	if err != nil {
		return true // what cannot be planned stays as it is
	}
	o, ok, err := d.nextUndecided(r, d.decidedUntil(), d.decidedNames(r))
	return err != nil || ok && o.At == d.s.Series.At && o.ID == bare(d.s.Series.Occurrence)
}

// maxReplanSteps bounds how many occurrences a replan looks at. A plan that needs more stays
// as it is.
const maxReplanSteps = 2000

// replansFrom is where a replan begins. What it finds does not fire late: before now it
// counts only if it is not before the planned one, which is undecided.
func (d *decision) replansFrom(from Instant) Instant { return max(from, min(d.now, d.s.Series.At-1)) }

// nextUndecided is the first occurrence after from that is not yet decided. If a calendar moves days, all that has a
// name is pending until that is decided, also what has moved to the past.
func (d *decision) nextUndecided(r rule, from Instant, moved *names) (o occurrence, ok bool, err *Error) {
	from = d.replansFrom(from)
	moved = moved.until(from)
	if d.s.Spec.When.movesNames(moved) {
		from = moved.first(from)
	}
	for range maxReplanSteps {
		if o, ok, err = r.next(from); err != nil || !ok || !d.decided(o, moved) {
			return o, ok, err
		}
		from = o.At
	}
	return o, false, invalid("calendars", "too many occurrences are decided")
}

// decided reports whether an occurrence was skipped, has fired, or was decided on another day.
func (d *decision) decided(o occurrence, moved *names) bool {
	id := o.ID + d.s.Life.suffix()
	return indexSkip(d.s.Series.Skip, id) >= 0 || d.s.hasFired(id) || moved.has(o)
}

// withFiredEarly is Skip, and the occurrences whose names are decided, and that come once more by
// the calendar as it is now. The last 16 firings would not tell all of them. It lists at most 2,000.
func (d *decision) withFiredEarly(r rule, from Instant, moved *names) []string {
	skip := d.s.Series.Skip
	if moved == nil || len(moved.decided) == 0 {
		return skip
	}
	skip = slices.Clone(skip)
	last := moved.last()
	for range maxReplanSteps {
		o, ok, err := r.next(from)
		if err != nil || !ok || len(skip) >= maxSkips ||
			dayOfName(o.ID) > last && r.Zone().Wall(int64(o.At)).Date() > last {
			break
		}
		if moved.has(o) && indexSkip(skip, o.ID) < 0 {
			skip = append(skip, o.ID)
		}
		from = o.At
	}
	return skip
}

// decidedUntil is After by the zone rules now in force. It moves as far as the planned
// occurrence does, so that no wall time that was skipped or missed is planned a second time.
func (d *decision) decidedUntil() Instant {
	p := &d.s.Series
	if p.After == 0 {
		return minInstant
	}
	at, ok := d.m.Timetable.instantOf(d.s.wallOfPlan(), d.s.Spec.When.Zone)
	if ok && !secondPass(p.Occurrence) {
		return p.After + at - p.At
	}
	return p.After // the planned one is named by its instant, or is the second pass of an overlap
}

// Uses reports whether the trigger's plan may depend on this calendar; "" means any zone or
// calendar. Only a tenant's own triggers use its calendars (OwnCalendar).
func (s *State) Uses(calendar string) bool {
	w := &s.Spec.When
	if calendar == "" {
		return w.Zone != "" || w.Calendars != nil
	}
	if w.Calendars == nil {
		return false
	}
	if tenant, name, own := strings.Cut(calendar, "/"); own {
		return s.Key.Tenant() == tenant && slices.Contains(w.Calendars.Names, name)
	}
	return slices.Contains(w.Calendars.Names, calendar)
}
