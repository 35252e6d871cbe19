package trigger

import (
	"slices"
	"strings"
	"time"

	"github.com/waterclock/waterclock/calendar"
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
	o, ok := d.nextUndecided(r, from)
	if planned, found := r.named(bare(s.Series.Occurrence)); found && (!ok || planned.At < o.At) {
		o, ok = planned, true // also if that is past: it has not fired, and does so late
	}
	p := Series{TZData: d.m.Timetable.Zones.Release()}
	if ok {
		p = d.m.series(&s.Spec, s.Life, s.Key, o)
	}
	p.Start, p.After, p.MissedUntil = s.Series.Start, s.Series.After, s.Series.MissedUntil
	p.Skip = d.withFiredEarly(r, from)
	if p.After != 0 {
		p.After = from
	}
	return p, true
}

// withFiredEarly is Skip, and the occurrences that a calendar had moved to a day before their
// own, where they were decided, and that come once more by the calendar as it is now. The
// last 16 firings would not tell all of them. It lists at most 2,000.
func (d *decision) withFiredEarly(r rule, from Instant) []string {
	s := d.s
	planned, err := calendar.ParseWall(wallOfID(s.Series.Occurrence))
	if c := s.Spec.When.Calendars; c == nil || c.On != calendar.OnPrevious || err != nil {
		return s.Series.Skip
	}
	skip := slices.Clone(s.Series.Skip)
	for len(skip) < maxSkips {
		o, ok, err := r.next(from)
		if err != nil || !ok || r.Zone().Wall(int64(o.At)).Date() > planned.Date() {
			break
		}
		if d.decidedUnmoved(r, o) && indexSkip(skip, o.ID) < 0 {
			skip = append(skip, o.ID)
		}
		from = o.At
	}
	return skip
}

// nextUndecided is the first occurrence after from that is not yet decided. It does not fire
// late: before now it counts only if it is not before the planned one, which is undecided.
func (d *decision) nextUndecided(r rule, from Instant) (occurrence, bool) {
	s := d.s
	passed := min(d.now, s.Series.At-1)
	for {
		o, ok, err := r.next(max(from, passed))
		if err != nil || !ok {
			return occurrence{}, false
		}
		id := o.ID + s.Life.suffix()
		if indexSkip(s.Series.Skip, id) < 0 && !s.hasFired(id) && !d.decidedUnmoved(r, o) {
			return o, true
		}
		from = o.At
	}
}

// decidedUnmoved reports whether a calendar that moves occurrences moves one that was decided
// elsewhere. Moves keep the order of days, and of several days that move to one, the last
// stands for all. So what is named before the planned one was decided, unless it is a day
// that the old calendar moved past what is decided.
func (d *decision) decidedUnmoved(r rule, o occurrence) bool {
	s := d.s
	c := s.Spec.When.Calendars
	if c == nil || c.On == calendar.OnSkip {
		return false
	}
	wall, err1 := calendar.ParseWall(wallOfID(o.ID))
	planned, err2 := calendar.ParseWall(wallOfID(s.Series.Occurrence))
	if err1 != nil || err2 != nil || wall >= planned || len(s.Series.Local) < len(time.DateOnly) {
		return false
	}
	decided := r.Zone().Wall(int64(s.Series.After))
	if wall <= decided {
		return true
	}
	if c.On == calendar.OnNext {
		return false
	}
	const day = 24 * time.Hour / time.Millisecond
	to, err := calendar.ParseWall(s.Series.Local[:len(time.DateOnly)] + "T00:00:00")
	if err != nil {
		return false
	}
	if to.Date() > decided.Date() {
		return wall < to // all days up to the planned one's have moved to days that are decided
	}
	return wall%calendar.Wall(day) < planned%calendar.Wall(day)
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
