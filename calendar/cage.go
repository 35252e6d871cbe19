package calendar

import (
	"slices"
	"time"

	"github.com/teambition/rrule-go"
)

// yearMap is the days of one calendar year that belong to a rule: bit 0 is
// the 1st of January.
type yearMap [6]uint64

func (m *yearMap) set(doy int) { m[doy>>6] |= 1 << (doy & 63) }

// next finds the first member at or after doy, or -1.
func (m *yearMap) next(doy int) int {
	for w := doy >> 6; w < len(m); w++ {
		x := m[w]
		if w == doy>>6 {
			x &= ^uint64(0) << (doy & 63)
		}
		if x != 0 {
			return w<<6 + trailingZeros(x)
		}
	}
	return -1
}

// yearFiller says which days of a year belong to a rule, for a year that
// begins on the given weekday. Every such rule depends on these two facts
// alone, so there are 14 different years and 14 answers.
type yearFiller interface {
	fill(jan1 int, leap bool) (yearMap, error)
}

// cage asks rrule-go which days of a year a rule's BY parts select. It is all
// we ask: one year, dates only, in UTC, INTERVAL 1, no COUNT, no BYSETPOS, no
// BYWEEKNO, options of our own making. What goes wrong beyond these bars: days
// lost and doubled in zones, endless loops, plain and numbered BYDAY, week
// numbers, partial weeks, races on shared values, and no way to seek.
type cage struct {
	freq                           rrule.Frequency
	byMonth, byMonthDay, byYearDay []int
	byDay                          []rrule.Weekday
	weekdays                       uint8 // of a filter; bit 0 = Sunday
}

// newCage keeps the parts of r that select days. With FREQ below MONTHLY, or
// with week numbers, the parts only filter days, which is what FREQ=DAILY
// means by them.
func newCage(r *recurRule) *cage {
	c := &cage{freq: rrule.DAILY, byMonth: r.byMonth, byMonthDay: r.byMonthDay, byYearDay: r.byYearDay, weekdays: 0x7f}
	if r.byDay != nil {
		c.weekdays = 0
	}
	for _, d := range r.byDay {
		c.weekdays |= 1 << d.day
	}
	span := 0 // how many of one weekday the period of a number holds
	switch {
	case r.freq == monthly || r.freq == yearly && r.byMonth != nil:
		span = 5
	case r.freq == yearly:
		span = 53
	}
	if r.freq == monthly {
		c.freq = rrule.MONTHLY
	}
	if r.freq == yearly && r.byWeekNo == nil {
		c.freq = rrule.YEARLY
	}
	c.byDay = cageDays(r.byDay, span)
	return c
}

// cageDays spells BYDAY for rrule-go, which takes MO,1SU for "a Monday that
// is also the first Sunday" (D9): beside a numbered day, a plain one becomes
// all its numbers.
func cageDays(days []weekdayNum, span int) []rrule.Weekday {
	numbered := false
	for _, d := range days {
		numbered = numbered || d.n != 0
	}
	var out []rrule.Weekday
	for _, d := range days {
		w := cageWeekdays[d.day]
		switch {
		case d.n != 0:
			out = append(out, w.Nth(d.n))
		case !numbered:
			out = append(out, w)
		default:
			for n := 1; n <= span; n++ {
				out = append(out, w.Nth(n))
			}
		}
	}
	return out
}

var cageWeekdays = []rrule.Weekday{rrule.SU, rrule.MO, rrule.TU, rrule.WE, rrule.TH, rrule.FR, rrule.SA}

// fill lets rrule-go run through one year. The year is among the last 28 that
// it knows: where a rule has no day, it looks on to the year 9999, and from
// there that is not far. All 14 kinds of year are among them.
func (c *cage) fill(jan1 int, leap bool) (m yearMap, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fail(CodeInvalidRule, "recurrence", "this rule cannot be evaluated (%v); please report it", p)
		}
	}()
	y := maxYear
	for weekdayOf(daysOf(y, 1, 1)) != jan1 || isLeap(y) != leap {
		y--
	}
	if c.freq == rrule.DAILY {
		return c.filter(y), nil
	}
	first := time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC)
	rr, err := rrule.NewRRule(rrule.ROption{
		Freq: c.freq, Dtstart: first, Until: time.Date(y, 12, 31, 0, 0, 0, 0, time.UTC),
		Bymonth: c.byMonth, Bymonthday: c.byMonthDay, Byyearday: c.byYearDay, Byweekday: c.byDay,
	})
	if err != nil {
		return m, fail(CodeInvalidRule, "recurrence", "this rule cannot be evaluated (%v); please report it", err)
	}
	for next := rr.Iterator(); ; {
		t, ok := next()
		if !ok {
			return m, nil
		}
		m.set(int(t.Sub(first) / (24 * time.Hour)))
	}
}

// filter is the days of a year that pass all parts. rrule-go would take 10 ms for
// each kind of year to find that no day does.
func (c *cage) filter(year int) (m yearMap) {
	passes := func(list []int, n, fromEnd int) bool {
		return list == nil || slices.Contains(list, n) || slices.Contains(list, fromEnd)
	}
	jan1, days := daysOf(year, 1, 1), 365
	if isLeap(year) {
		days = 366
	}
	for doy := range days {
		_, month, day := dateOf(jan1 + doy)
		if c.weekdays&(1<<weekdayOf(jan1+doy)) != 0 && passes(c.byMonth, month, month) &&
			passes(c.byMonthDay, day, day-daysInMonth(year, month)-1) && passes(c.byYearDay, doy+1, doy-days) {
			m.set(doy)
		}
	}
	return m
}
