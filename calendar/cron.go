package calendar

import (
	"slices"
	"strconv"
	"strings"
)

// cronExpr is a five-field cron expression: minute, hour, day of month,
// month, day of week.
//
// It is Vixie cron's language: lists, ranges, steps, names in any case, 7 for
// Sunday, `@daily` and its kin; and, from Quartz, L, LW, nW in the day of the
// month and d#n, dL in the day of the week. N/step means N-last/step; `?` in a
// day field means `*`.
//
// A field that starts with * counts as unrestricted, steps included, as in
// Vixie cron and in the contract's rule for minutes and hours: `*/2` in the
// day of the month beside `1` in the day of the week means the Mondays with
// an odd date. Otherwise two restricted day fields are joined by OR.
type cronExpr struct {
	times            timeSet
	real             bool   // minute or hour starts with *: matched on the real timeline
	months           uint64 // bit 1 = January
	dom              cronDays
	dow              cronWeekdays
	domStar, dowStar bool
}

// cronDays is the third field.
type cronDays struct {
	days        uint64 // bit 1 = the 1st
	nearest     uint64 // bit n: nW, the weekday nearest the nth
	last        bool   // L
	lastWeekday bool   // LW
}

// cronWeekdays is the fifth field.
type cronWeekdays struct {
	days uint64    // bit 0 = Sunday
	nth  [7]uint64 // by weekday: bit n for d#n
	last uint64    // bit d: dL, the last such weekday of the month
}

var cronMacros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
	"@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// parseCron reads what follows "cron:".
func parseCron(text string) (*cronExpr, error) {
	p := cronParser{text: text}
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "@") {
		expr, ok := cronMacros[strings.ToLower(text)]
		if !ok {
			return nil, p.badMacro(text)
		}
		text = expr
	}
	if u := strings.ToUpper(text); strings.HasPrefix(u, "CRON_TZ=") || strings.HasPrefix(u, "TZ=") {
		return nil, p.bad("a zone inside cron is not supported; use the field timezone")
	}
	f := strings.Fields(text)
	switch {
	case len(f) == 6 || len(f) == 7:
		return nil, p.bad("cron has %d fields; write 5 (minute hour day month weekday), without seconds, year or command", len(f))
	case len(f) != 5:
		return nil, p.bad("cron has %d fields; write 5: minute hour day-of-month month day-of-week, as in 0 9 * * 1-5", len(f))
	}
	c := &cronExpr{}
	c.real = f[0][0] == '*' || f[1][0] == '*'
	c.domStar = f[2][0] == '*' || f[2][0] == '?'
	c.dowStar = f[4][0] == '*' || f[4][0] == '?'
	c.times.seconds = 1
	c.times.minutes = p.simple(cronMinute, f[0])
	c.times.hours = p.simple(cronHour, f[1])
	p.daysOfMonth(&c.dom, f[2])
	c.months = p.simple(cronMonth, f[3])
	p.daysOfWeek(&c.dow, f[4])
	if p.err != nil {
		return nil, p.err
	}
	return c, nil
}

type cronField struct {
	name   string
	lo, hi int
	last   int // where N/step ends
	names  []string
}

var (
	cronMinute  = cronField{name: "minute", hi: 59, last: 59}
	cronHour    = cronField{name: "hour", hi: 23, last: 23}
	cronDay     = cronField{name: "day of month", lo: 1, hi: 31, last: 31}
	cronMonth   = cronField{name: "month", lo: 1, hi: 12, last: 12, names: []string{"", "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}}
	cronWeekday = cronField{name: "day of week", hi: 7, last: 6, names: []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}}
)

// cronParser keeps the first error, so that the fields read straight down.
type cronParser struct {
	text string
	err  error
}

func (p *cronParser) bad(format string, args ...any) error {
	if p.err == nil {
		p.err = fail(CodeInvalidRule, "recurrence", format, args...)
	}
	return p.err
}

func (p *cronParser) badMacro(text string) error {
	switch lower := strings.ToLower(text); {
	case lower == "@reboot":
		return p.bad("@reboot has no time; a trigger fires at instants")
	case strings.HasPrefix(lower, "@every"):
		return p.bad("%s: write every:%s, without cron:", clip(text), strings.TrimSpace(text[6:]))
	}
	known := make([]string, 0, len(cronMacros))
	for k := range cronMacros {
		known = append(known, k)
	}
	slices.Sort(known)
	return p.bad("%s is not known%s", clip(text), didYouMean(text, known))
}

func (p *cronParser) badItem(f cronField, item, why string) {
	p.bad("cron %s: %s %s", f.name, clip(item), why)
}

// simple reads a field of plain items: *, n, a-b, each with /step, in a list.
func (p *cronParser) simple(f cronField, text string) (mask uint64) {
	for _, item := range strings.Split(text, ",") {
		mask |= p.item(f, item)
	}
	return mask
}

func (p *cronParser) item(f cronField, item string) (mask uint64) {
	body, stepText, stepped := strings.Cut(item, "/")
	step := 1
	if stepped {
		n, ok := digits(stepText)
		if !ok || n < 1 || len(stepText) > 4 {
			p.badItem(f, item, "has no step from 1")
			return 0
		}
		step = n
	}
	lo, hi := f.lo, f.last
	if body != "*" {
		a, b, isRange := strings.Cut(body, "-")
		lo = p.value(f, item, a)
		switch {
		case isRange:
			hi = p.value(f, item, b)
			if hi == 0 && lo > 0 && f.hi == 7 && strings.EqualFold(b, "SUN") {
				hi = 7
			}
		case !stepped:
			hi = lo
		}
		if lo > hi && p.err == nil {
			p.badItem(f, item, "runs backwards; write it as two ranges")
		}
	}
	for v := lo; v <= hi && p.err == nil; v += step {
		mask |= 1 << v
	}
	if f.hi == 7 { // 7 is Sunday
		mask = mask&0x7f | mask>>7&1
	}
	return mask
}

func (p *cronParser) value(f cronField, item, s string) int {
	if i := slices.Index(f.names, strings.ToUpper(s)); i >= 0 && s != "" {
		return i
	}
	n, ok := digits(s)
	switch {
	case !ok && f.names != nil:
		p.badItem(f, item, "is neither a number nor a name"+didYouMean(s, f.names))
	case !ok:
		p.badItem(f, item, "is not a number")
	case len(s) > 4 || n < f.lo || n > f.hi:
		p.badItem(f, item, "is out of range "+strconv.Itoa(f.lo)+"-"+strconv.Itoa(f.hi))
	}
	return n
}

func (p *cronParser) daysOfMonth(d *cronDays, text string) {
	if text == "?" {
		text = "*"
	}
	for _, item := range strings.Split(text, ",") {
		switch u := strings.ToUpper(item); {
		case u == "L":
			d.last = true
		case u == "LW" || u == "WL":
			d.lastWeekday = true
		case strings.HasSuffix(u, "W"):
			d.nearest |= 1 << p.value(cronDay, item, u[:len(u)-1])
		default:
			d.days |= p.item(cronDay, item)
		}
	}
}

func (p *cronParser) daysOfWeek(d *cronWeekdays, text string) {
	if text == "?" {
		text = "*"
	}
	for _, item := range strings.Split(text, ",") {
		u := strings.ToUpper(item)
		day, nth, hash := strings.Cut(u, "#")
		switch {
		case hash:
			n, ok := digits(nth)
			if !ok || n < 1 || n > 5 {
				p.badItem(cronWeekday, item, "needs a number from 1 to 5 behind #")
				return
			}
			d.nth[p.value(cronWeekday, item, day)%7] |= 1 << n
		case u == "L":
			p.badItem(cronWeekday, item, "is read as Saturday by some; write 6, or 5L for the last Friday")
		case strings.HasSuffix(u, "L"):
			d.last |= 1 << (p.value(cronWeekday, item, u[:len(u)-1]) % 7)
		default:
			d.days |= p.item(cronWeekday, item)
		}
	}
}

// daySet is the expression's dates. Expressions without day fields, and plain
// weekdays, need no map of the year.
func (c *cronExpr) daySet() *daySet {
	s := &daySet{weekdays: 0x7f, freq: daily, interval: 1}
	plain := c.months == 1<<13-2 && c.dom.days == 1<<32-2 && c.dow.nth == [7]uint64{} && c.dow.last == 0
	switch {
	case !plain:
		s.filler = c
	case c.domStar || c.dowStar:
		s.weekdays = uint8(c.dow.days)
	}
	return s
}

// fill marks the days of a year that match (yearFiller).
func (c *cronExpr) fill(jan1 int, leap bool) (m yearMap, err error) {
	year := 2001
	if leap {
		year = 2000
	}
	doy := 0
	for month := 1; month <= 12; month++ {
		last := daysInMonth(year, month)
		for d := 1; d <= last; d++ {
			if c.months>>month&1 != 0 && c.matches(d, last, (jan1+doy)%7) {
				m.set(doy)
			}
			doy++
		}
	}
	return m, nil
}

// matches decides on the dth day of a month of `last` days, a given weekday.
func (c *cronExpr) matches(d, last, weekday int) bool {
	inMonth := c.dom.has(d, last, weekday)
	inWeek := c.dow.has(d, last, weekday)
	if c.domStar || c.dowStar {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}

func (f *cronDays) has(d, last, weekday int) bool {
	switch {
	case f.days>>d&1 != 0, f.last && d == last:
		return true
	case weekday == 0 || weekday == 6:
		return false
	case f.lastWeekday && (d == last || weekday == 5 && last-d <= 2):
		return true
	}
	return f.nearest != 0 && f.nearestHas(d, last, weekday)
}

// nearestHas tells whether the weekday d stands in for an nW: for itself, for
// the Saturday after or the Sunday before it, and, as nW never leaves its
// month, for a Saturday the 1st two days before it and for a last Sunday two
// days after it.
func (f *cronDays) nearestHas(d, last, weekday int) bool {
	w := f.nearest
	return w>>d&1 != 0 ||
		weekday == 5 && d+1 <= last && w>>(d+1)&1 != 0 ||
		weekday == 1 && w>>(d-1)&1 != 0 && d > 1 ||
		weekday == 1 && d == 3 && w>>1&1 != 0 ||
		weekday == 5 && d+2 == last && w>>last&1 != 0
}

func (f *cronWeekdays) has(d, last, weekday int) bool {
	return f.days>>weekday&1 != 0 ||
		f.nth[weekday]>>((d+6)/7)&1 != 0 ||
		f.last>>weekday&1 != 0 && d+7 > last
}
