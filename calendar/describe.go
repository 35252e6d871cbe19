package calendar

import (
	"fmt"
	"strings"
)

// Describe says the rule in plain words: "every month on the last Friday at
// 09:00, New York time". It is for people, who check it against what they
// meant; nothing may parse it. Rules without a short wording are described by
// their parts.
func (r *Rule) Describe() string {
	switch {
	case r.source.cron != nil:
		return r.source.cron.describe() + r.zoneWords()
	case r.source.rule != nil:
		return r.source.rule.describe(r) + r.endWords() + r.zoneWords()
	case r.kind == onInterval:
		return "every " + longDuration(r.step) + r.endWords()
	}
	return fmt.Sprintf("on %d given dates", len(r.include)) + r.zoneWords()
}

func (r *Rule) zoneWords() string {
	if r.zone.name == "UTC" || r.zone.name == "Etc/UTC" {
		return ", UTC"
	}
	city := r.zone.name[strings.LastIndexByte(r.zone.name, '/')+1:]
	return ", " + strings.ReplaceAll(city, "_", " ") + " time"
}

func (r *Rule) endWords() string {
	switch {
	case r.source.rule != nil && r.source.rule.count == 1:
		return ", once"
	case r.source.rule != nil && r.source.rule.count > 1:
		return fmt.Sprintf(", %d times", r.source.rule.count)
	case r.source.rule != nil && r.source.rule.until.kind == isWall:
		return ", until " + r.source.rule.until.wall.String()
	case r.source.rule != nil && r.source.rule.until.kind == isAt:
		return ", until " + utcString(r.source.rule.until.at)
	}
	return ""
}

var unitWords = []string{"second", "minute", "hour", "day", "week", "month", "year"}

func (p *recurRule) describe(r *Rule) string {
	var b strings.Builder
	b.WriteString("every ")
	if p.interval > 1 {
		fmt.Fprintf(&b, "%d %ss", p.interval, unitWords[p.freq])
	} else {
		b.WriteString(unitWords[p.freq])
	}
	q := *p
	if p.freq >= daily {
		q.anchor(r.startWall)
	}
	if words := q.dayWords(); words != "" {
		b.WriteString(" on " + words)
	}
	if q.byMonth != nil {
		b.WriteString(" in " + join(q.byMonth, func(m int) string { return monthWords[m] }))
	}
	if q.byWeekNo != nil {
		b.WriteString(" in week " + join(q.byWeekNo, func(n int) string { return fmt.Sprint(n) }))
	}
	b.WriteString(q.timeWords())
	return b.String()
}

// dayWords words the BY parts that select days, and BYSETPOS over them.
func (p *recurRule) dayWords() string {
	var parts []string
	switch {
	case p.pos != nil && p.isWeekdays():
		return "the " + join(p.pos, ordinal) + " weekday"
	case p.isWeekdays():
		parts = append(parts, "weekdays")
	case p.byDay != nil:
		parts = append(parts, join(p.byDay, weekdayNum.words))
	}
	if p.byMonthDay != nil {
		parts = append(parts, "the "+join(p.byMonthDay, ordinal)+lastDaySuffix(p.byMonthDay))
	}
	if p.byYearDay != nil {
		parts = append(parts, "the "+join(p.byYearDay, ordinal)+" day of the year")
	}
	words := strings.Join(parts, " that is also ")
	if p.pos != nil {
		words = "the " + join(p.pos, ordinal) + " of: " + words
	}
	return words
}

func lastDaySuffix(list []int) string {
	if list[0] < 0 {
		return " day of the month"
	}
	return ""
}

func (p *recurRule) isWeekdays() bool {
	if len(p.byDay) != 5 {
		return false
	}
	for i, d := range p.byDay {
		if d.n != 0 || d.day != i+1 {
			return false
		}
	}
	return true
}

func (d weekdayNum) words() string {
	if d.n == 0 {
		return dayWords[d.day]
	}
	return "the " + ordinal(d.n) + " " + dayWords[d.day]
}

// timeWords lists the times of day if there are few; sub-daily parts are
// named as what they are.
func (p *recurRule) timeWords() string {
	if p.freq >= daily {
		return " at " + timesOf(p).words()
	}
	s := ""
	if p.byHour != nil {
		s += " in the hours " + join(p.byHour, func(h int) string { return fmt.Sprint(h) })
	}
	if p.byMinute != nil {
		s += " at the minutes " + join(p.byMinute, func(m int) string { return fmt.Sprint(m) })
	}
	if p.bySecond != nil {
		s += " at the seconds " + join(p.bySecond, func(m int) string { return fmt.Sprint(m) })
	}
	return s
}

func (t timeSet) words() string {
	n := t.count()
	var list []int
	for k := range min(n, 4) {
		list = append(list, t.at(k))
	}
	s := join(list, func(tod int) string {
		if tod%60 != 0 {
			return fmt.Sprintf("%02d:%02d:%02d", tod/3600, tod/60%60, tod%60)
		}
		return fmt.Sprintf("%02d:%02d", tod/3600, tod/60%60)
	})
	if n > 4 {
		return fmt.Sprintf("%s and %d more times", strings.ReplaceAll(s, " and ", ", "), n-4)
	}
	return s
}

func (c *cronExpr) describe() string {
	var b strings.Builder
	switch minutes, hours := popcount(c.times.minutes), popcount(c.times.hours); {
	case minutes == 60 && hours == 24:
		b.WriteString("every minute")
	case hours == 24:
		fmt.Fprintf(&b, "every hour at minute %s", join(bitList(c.times.minutes),
			func(m int) string { return fmt.Sprint(m) }))
	default:
		b.WriteString("at " + c.times.words())
	}
	var days []string
	if !c.domStar {
		days = append(days, c.dom.words()...)
	}
	if !c.dowStar {
		days = append(days, c.dow.words()...)
	}
	if len(days) > 0 {
		b.WriteString(" on " + strings.Join(days, " or "))
	}
	if popcount(c.months) < 12 {
		b.WriteString(" in " + join(bitList(c.months), func(m int) string { return monthWords[m] }))
	}
	return b.String()
}

func (f *cronDays) words() (words []string) {
	if f.days != 0 {
		words = append(words, "the "+join(bitList(f.days), ordinal))
	}
	for _, d := range bitList(f.nearest) {
		words = append(words, "the weekday nearest the "+ordinal(d))
	}
	if f.last {
		words = append(words, "the last day of the month")
	}
	if f.lastWeekday {
		words = append(words, "the last weekday of the month")
	}
	return words
}

func (f *cronWeekdays) words() (words []string) {
	if f.days != 0 {
		words = append(words, join(bitList(f.days), func(d int) string { return dayWords[d] }))
	}
	for d, nth := range f.nth {
		for _, n := range bitList(nth) {
			words = append(words, weekdayNum{n, d}.words())
		}
	}
	for _, d := range bitList(f.last) {
		words = append(words, weekdayNum{-1, d}.words())
	}
	return words
}

var (
	monthWords = []string{
		"", "January", "February", "March", "April", "May", "June", "July", "August", "September",
		"October", "November", "December",
	}
	dayWords = []string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}
)

// ordinal says 1st, 2nd, last, 2nd to last.
func ordinal(n int) string {
	switch {
	case n == -1:
		return "last"
	case n < 0:
		return ordinal(-n) + " to last"
	case n%100/10 == 1:
		return fmt.Sprintf("%dth", n)
	case n%10 >= 1 && n%10 <= 3:
		return fmt.Sprintf("%d%s", n, []string{"st", "nd", "rd"}[n%10-1])
	}
	return fmt.Sprintf("%dth", n)
}

func longDuration(ms int64) string {
	for _, u := range []struct {
		ms   int64
		name string
	}{{7 * msPerDay, "week"}, {msPerDay, "day"}, {3_600_000, "hour"}, {60_000, "minute"}, {1000, "second"}} {
		switch {
		case ms == u.ms:
			return u.name
		case ms%u.ms == 0:
			return fmt.Sprintf("%d %ss", ms/u.ms, u.name)
		}
	}
	return fmt.Sprintf("%d ms", ms)
}

func bitList(mask uint64) (list []int) {
	for b := range 64 {
		if mask>>b&1 != 0 {
			list = append(list, b)
		}
	}
	return list
}

// join lists words as people do: a, b and c.
func join[T any](list []T, word func(T) string) string {
	var b strings.Builder
	for i, v := range list {
		switch {
		case i > 0 && i == len(list)-1:
			b.WriteString(" and ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(word(v))
	}
	return b.String()
}
