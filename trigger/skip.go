package trigger

import (
	"slices"
	"strings"
	"time"

	"github.com/waterclock/waterclock/calendar"
)

// skip leaves out one occurrence of a series: the next, or a named one.
func (d *decision) skip(c *Command) *Error {
	s := d.s
	if !s.Recurring() {
		return invalid("op", "a one-shot has only one occurrence: cancel it, or reschedule it")
	}
	if _, err := d.rule(); err != nil {
		return err
	}
	if s.Series.At == 0 {
		return &Error{Code: CodeNotFound, Field: "occurrence", Msg: "the series has no further occurrence"}
	}
	o := s.seriesNow()
	next := c.Occurrence == "" || matches(c.Occurrence, &s.Series)
	if !next {
		found, err := d.find(c.Occurrence)
		if err != nil {
			return err
		}
		if o = found; indexSkip(s.Series.Skip, o.ID) >= 0 {
			return d.duplicate("already skipped")
		}
		if len(s.Series.Skip) >= maxSkips {
			return &Error{
				Code: CodeTooLarge, Field: "occurrence",
				Msg: "2000 occurrences are skipped already: exclude dates, or use a calendar",
			}
		}
	}
	s.Revision++
	d.addFact(Fact{Type: Skipped, Scheduled: o.At, Local: o.Local, Occurrence: o.ID + s.Life.suffix()})
	if !next || len(s.Series.Skip) < maxSkips { // the next one counts as decided by After, too
		s.Series.Skip = append(slices.Clone(s.Series.Skip), o.ID)
	}
	if next {
		d.planAfter(s.Series.At)
	}
	d.deriveStatus()
	return nil
}

func (s *State) seriesNow() occurrence {
	return occurrence{At: s.Series.At, ID: bare(s.Series.Occurrence), Local: s.Series.Local}
}

// find returns the occurrence that a skip names by a local date, a local date-time or an
// instant. It searches the next thousand.
func (d *decision) find(name string) (occurrence, *Error) {
	r, err := d.rule()
	t := d.s.Series.At
	for n := 0; err == nil && n < maxFind; n++ {
		var o occurrence
		var ok bool
		if o, ok, err = r.next(t); err != nil || !ok {
			break
		}
		if p := (Series{At: o.At, Occurrence: o.ID + d.s.Life.suffix(), Local: o.Local}); matches(name, &p) {
			return o, nil
		}
		t = o.At
	}
	return occurrence{}, &Error{Code: CodeNotFound, Field: "occurrence", Msg: "the series has no occurrence " + name}
}

// maxFind bounds how far ahead an occurrence may be skipped.
const maxFind = 1000

// maxSkips bounds how many skipped occurrences a series keeps by name.
const maxSkips = 2000

func indexSkip(skip []string, occurrence string) int {
	for i, s := range skip {
		if s == bare(occurrence) {
			return i
		}
	}
	return -1
}

// skipsFrom copies skip without the entries that are before the day of an instant in every
// zone. A skip is kept until the series and the clock have passed it, because a new plan may
// begin before it, and as long as a calendar may move it: by at most 365 days. A name without
// a day is of no plan: anybody may have redriven it.
func skipsFrom(skip []string, w *When, passed Instant) []string {
	const day = len("2006-01-02")
	before := 48 * time.Hour
	if w.movesDays() {
		before += 365 * 24 * time.Hour
	}
	first := passed.Time().Add(-before).UTC().Format(time.DateOnly)
	return slices.DeleteFunc(slices.Clone(skip), func(s string) bool {
		_, err := time.Parse(time.DateOnly, s[:min(len(s), day)])
		return err != nil || s[:day] < first
	})
}

// matches reports whether a user's name for an occurrence means p's: its id, its instant, or its local time or date. A
// local one is that which was scheduled or that which clocks show, where a gap or a calendar makes them differ.
func matches(name string, p *Series) bool {
	if name == p.Occurrence || name == bare(p.Occurrence) {
		return true
	}
	if at, err := calendar.ParseInstant(name); err == nil {
		return Instant(at) == p.At
	}
	return matchesWall(name, strings.TrimSuffix(wallOfID(p.Occurrence), "Z")) ||
		matchesWall(name, strings.Split(p.Local, "[")[0])
}

// matchesWall reports whether a local date or date-time means a wall time.
func matchesWall(name, wall string) bool {
	w, err := calendar.ParseWall(wall)
	if err != nil {
		return false
	}
	if len(name) == len(time.DateOnly) {
		return name == wall[:len(name)]
	}
	n, err := calendar.ParseWall(name)
	return err == nil && n == w
}
