package calendar

import (
	"math/bits"
	"sync/atomic"
)

func trailingZeros(x uint64) int { return bits.TrailingZeros64(x) }

// daySet is the calendar dates of a rule, without its times: those that the
// BY parts select, in every interval-th period from the start's on. It may be
// shared between goroutines.
type daySet struct {
	weekdays uint8      // bit 0 = Sunday; used where filler is nil
	filler   yearFiller // nil: weekdays alone decide
	years    [14]atomic.Pointer[yearMap]
	weeks    *weekNumbers // nil: any

	freq     frequency // unit of a period: daily, weekly, monthly or yearly
	interval int
	phase    int // index of a period that counts: the start's
	wkst     int
}

// newDaySet builds the dates of an anchored rule. For FREQ below DAILY they
// are the days on which it may fire at all.
func newDaySet(r *recurRule, start Wall) *daySet {
	s := &daySet{weekdays: 0x7f, freq: max(r.freq, daily), interval: 1, wkst: r.wkst}
	if r.freq >= daily {
		s.interval = r.interval
	}
	if r.byWeekNo != nil {
		s.weeks = newWeekNumbers(r.byWeekNo, r.wkst)
	}
	s.phase = s.period(start.day())
	plain := r.byMonth == nil && r.byMonthDay == nil && r.byYearDay == nil
	for _, d := range r.byDay {
		plain = plain && d.n == 0
	}
	switch {
	case !plain:
		s.filler = newCage(r)
	case r.byDay != nil:
		s.weekdays = 0
		for _, d := range r.byDay {
			s.weekdays |= 1 << d.day
		}
	}
	return s
}

// next finds the first date of the set from day on, but not after limit. It
// leaps from what the BY parts select to the periods that count and back.
func (s *daySet) next(day, limit int) (int, bool, error) {
	limit = min(limit, maxDay)
	for {
		d, ok, err := s.nextIn(day, limit)
		if !ok || err != nil || s.interval == 1 {
			return d, ok, err
		}
		p := s.period(d)
		off := floorMod(p-s.phase, s.interval)
		if off == 0 {
			return d, true, nil
		}
		day = s.first(p + s.interval - off)
	}
}

// nextIn is next regardless of the interval.
func (s *daySet) nextIn(day, limit int) (int, bool, error) {
	for day <= limit {
		d, ok, err := s.nextSelected(day, limit)
		if !ok || err != nil || s.weeks == nil || s.weeks.has(d) {
			return d, ok, err
		}
		day = d + 1
	}
	return 0, false, nil
}

// nextSelected is nextIn regardless of week numbers.
func (s *daySet) nextSelected(day, limit int) (int, bool, error) {
	if s.filler == nil {
		if s.weekdays == 0 {
			return 0, false, nil
		}
		for s.weekdays&(1<<weekdayOf(day)) == 0 {
			day++
		}
		return day, day <= limit, nil
	}
	y, _, _ := dateOf(day)
	for jan1 := daysOf(y, 1, 1); jan1 <= limit; y++ {
		m, err := s.year(weekdayOf(jan1), isLeap(y))
		if err != nil {
			return 0, false, err
		}
		if doy := m.next(max(day-jan1, 0)); doy >= 0 {
			return jan1 + doy, jan1+doy <= limit, nil
		}
		jan1 += 365
		if isLeap(y) {
			jan1++
		}
	}
	return 0, false, nil
}

// year returns one of the 14 year maps, filling it on first use. Two
// goroutines may fill it at once; both get the same answer.
func (s *daySet) year(jan1 int, leap bool) (*yearMap, error) {
	slot := &s.years[jan1]
	if leap {
		slot = &s.years[7+jan1]
	}
	if m := slot.Load(); m != nil {
		return m, nil
	}
	m, err := s.filler.fill(jan1, leap)
	if err != nil {
		return nil, err
	}
	slot.Store(&m)
	return &m, nil
}

// period numbers the periods of the rule's unit: days, weeks that begin on
// WKST, months, years. With BYWEEKNO a year is the year of its weeks.
func (s *daySet) period(day int) int {
	switch s.freq {
	case daily:
		return day
	case weekly:
		return floorDiv(day-s.weekZero(), 7)
	}
	if s.weeks != nil {
		y, _, _ := s.weeks.of(day)
		return y
	}
	y, m, _ := dateOf(day)
	if s.freq == monthly {
		return y*12 + m - 1
	}
	return y
}

// first is the first day of a period.
func (s *daySet) first(period int) int {
	switch s.freq {
	case daily:
		return period
	case weekly:
		return s.weekZero() + period*7
	case monthly:
		return daysOf(floorDiv(period, 12), floorMod(period, 12)+1, 1)
	}
	if s.weeks != nil {
		return s.weeks.firstDay(period)
	}
	return daysOf(period, 1, 1)
}

// weekZero is a day on which a week begins.
func (s *daySet) weekZero() int { return s.wkst - 4 } // 1970-01-01 was a Thursday

// weekNumbers is BYWEEKNO: week 1 is the first with at least four days in the
// year (RFC 5545 §3.3.10; ISO 8601 where weeks begin on Monday).
type weekNumbers struct {
	wkst     int
	fromHead uint64 // bit n: week n
	fromTail uint64 // bit n: the nth week from the end
}

func newWeekNumbers(list []int, wkst int) *weekNumbers {
	w := &weekNumbers{wkst: wkst}
	for _, n := range list {
		if n > 0 {
			w.fromHead |= 1 << n
		} else {
			w.fromTail |= 1 << -n
		}
	}
	return w
}

func (w *weekNumbers) has(day int) bool {
	_, n, total := w.of(day)
	return w.fromHead&(1<<n) != 0 || w.fromTail&(1<<(total+1-n)) != 0
}

// of returns the week a day is in: its year, its number from 1, and how many
// weeks that year has.
func (w *weekNumbers) of(day int) (year, n, total int) {
	monday := day - floorMod(weekdayOf(day)-w.wkst, 7)
	year, _, _ = dateOf(monday + 3) // four days make a majority
	first := w.firstDay(year)
	return year, (monday-first)/7 + 1, (w.firstDay(year+1) - first) / 7
}

// firstDay is the day on which week 1 begins: the week of the 4th of January.
func (w *weekNumbers) firstDay(year int) int {
	day := daysOf(year, 1, 4)
	return day - floorMod(weekdayOf(day)-w.wkst, 7)
}
