package check

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// errRule means that the oracle cannot read a rule: it is wrong, or of an unknown kind. Such a
// rule is not judged.
var errRule = errors.New("rule not understood")

type frequency int

const (
	yearly frequency = iota
	monthly
	weekly
	daily
	hourly
	minutely
	secondly
)

var frequencies = map[string]frequency{
	"YEARLY": yearly, "MONTHLY": monthly, "WEEKLY": weekly, "DAILY": daily,
	"HOURLY": hourly, "MINUTELY": minutely, "SECONDLY": secondly,
}

var weekdays = map[string]int{"SU": 0, "MO": 1, "TU": 2, "WE": 3, "TH": 4, "FR": 5, "SA": 6}

// byDay is a BYDAY element: a weekday, and its number within the month or year (0: every one).
type byDay struct{ weekday, nth int }

// rrule is an RFC 5545 recurrence rule as it was written.
type rrule struct {
	freq                                     frequency
	interval, count                          int
	until                                    wall
	hasUntil, untilUTC                       bool
	wkst                                     int
	byMonth, byWeekNo, byYearDay, byMonthDay []int
	byDay                                    []byDay
	byHour, byMinute, bySecond, bySetPos     []int
	givenHour, givenMinute, givenSecond      bool
}

func parseRRule(s string) (*rrule, error) {
	s = strings.ToUpper(strings.TrimSuffix(strings.TrimSpace(s), ";"))
	s = strings.TrimPrefix(s, "RRULE:")
	r := &rrule{interval: 1, wkst: 1, freq: -1}
	for _, part := range strings.Split(s, ";") {
		name, value, ok := strings.Cut(part, "=")
		if !ok || !r.set(name, value) {
			return nil, fmt.Errorf("%w: %q", errRule, part)
		}
	}
	if r.freq < 0 || r.interval < 1 {
		return nil, fmt.Errorf("%w: %q", errRule, s)
	}
	return r, nil
}

func (r *rrule) set(name, value string) bool {
	var ok bool
	switch name {
	case "FREQ":
		r.freq, ok = frequencies[value]
		return ok
	case "INTERVAL":
		return atoi(value, &r.interval)
	case "COUNT":
		return atoi(value, &r.count)
	case "WKST":
		r.wkst, ok = weekdays[value]
		return ok
	case "UNTIL":
		return r.setUntil(value)
	case "BYDAY":
		return r.setByDay(value)
	}
	lists := map[string]*[]int{
		"BYMONTH": &r.byMonth, "BYWEEKNO": &r.byWeekNo, "BYYEARDAY": &r.byYearDay,
		"BYMONTHDAY": &r.byMonthDay,
		"BYHOUR":     &r.byHour, "BYMINUTE": &r.byMinute, "BYSECOND": &r.bySecond, "BYSETPOS": &r.bySetPos,
	}
	to := lists[name]
	if to == nil || *to != nil {
		return false
	}
	for _, v := range strings.Split(value, ",") {
		var n int
		if !atoi(v, &n) {
			return false
		}
		if !slices.Contains(*to, n) {
			*to = append(*to, n)
		}
	}
	return true
}

func atoi(s string, to *int) bool {
	n, err := strconv.Atoi(s)
	*to = n
	return err == nil
}

func (r *rrule) setUntil(s string) bool {
	s, r.untilUTC = strings.CutSuffix(s, "Z")
	if len(s) != len("20060102T150405") || s[8] != 'T' {
		return false
	}
	n, err := strconv.Atoi(s[:8])
	t, err2 := strconv.Atoi(s[9:])
	r.until = wallOf(n/10000, n/100%100, n%100, t/10000, t/100%100, t%100)
	r.hasUntil = true
	return err == nil && err2 == nil
}

func (r *rrule) setByDay(s string) bool {
	for _, v := range strings.Split(s, ",") {
		if len(v) < 2 {
			return false
		}
		wd, ok := weekdays[v[len(v)-2:]]
		nth := 0
		if num := v[:len(v)-2]; num != "" && !atoi(num, &nth) {
			return false
		}
		if !ok {
			return false
		}
		r.byDay = append(r.byDay, byDay{wd, nth})
	}
	return true
}

// fill adds the parts that a rule takes from its start (RFC 5545 3.3.10: "information, not
// specified in the rule … comes from the DTSTART").
func (r *rrule) fill(start wall) {
	_, m, d := civil(start.day())
	hh, mm, ss := start.clock()
	r.givenHour, r.givenMinute, r.givenSecond = r.byHour != nil, r.byMinute != nil, r.bySecond != nil
	if r.byHour == nil && r.freq < hourly {
		r.byHour = []int{hh}
	}
	if r.byMinute == nil && r.freq < minutely {
		r.byMinute = []int{mm}
	}
	if r.bySecond == nil && r.freq < secondly {
		r.bySecond = []int{ss}
	}
	days := r.byMonthDay != nil || r.byYearDay != nil || r.byDay != nil
	switch {
	case r.freq == yearly && r.byWeekNo != nil && !days:
		r.byDay = []byDay{{weekdayOf(start.day()), 0}}
	case r.freq == yearly && !days && r.byWeekNo == nil:
		r.byMonthDay = []int{d}
		if r.byMonth == nil {
			r.byMonth = []int{m}
		}
	case r.freq == monthly && !days:
		r.byMonthDay = []int{d}
	case r.freq == weekly && r.byDay == nil:
		r.byDay = []byDay{{weekdayOf(start.day()), 0}}
	}
}

// weekdayOf is 0 for Sunday.
func weekdayOf(day int64) int { return int(((day+4)%7 + 7) % 7) }

// matches reports whether a date matches all BY parts for dates.
func (r *rrule) matches(day int64) bool {
	y, m, d := civil(day)
	if r.byMonth != nil && !slices.Contains(r.byMonth, m) {
		return false
	}
	if r.byMonthDay != nil && !slices.Contains(r.byMonthDay, d) && !slices.Contains(r.byMonthDay, d-daysIn(y, m)-1) {
		return false
	}
	if r.byYearDay != nil {
		n := int(day-dayNumber(y, 1, 1)) + 1
		if !slices.Contains(r.byYearDay, n) && !slices.Contains(r.byYearDay, n-daysInYear(y)-1) {
			return false
		}
	}
	if r.byWeekNo != nil {
		_, no, weeks := r.week(day)
		if !slices.Contains(r.byWeekNo, no) && !slices.Contains(r.byWeekNo, no-weeks-1) {
			return false
		}
	}
	return r.byDay == nil || r.matchesDay(day, y, m, d)
}

// matchesDay reports whether a date matches any BYDAY element, with or without a number.
func (r *rrule) matchesDay(day int64, y, m, d int) bool {
	wd := weekdayOf(day)
	for _, b := range r.byDay {
		if b.weekday != wd {
			continue
		}
		if b.nth == 0 || r.freq >= weekly {
			return true
		}
		n, length := d, daysIn(y, m)
		if r.freq == yearly && r.byMonth == nil {
			n, length = int(day-dayNumber(y, 1, 1))+1, daysInYear(y)
		}
		if b.nth == (n-1)/7+1 || b.nth == -((length-n)/7+1) {
			return true
		}
	}
	return false
}

// weekBegin returns the first day of a day's week.
func (r *rrule) weekBegin(day int64) int64 {
	return day - int64((weekdayOf(day)-r.wkst+7)%7)
}

// weekYearBegin returns the first day of week 1 of a year: the first week with at least four days
// in that year.
func (r *rrule) weekYearBegin(y int) int64 { return r.weekBegin(dayNumber(y, 1, 4)) }

// week returns the week-year of a day, the number of its week, and the number of weeks in that
// year.
func (r *rrule) week(day int64) (year, no, weeks int) {
	year, _, _ = civil(day)
	if day >= r.weekYearBegin(year+1) {
		year++
	} else if day < r.weekYearBegin(year) {
		year--
	}
	begin := r.weekYearBegin(year)
	return year, int(day-begin)/7 + 1, int(r.weekYearBegin(year+1)-begin) / 7
}

// span returns the days [from, to) of period n. Period 0 contains start.
func (r *rrule) span(start wall, n int64) (from, to int64) {
	y, m, _ := civil(start.day())
	switch r.freq {
	case yearly:
		if r.byWeekNo != nil {
			wy, _, _ := r.week(start.day())
			return r.weekYearBegin(wy + int(n)), r.weekYearBegin(wy + int(n) + 1)
		}
		return dayNumber(y+int(n), 1, 1), dayNumber(y+int(n)+1, 1, 1)
	case monthly:
		at := func(k int64) int64 { return dayNumber(int(floorDiv(k, 12)), int(k-floorDiv(k, 12)*12)+1, 1) }
		k := int64(y)*12 + int64(m) - 1 + n
		return at(k), at(k + 1)
	case weekly:
		b := r.weekBegin(start.day()) + 7*n
		return b, b + 7
	}
	return start.day() + n, start.day() + n + 1
}

// periodOf returns the number of the period that contains a day.
func (r *rrule) periodOf(start wall, day int64) int64 {
	y, m, _ := civil(start.day())
	y2, m2, _ := civil(day)
	switch r.freq {
	case yearly:
		if r.byWeekNo != nil {
			wy, _, _ := r.week(start.day())
			wy2, _, _ := r.week(day)
			return int64(wy2 - wy)
		}
		return int64(y2 - y)
	case monthly:
		return int64(y2-y)*12 + int64(m2-m)
	case weekly:
		return floorDiv(day-r.weekBegin(start.day()), 7)
	}
	return day - start.day()
}

// times returns the times of day of a rule, in seconds since midnight, ascending.
func (r *rrule) times() []int64 {
	var out []int64
	for _, h := range r.byHour {
		for _, m := range r.byMinute {
			for _, s := range r.bySecond {
				out = append(out, int64(h*3600+m*60+s))
			}
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out
}

// candidates returns the local times of a period, after BYSETPOS.
func (r *rrule) candidates(start wall, n int64, times []int64) []wall {
	from, to := r.span(start, n)
	var out []wall
	for day := from; day < to; day++ {
		if !r.matches(day) {
			continue
		}
		for _, t := range times {
			out = append(out, wall(day*86400+t))
		}
	}
	return setPos(out, r.bySetPos)
}

// setPos selects by position: from 1, or negative from the end.
func setPos[T any](all []T, pos []int) []T {
	if pos == nil {
		return all
	}
	var out []T
	for i := range all {
		if slices.Contains(pos, i+1) || slices.Contains(pos, i-len(all)) {
			out = append(out, all[i])
		}
	}
	return out
}
