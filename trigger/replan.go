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
	if !ok || (series.At == before.At && series.Occurrence == before.Occurrence) {
		return Outcome{State: s} // also if nothing is left: the last timer ends the series
	}
	d.s.Series = series
	d.s.UpdatedAt = now
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
	from := d.decidedUntil()
	replanned := decision{m: d.m, now: d.now, s: &State{}}
	*replanned.s = *s
	replanned.planAfter(from)
	for replanned.s.Series.At != 0 && fired(s.Done, replanned.s.Series.Occurrence) {
		replanned.planAfter(replanned.s.Series.At)
	}
	if s.Series.After == 0 {
		replanned.s.Series.After = 0
	}
	return replanned.s.Series, replanned.s.Series.At != 0
}

// decidedUntil is After by the zone rules now in force. It moves as far as the planned
// occurrence does, so that no wall time that was skipped or missed is planned a second time.
func (d *decision) decidedUntil() Instant {
	p := &d.s.Series
	if p.After == 0 {
		return minInstant
	}
	id := bare(p.Occurrence)
	if at, ok := d.m.Timetable.instantOf(d.s.wallOfPlan(), d.s.Spec.When.Zone); ok && id == wallOfID(id) {
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
