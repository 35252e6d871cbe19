package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// cronRule is a cron expression: sets of minutes, hours and months, and the permitted days.
type cronRule struct {
	minutes, hours, months []bool
	days, weekdays         []func(y, m, d int) bool // alternatives
	anyDay, anyWeekday     bool                     // the field is no restriction
	// minute or hour begins with *: the rule matches instants, not local times
	live bool
}

var cronNames = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
	"@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

var (
	cronMonths = []string{"", "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}
	cronDays   = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}
)

func parseCron(s string) (*cronRule, error) {
	s = strings.TrimSpace(s)
	if long, ok := cronNames[strings.ToLower(s)]; ok {
		s = long
	}
	fields := strings.Fields(s)
	if len(fields) != 5 {
		return nil, fmt.Errorf("%w: cron %q", errRule, s)
	}
	c := &cronRule{
		live: fields[0][0] == '*' || fields[1][0] == '*', anyDay: unrestricted(fields[2]),
		anyWeekday: unrestricted(fields[4]),
	}
	var err error
	if c.minutes, err = cronSet(fields[0], 0, 59, nil); err != nil {
		return nil, err
	}
	if c.hours, err = cronSet(fields[1], 0, 23, nil); err != nil {
		return nil, err
	}
	if c.months, err = cronSet(fields[3], 1, 12, cronMonths); err != nil {
		return nil, err
	}
	for _, item := range strings.Split(fields[2], ",") {
		f, err := cronDay(strings.ToUpper(item))
		if err != nil {
			return nil, err
		}
		c.days = append(c.days, f)
	}
	for _, item := range strings.Split(fields[4], ",") {
		f, err := cronWeekday(strings.ToUpper(item))
		if err != nil {
			return nil, err
		}
		c.weekdays = append(c.weekdays, f)
	}
	return c, nil
}

// unrestricted reports whether a field begins with a star. Such a field does not count as a
// restriction of days (Vixie cron), although */2 does restrict.
func unrestricted(field string) bool { return field[0] == '*' || field == "?" }

// cronSet parses a list of numbers, ranges and steps.
func cronSet(field string, lo, hi int, names []string) ([]bool, error) {
	set := make([]bool, hi+1)
	for _, item := range strings.Split(field, ",") {
		from, to, step, err := cronRange(item, lo, hi, names)
		if err != nil {
			return nil, err
		}
		for n := from; n <= to; n += step {
			set[n] = true
		}
	}
	return set, nil
}

func cronRange(item string, lo, hi int, names []string) (from, to, step int, err error) {
	body, by, stepped := strings.Cut(item, "/")
	step = 1
	if stepped {
		if step, err = strconv.Atoi(by); err != nil || step < 1 {
			return 0, 0, 0, fmt.Errorf("%w: cron %q", errRule, item)
		}
	}
	if body == "*" || body == "?" {
		return lo, hi, step, nil
	}
	a, b, ranged := strings.Cut(body, "-")
	from, ok := cronNumber(a, names)
	to = from
	if ranged {
		var ok2 bool
		to, ok2 = cronNumber(b, names)
		ok = ok && ok2
	} else if stepped {
		to = hi
	}
	if !ok || from < lo || to > hi || from > to {
		return 0, 0, 0, fmt.Errorf("%w: cron %q", errRule, item)
	}
	return from, to, step, nil
}

func cronNumber(s string, names []string) (int, bool) {
	if i := slices.Index(names, strings.ToUpper(s)); s != "" && i >= 0 {
		return i, true
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// cronDay parses one item of day-of-month: L, LW, nW, or an item of a set.
func cronDay(item string) (func(y, m, d int) bool, error) {
	switch {
	case item == "L":
		return func(y, m, d int) bool { return d == daysIn(y, m) }, nil
	case item == "LW":
		return func(y, m, d int) bool { return d == nearestWeekday(y, m, daysIn(y, m)) }, nil
	case strings.HasSuffix(item, "W"):
		n, err := strconv.Atoi(item[:len(item)-1])
		if err != nil {
			return nil, fmt.Errorf("%w: cron %q", errRule, item)
		}
		return func(y, m, d int) bool { return n <= daysIn(y, m) && d == nearestWeekday(y, m, n) }, nil
	}
	set, err := cronSet(item, 1, 31, nil)
	if err != nil {
		return nil, err
	}
	return func(_, _, d int) bool { return set[d] }, nil
}

// nearestWeekday returns the day from Monday to Friday that is nearest to d in its month.
func nearestWeekday(y, m, d int) int {
	switch weekdayOf(dayNumber(y, m, d)) {
	case 6:
		if d == 1 {
			return 3
		}
		return d - 1
	case 0:
		if d == daysIn(y, m) {
			return d - 2
		}
		return d + 1
	}
	return d
}

// cronWeekday parses one item of day-of-week: d#n, dL, or an item of a set. 7 is Sunday.
func cronWeekday(item string) (func(y, m, d int) bool, error) {
	if day, nth, ok := strings.Cut(item, "#"); ok {
		wd, ok1 := cronNumber(day, cronDays)
		n, err := strconv.Atoi(nth)
		if !ok1 || err != nil {
			return nil, fmt.Errorf("%w: cron %q", errRule, item)
		}
		return func(y, m, d int) bool { return weekdayOf(dayNumber(y, m, d)) == wd%7 && (d-1)/7+1 == n }, nil
	}
	if day, ok := strings.CutSuffix(item, "L"); ok && day != "" {
		wd, ok1 := cronNumber(day, cronDays)
		if !ok1 {
			return nil, fmt.Errorf("%w: cron %q", errRule, item)
		}
		return func(y, m, d int) bool { return weekdayOf(dayNumber(y, m, d)) == wd%7 && d+7 > daysIn(y, m) }, nil
	}
	hi := 7
	if strings.HasPrefix(item, "*") || strings.HasPrefix(item, "?") || strings.Contains(item, "/") &&
		!strings.Contains(item, "-") {
		hi = 6 // one week only: 7 would be Sunday a second time
	}
	set, err := cronSet(item, 0, hi, cronDays)
	if err != nil {
		return nil, err
	}
	set = append(set, false)
	return func(y, m, d int) bool {
		wd := weekdayOf(dayNumber(y, m, d))
		return set[wd] || wd == 0 && set[7]
	}, nil
}

// matches reports whether a date matches. If both day of month and day of week restrict, one of
// them must match.
func (c *cronRule) matches(day int64) bool {
	y, m, d := civil(day)
	if !c.months[m] {
		return false
	}
	fits := func(all []func(y, m, d int) bool) bool {
		for _, f := range all {
			if f(y, m, d) {
				return true
			}
		}
		return false
	}
	if !c.anyDay && !c.anyWeekday {
		return fits(c.days) || fits(c.weekdays)
	}
	return fits(c.days) && fits(c.weekdays)
}

// times returns the times of day, in seconds, ascending.
func (c *cronRule) times() (out []int64) {
	for h, in := range c.hours {
		for m, also := range c.minutes {
			if in && also {
				out = append(out, int64(h*3600+m*60))
			}
		}
	}
	return out
}
