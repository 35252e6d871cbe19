package trigger

import "slices"

// Planned is an occurrence that will fire if nothing changes.
type Planned struct {
	At         Instant // when it fires; for the next one with its jitter
	Nominal    Instant
	Occurrence string
	Local      string // local-time triggers only
	Note       string // what a gap, an overlap or a calendar did to the wall time; not of what was snoozed
}

// Upcoming lists what s will fire, in order: at most n occurrences, none due
// after until (0: no such bound). A paused trigger is listed as if it were
// resumed now. It changes nothing and costs about 2 µs an occurrence.
func (t *Timetable) Upcoming(s *State, n int, until Instant) []Planned {
	if s.Status.Finished() {
		return nil
	}
	var out []Planned
	left := n
	t.Walk(s, until, func(p Planned, followed bool) bool {
		if p.Occurrence == s.Series.Occurrence && p.Nominal == s.Series.At {
			p.Note = t.note(s)
		}
		out = append(out, p)
		if followed {
			left--
		}
		return left > 0
	})
	slices.SortStableFunc(out, func(a, b Planned) int { return int(max(-1, min(1, a.At-b.At))) })
	out = slices.DeleteFunc(out, func(p Planned) bool { return until != 0 && p.At > until })
	return out[:min(n, len(out))]
}

// Walk calls f for each occurrence that s will fire, until f returns false: first the snoozed
// and planned ones, then those that follow, up to until (0: no bound). It computes them one
// by one.
func (t *Timetable) Walk(s *State, until Instant, f func(p Planned, followed bool) bool) {
	if s.Status.Finished() {
		return
	}
	for _, p := range s.waitingPlanned() {
		if !f(p, false) {
			return
		}
	}
	if s.Series.At == 0 || !f(Planned{s.Series.Due(), s.Series.At, s.Series.Occurrence, s.Series.Local, ""}, false) {
		return
	}
	if s.Recurring() {
		t.follow(s, until, func(p Planned) bool { return f(p, true) })
	}
}

// Expect calls f for each occurrence that s will fire as it stands, until f returns false:
// with its nominal instant, and when it is due, jitter included. It ends with those whose
// nominal instant is after until. Nothing is expected of a paused trigger.
func (m *Machine) Expect(s *State, until Instant, f func(nominal, due Instant) bool) {
	if s.Status == Paused {
		return
	}
	m.Timetable.Walk(s, until, func(p Planned, followed bool) bool {
		switch {
		case followed:
			return f(p.Nominal, p.At+Instant(m.jitter(&s.Spec, s.Key, p.Occurrence)))
		case p.Occurrence != s.Series.Occurrence: // snoozed, or fired by hand: its due time is what was asked for
			return f(p.At, p.At)
		}
		return f(p.Nominal, p.At)
	})
}

// note is the note of the planned occurrence, which the state does not keep.
func (t *Timetable) note(s *State) string {
	w, p := &s.Spec.When, &s.Series
	if w.Kind == WhenLocal {
		if o, err := t.local(w.Local, w.Zone, w.DST); err == nil && o.At == p.At {
			return o.Note
		}
		return ""
	}
	if !s.Recurring() {
		return ""
	}
	r, err := (&Machine{Timetable: t}).begin(s, 0).rule()
	if err != nil {
		return ""
	}
	if o, ok, err := r.next(p.At - 1); err == nil && ok && o.At == p.At {
		return o.Note
	}
	return ""
}

func (s *State) waitingPlanned() []Planned {
	var out []Planned
	for i := range s.Live {
		if l := &s.Live[i]; l.Kind == LiveSnoozed || l.Kind == LiveRunNow {
			out = append(out, Planned{l.Due, l.Nominal, l.Occurrence, l.Local, ""})
		}
	}
	return out
}

// follow calls f for the occurrences after the planned one that are not decided: skipped, or fired on another day.
func (t *Timetable) follow(s *State, until Instant, f func(Planned) bool) {
	d := (&Machine{Timetable: t}).begin(s, 0)
	r, err := d.rule()
	if err != nil {
		return
	}
	decided := d.decidedNames(r)
	for at := s.Series.At; ; {
		o, ok, err := r.next(at)
		if err != nil || !ok || (until != 0 && o.At > until) {
			return
		}
		at = o.At
		if !d.decided(o, decided) && !f(Planned{o.At, o.At, o.ID + s.Life.suffix(), o.Local, o.Note}) {
			return
		}
	}
}

// Nominal is the instant of the planned occurrence, or, without one, of the last that fired.
// It is 0 if there never was one.
func (s *State) Nominal() Instant {
	if s.Series.At != 0 {
		return s.Series.At
	}
	if n := len(s.Done); n > 0 {
		return s.Done[n-1].Nominal
	}
	return 0
}

// NextFire is Next as answers show it: 0 while the trigger is paused.
func (s *State) NextFire() Instant {
	if s.Status == Paused {
		return 0
	}
	return s.Next()
}
