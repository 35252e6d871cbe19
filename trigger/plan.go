package trigger

import (
	"cmp"
	"strconv"
	"time"

	"github.com/waterclock/waterclock/calendar"
)

// plan computes the plan of a spec whose command was appended at from. Its errors name the
// field. A one-shot keeps how far an earlier recurrence was decided, for a recurrence that
// may replace it.
func (m *Machine) plan(spec *Spec, life Life, key Key, from Instant, before past) (Series, *Error) {
	if spec.When.Kind == WhenRecurrence {
		return m.planRule(spec, life, key, from, before)
	}
	p, err := m.planOnce(spec, life, key, from)
	p.After = before.after
	return p, err
}

func (m *Machine) planOnce(spec *Spec, life Life, key Key, from Instant) (Series, *Error) {
	w := &spec.When
	switch w.Kind {
	case WhenDelay:
		return m.instant(spec, life, key, from.Add(w.Delay)), nil
	case WhenInstant:
		return m.instant(spec, life, key, w.FireAt), nil
	case WhenLocal:
		o, err := m.Timetable.local(w.Local, w.Zone, w.DST)
		if err == nil {
			err = within(o.At, from)
		}
		if err != nil {
			return Series{}, err
		}
		return m.series(spec, life, key, o), nil
	}
	return Series{}, &Error{
		Code: CodeConflictingTime,
		Msg:  "a trigger needs exactly one of delay, fire_at and recurrence",
	}
}

// instant plans an occurrence that is named by its instant.
func (m *Machine) instant(spec *Spec, life Life, key Key, at Instant) Series {
	return m.series(spec, life, key, occurrence{At: at, ID: at.String()})
}

// series is the plan for one occurrence, jitter included.
func (m *Machine) series(spec *Spec, life Life, key Key, o occurrence) Series {
	p := Series{At: o.At, Occurrence: o.ID + life.suffix(), Local: o.Local}
	if o.Local != "" {
		p.TZData = m.Timetable.Zones.Release()
	}
	p.Jitter = m.jitter(spec, key, p.Occurrence)
	return p
}

// jitter depends on key and occurrence only, so it stays the same when the plan is made anew.
func (m *Machine) jitter(spec *Spec, key Key, occurrence string) int64 {
	return calendar.Jitter(string(key), occurrence, m.window(spec)).Milliseconds()
}

// window is the time over which occurrences are spread. A channel's default is cut to what a trigger could ask for, so
// that occurrences keep their order.
func (m *Machine) window(spec *Spec) time.Duration {
	if spec.Jitter != 0 || spec.Priority != Low {
		return spec.Jitter
	}
	low := m.Channel(spec.Channel).JitterLow
	if low == 0 || spec.When.Kind != WhenRecurrence {
		return low
	}
	if most, bounded := m.Timetable.widest(&spec.When); bounded {
		return min(low, most)
	}
	return low
}

// widest is half the shortest distance between two occurrences; bounded is false if there is only one. A rule without a
// start is phased on its append, which the spec does not have: then the distance to its dates is unknown, and taken for
// none.
func (t *Timetable) widest(w *When) (most time.Duration, bounded bool) {
	if w.Start == "" && w.Recurrence != "" && len(w.Include) > 0 {
		return 0, true
	}
	plain := *w
	plain.Calendars = nil
	r, err := t.compile(&plain, "", cmp.Or(w.Start, "1970-01-01T00:00:00Z"), 0)
	if err != nil {
		return 0, true
	}
	d := r.Closest()
	return d / 2, d > 0
}

// maxAhead and maxBehind bound the instants in a command.
const (
	maxAhead  = 100 * 366 * 24 * time.Hour
	maxBehind = 366 * 24 * time.Hour
)

func within(at, from Instant) *Error {
	switch {
	case from.Sub(at) > maxBehind:
		return &Error{Code: CodeInThePast, Field: "fire_at", Msg: "the time is over a year ago"}
	case at.Sub(from) > maxAhead:
		return &Error{Code: CodeBeyondHorizon, Field: "fire_at", Msg: "the time is over 100 years ahead"}
	}
	return nil
}

// planRule plans a recurrence: its start, and its first occurrence that has not fired in this
// life. before is what stays from the plan that it replaces.
func (m *Machine) planRule(spec *Spec, life Life, key Key, from Instant, before past) (Series, *Error) {
	if name := m.Timetable.missing(spec.When.Calendars, key.Tenant()); name != "" {
		return Series{}, invalid("calendars",
			"there is no calendar "+strconv.Quote(name)+": put it first (waterclock calendar put)")
	}
	r, err := m.Timetable.compile(&spec.When, key.Tenant(), before.start, from)
	if err == nil && !before.goesOn {
		err = m.Timetable.allowed(r, key.Tenant())
	}
	if err != nil {
		return Series{}, err
	}
	if err := spread(spec, r); err != nil && !before.spread {
		return Series{}, err
	}
	if before.names != nil {
		before.names.rule = r // it may have other dates of include, in another zone
	}
	after := from
	switch {
	case before.goesOn:
		after = minInstant // the plan goes on: what was late is still to be decided
	case spec.When.Start != "":
		after = from - 1 // a start in the past only sets the phase: nothing before the append fires or is missed
	}
	begin := max(after, before.after, before.beyond)
	if (before.goesOn || before.sameZone) && spec.When.movesNames(before.names) {
		begin = max(after, before.beyond) // what is pending may have been moved to before After
	}
	// It has not been due. No other lies between it and the append, because jitter is at most half the period.
	if held := m.series(spec, life, key, before.held); held.Due() > from && before.stillHeld(r) {
		begin = min(begin, held.At-1)
		after = min(after, begin)
	}
	o, ok, err := r.next(begin)
	for seen := 1; ok && err == nil; seen++ {
		next := o.At
		if before.names.has(o) {
			next = before.names.behind(o, seen)
			before.after = max(before.after, next)
		} else if before.mayHaveFired(o) {
			before.after = max(before.after, next) // no list has it, and the next plan is to know
			if spec.When.movesDays() {
				before.leaveOutToo(o) // an edit of a calendar may move it behind After
			}
		} else if !before.isLeftOut(o, life) {
			break
		}
		o, ok, err = r.next(next) // the same wall time in another zone, or by other rules
	}
	if err != nil {
		return Series{}, err
	}
	if !ok {
		return Series{}, &Error{
			Code: CodeNoOccurrences, Field: "recurrence",
			Msg: "the rule has no further occurrence",
		}
	}
	before.leaveOutLater(r, o.At, &spec.When)
	p := m.series(spec, life, key, o)
	p.Start, p.TZData, p.After, p.Skip = r.Start(), m.Timetable.Zones.Release(), before.after,
		skipsFrom(before.leaveOut(), &spec.When, min(before.after, from))
	if !before.goesOn {
		p.After = max(p.After, after)
	}
	switch n := before.names; {
	case r.ElapsedTime():
	case n != nil:
		p.Decided, p.Begun = n.decided, n.begun
		if before.local && before.goesOn { // the move let pass what comes before the plan
			there := r.passed(begin)
			p.Decided, p.Begun = pass(raise(p.Decided, there), p.Begun, r.passed(from), there)
		}
		if !before.goesOn && spec.When.movesDays() { // what is pending and past does not fire
			p.Decided = raise(p.Decided, r.passed(from))
		}
		if !spec.When.keepsNames(&p) {
			p.Begun = nil
		}
	case spec.When.movesDays():
		p.Begun = r.passed(from)
	}
	return p, nil
}

// spread refuses a jitter that is longer than half the distance of two occurrences, so that they keep their order.
func spread(spec *Spec, r rule) *Error {
	if spec.Jitter == 0 {
		return nil
	}
	if d := r.Closest(); d > 0 && spec.Jitter > d/2 {
		return invalid("jitter", "jitter must be at most half the period, "+(d/2).String())
	}
	return nil
}

// minInstant is before every occurrence that a series may plan. At 0 means none, and
// occurrences before 1970 were missed anyway.
const minInstant = Instant(0)

// advance plans the occurrence after the one that fires now. Without one, At is 0.
func (d *decision) advance() {
	s := d.s
	if !s.Recurring() {
		s.Series = Series{After: s.Series.After}
		return
	}
	d.planAfter(s.Series.At)
}

// planAfter moves a rule's plan to the first occurrence after t that is not decided. After
// never goes back: an edit of a calendar may have moved the planned occurrence before it.
// Others that are pending may have been moved, too: what is before After counts if its name is not decided.
func (d *decision) planAfter(t Instant) {
	s := d.s
	after := max(t, s.Series.After)
	skip := s.Series.Skip
	end := Series{
		Start: s.Series.Start, TZData: s.Series.TZData, After: after, MissedUntil: s.Series.MissedUntil,
		Skip: skipsFrom(skip, &s.Spec.When, min(after, d.now)),
	}
	r, err := d.rule()
	end.Decided, end.Begun = s.Series.Decided, s.Series.Begun
	if err == nil {
		d.keepNames(r, &end, t)
	}
	named := &names{end.Decided, end.Begun, r, after} // the calendars may be newer than the plan
	for seen := 1; err == nil; {
		var o occurrence
		var ok bool
		if o, ok, err = r.next(t); err != nil || !ok {
			break
		}
		p := d.m.series(&s.Spec, s.Life, s.Key, o)
		if indexSkip(skip, p.Occurrence) >= 0 || s.hasFired(p.Occurrence) {
			t = o.At
			continue
		}
		if named.has(o) {
			t = named.behind(o, seen)
			seen++
			continue
		}
		p.Start, p.TZData, p.After, p.MissedUntil, p.Skip = r.Start(), d.m.Timetable.Zones.Release(), end.After,
			end.MissedUntil, end.Skip
		p.Decided, p.Begun = end.Decided, end.Begun
		s.Series = p
		return
	}
	if err != nil {
		end.Retry, d.unplanned = strandedSeries, err
	}
	s.Series = end
}

// Retry of a series that cannot be planned.
const (
	strandedSeries = 1 // it goes on by itself when it can be planned
	strandedPaused = 2 // a user has paused it: it waits for a resume, too
)

// stranded reports whether a series cannot be planned, although it has not ended: the tz
// release in force lacks its zone.
func (p *Series) stranded() bool { return p.At == 0 && p.Retry > 0 }

// strand pauses a series that cannot be planned. It goes on with a tz release that has its
// zone (Replan), or with a resume after a rezone.
func (d *decision) strand() {
	s := d.s
	if s.Status == Paused {
		return
	}
	s.Status = Paused
	f := Fact{Type: PausedFact, Reason: string(CodeInvalidRule)}
	if err := d.unplanned; err != nil {
		f.Reason, f.Detail = string(err.Code), err.Msg
	}
	s.Note = f.Detail
	d.addFact(f)
}

// unstrand plans a stranded series again, if that can be done now.
func (d *decision) unstrand() *Error {
	if !d.s.Series.stranded() {
		return nil
	}
	d.planAfter(d.s.Series.After)
	return d.unplanned
}

// rule is the trigger's recurrence, compiled. The rule was accepted before, so an error means
// that the tz release in force lacks its zone.
func (d *decision) rule() (rule, *Error) {
	s := d.s
	return d.m.Timetable.compile(&s.Spec.When, s.Key.Tenant(), s.Series.Start, s.CreatedAt)
}
