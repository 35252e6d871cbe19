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

// parseCron reads what follows "cron:". base is where it stands in the field,
// for messages.
func parseCron(text string, base int) (*cronExpr, error) {
	p := cronParser{base: base, text: text}
	f := cronWords(text)
	if len(f) == 1 && f[0].text[0] == '@' {
		expr, ok := cronMacros[strings.ToLower(f[0].text)]
		if !ok {
			return nil, p.badMacro(f[0])
		}
		f = cronWords(expr)
	}
	if len(f) != 5 || strings.ContainsAny(f[0].text, "@#=") {
		return nil, p.badShape(f)
	}
	c := &cronExpr{}
	c.real = f[0].text[0] == '*' || f[1].text[0] == '*'
	c.domStar = f[2].text[0] == '*' || f[2].text[0] == '?'
	c.dowStar = f[4].text[0] == '*' || f[4].text[0] == '?'
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

// cronWord is one field and its offset in the text.
type cronWord struct {
	text string
	at   int
}

func cronWords(text string) (words []cronWord) {
	at := 0
	for _, w := range strings.Fields(text) {
		at += strings.Index(text[at:], w)
		words = append(words, cronWord{w, at})
		at += len(w)
	}
	return words
}

type cronField struct {
	name   string
	lo, hi int
	last   int // where N/step ends
	names  []string
	write  string // what is right, for messages
}

var (
	cronMinute = cronField{name: "minute", hi: 59, last: 59, write: "5, 0-30, */15 or 0,30"}
	cronHour   = cronField{name: "hour", hi: 23, last: 23, write: "9, 9-17, */2 or 9,17"}
	cronDay    = cronField{name: "day of month", lo: 1, hi: 31, last: 31, write: "1, 1-7, */2, L, LW or 15W"}
	cronMonth  = cronField{
		name: "month", lo: 1, hi: 12, last: 12, write: "6, JUN, 1-6 or */3",
		names: []string{"", "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"},
	}
	cronWeekday = cronField{
		name: "day of week", hi: 7, last: 6, write: "1, MON, 1-5, MON#1 or 5L",
		names: []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"},
	}
)

// cronParser keeps the first error, so that the fields read straight down.
type cronParser struct {
	base int // where the text stands in the field recurrence
	text string
	at   int // offset of the item being read
	err  error
}

// each reads a list, one item at a time.
func (p *cronParser) each(w cronWord, read func(item string)) {
	p.at = w.at
	for _, item := range strings.Split(w.text, ",") {
		read(item)
		p.at += len(item) + 1
	}
}

// simple reads a field of plain items: *, n, a-b, each with /step, in a list.
func (p *cronParser) simple(f cronField, w cronWord) (mask uint64) {
	p.each(w, func(item string) { mask |= p.item(f, item) })
	return mask
}

func (p *cronParser) item(f cronField, item string) (mask uint64) {
	body, stepText, stepped := strings.Cut(item, "/")
	step := 1
	if stepped {
		n, ok := digits(stepText)
		if !ok || n < 1 || len(stepText) > 4 {
			p.badItem(f, item, "needs a step from 1 to 9999 behind /, as in */5")
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
			if hi == 0 && lo > 0 && f.hi == 7 { // FRI-SUN, 5-0
				hi = 7
			}
		case !stepped:
			hi = lo
		default:
			hi = max(hi, lo) // 7/2 is Sunday
		}
		if lo > hi && p.err == nil {
			p.badItem(f, item, "runs backwards; write "+forwards(f, a, b, lo, stepped))
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

// value is within the bounds of the field, also where what was written is not.
func (p *cronParser) value(f cronField, item, s string) int {
	if i := slices.Index(f.names, strings.ToUpper(s)); i >= 0 && s != "" {
		return i
	}
	n, ok := digits(s)
	switch {
	case !ok:
		p.badItem(f, item, whyNoNumber(f, item, s))
		return f.lo
	case len(s) > 4 || n < f.lo || n > f.hi:
		why := "is out of range " + strconv.Itoa(f.lo) + "-" + strconv.Itoa(f.hi)
		if f.hi == 23 && n == 24 {
			why += "; midnight is 0"
		}
		p.badItem(f, item, why)
		return f.lo // callers shift and index by it
	}
	return n
}

func (p *cronParser) daysOfMonth(d *cronDays, w cronWord) {
	if w.text == "?" {
		w.text = "*"
	}
	p.each(w, func(item string) {
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
	})
}

func (p *cronParser) daysOfWeek(d *cronWeekdays, w cronWord) {
	if w.text == "?" {
		w.text = "*"
	}
	p.each(w, func(item string) {
		u := strings.ToUpper(item)
		day, nth, hash := strings.Cut(u, "#")
		switch {
		case hash:
			n, ok := digits(nth)
			if !ok || len(nth) > 4 || n < 1 || n > 5 {
				p.badItem(cronWeekday, item, "needs a number from 1 to 5 behind #, as in MON#1")
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
	})
}
