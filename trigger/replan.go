package trigger

import "slices"

// Replan resolves the planned occurrence again by the timetable now in force:
// after a tz database update, or an edit of a calendar the trigger names. What
// has fired for its wall time stays fired; a plan that moves is told, with the
// old instant and both releases. Elapsed rules and instants never move.
func (m *Machine) Replan(s *State, now Instant, reason string) Outcome {
	d := m.begin(s, now)
	if s.Status.Finished() || s.Series.At == 0 || !s.movable() {
		return Outcome{State: s}
	}
	before := s.Series
	series, ok := d.resolveAgain()
	if !ok || (series.At == before.At && series.Occurrence == before.Occurrence) {
		return Outcome{State: s} // also when nothing is left: the timer that goes last ends the series
	}
	d.s.Series = series
	d.s.UpdatedAt = now
	f := d.tellPlan(Rescheduled)
	f.PreviousScheduled, f.PreviousTZData, f.Reason = before.At, before.TZData, reason
	return d.finish()
}

// movable says whether the plan depends on zone rules or calendars.
func (s *State) movable() bool {
	w := &s.Spec.When
	switch w.Kind {
	case WhenLocal:
		return s.Series.Local != "" // else a snooze made an instant of it
	case WhenRecurrence:
		return w.Zone != "" || w.Calendars != nil
	}
	return false
}

// resolveAgain is the plan by the rules now in force.
func (d *decision) resolveAgain() (Series, bool) {
	s := d.s
	if s.Spec.When.Kind == WhenLocal {
		o, err := d.m.Timetable.local(s.Spec.When.Local, s.Spec.When.Zone, s.Spec.When.DST)
		if err != nil {
			return Series{}, false
		}
		return d.m.series(&s.Spec, s.Life, s.Key, o), true
	}
	from := s.Series.After
	if from == 0 {
		from = minInstant
	}
	again := decision{m: d.m, now: d.now, s: &State{}}
	*again.s = *s
	again.planAfter(from)
	for again.s.Series.At != 0 && fired(s.Done, again.s.Series.Occurrence) {
		again.planAfter(again.s.Series.At)
	}
	again.s.Series.After = s.Series.After
	return again.s.Series, again.s.Series.At != 0
}

// Uses says whether the trigger's plan depends on one of these zones, or on
// this calendar; no zones means any.
func (s *State) Uses(zones map[string]bool, calendar string) bool {
	w := &s.Spec.When
	if calendar != "" {
		return w.Calendars != nil && slices.Contains(w.Calendars.Names, calendar)
	}
	return w.Zone != "" && (zones == nil || zones[w.Zone])
}
