package trigger

import (
	"time"

	"github.com/waterclock/waterclock/calendar"
)

// moves is what is known of the days to which a calendar moved occurrences before it was
// edited. Moves keep the order of days, and of several days that move to one, the last stands
// for all.
type moves struct {
	back    bool          // to business days before; else to those behind
	begun   calendar.Wall // when the life began
	reached calendar.Wall // all that was moved up to here is decided
	planned calendar.Wall // the name of the planned occurrence
	until   calendar.Wall // back: names on days before this one were moved to the day of reached, or before it
}

// movesUnder is nil if no calendar moves days, or if nothing is decided yet.
func (d *decision) movesUnder(r rule) *moves {
	s := d.s
	planned, err := calendar.ParseWall(wallOfID(s.Series.Occurrence))
	if err != nil || !s.Spec.When.movesDays() || !d.decidedSome() {
		return nil
	}
	m := &moves{
		back: s.Spec.When.Calendars.On == calendar.OnPrevious, planned: planned,
		begun: r.Zone().Wall(int64(s.CreatedAt)), reached: r.Zone().Wall(int64(s.Series.After)),
	}
	if !m.back {
		return m
	}
	next := func(day calendar.Date) calendar.Wall { return calendar.Wall(day+1) * wallDay }
	for i := range s.Done { // what fired on that day was named by the last day that had moved there
		f := &s.Done[i]
		name, err := calendar.ParseWall(wallOfID(f.Occurrence))
		if err == nil && r.Zone().Wall(int64(f.Nominal)).Date() == m.reached.Date() {
			m.until = max(m.until, next(name.Date()))
		}
	}
	if to := r.Zone().Wall(int64(s.Series.At)); to == planned {
		return m // it was not moved: perhaps a date of include, which says nothing of others
	} else if to.Date() > m.reached.Date() {
		m.until = max(m.until, calendar.Wall(to.Date())*wallDay)
	} else {
		m.until = max(m.until, next(planned.Date()))
	}
	return m
}

// wallDay is a day of wall time.
const wallDay = calendar.Wall(24 * time.Hour / time.Millisecond)

// decided reports whether an occurrence was decided on the day to which it had been moved.
func (m *moves) decided(o occurrence) bool {
	if m == nil {
		return false
	}
	wall, err := calendar.ParseWall(wallOfID(o.ID))
	switch {
	case err != nil:
		return false
	case !m.back:
		return wall < m.planned && wall <= m.reached
	case wall <= m.reached:
		return wall < m.planned
	}
	was := m.reached - m.reached%wallDay + wall%wallDay
	return wall < m.until && m.begun < was && was <= m.reached
}
