package trigger

import (
	"slices"
	"strings"

	"github.com/waterclock/waterclock/calendar"
)

// LeftOut lists, in order, what s would fire after one instant and up to another, had its calendars not left out the
// day, or dst.gap "skip" the time: at most n of each. Notes say which of both. At is the instant, that of a gap the end
// of it. It changes nothing.
func (t *Timetable) LeftOut(s *State, after, until Instant, n int) []Planned {
	if !s.Recurring() || s.Status.Finished() {
		return nil
	}
	r, err := (&Machine{Timetable: t}).begin(s, 0).rule()
	if err != nil {
		return nil
	}
	out := t.onLeftDays(s, r, after, until, n)
	inGaps, _ := r.LeftOut(int64(after), int64(until), n) // as far as it goes
	for _, o := range inGaps {
		out = append(out, Planned{
			At: Instant(o.At), Nominal: Instant(o.At), Occurrence: o.ID() + s.Life.suffix(),
			Local: o.Local.String() + "[" + r.Zone().Name() + "]", Note: o.Note,
		})
	}
	slices.SortStableFunc(out, func(a, b Planned) int { return int(max(-1, min(1, a.At-b.At))) })
	return out
}

// onLeftDays is what a rule without the calendars has, and the one with them has not.
func (t *Timetable) onLeftDays(s *State, with rule, after, until Instant, n int) (out []Planned) {
	c := s.Spec.When.Calendars
	if c == nil || c.On != calendar.OnSkip {
		return nil
	}
	plain := s.Spec.When
	plain.Calendars = nil
	without, err := t.compile(&plain, s.Key.Tenant(), s.Series.Start, s.CreatedAt)
	if err != nil {
		return nil
	}
	for at := after; len(out) < n; {
		o, ok, err := without.next(at)
		if err != nil || !ok || o.At > until {
			break
		}
		at = o.At
		if kept, ok, err := with.next(at - 1); err != nil || ok && kept.At == at {
			continue
		}
		out = append(out, Planned{
			At: o.At, Nominal: o.At, Occurrence: o.ID + s.Life.suffix(), Local: o.Local,
			Note: "left out: a day of calendar " + strings.Join(c.Names, " or "),
		})
	}
	return out
}
