package calendar

import (
	"slices"
	"strconv"
	"strings"

	"github.com/waterclock/waterclock/internal/near"
)

type frequency uint8

const (
	secondly frequency = iota
	minutely
	hourly
	daily
	weekly
	monthly
	yearly
)

var frequencyNames = []string{"SECONDLY", "MINUTELY", "HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY"}

func (f frequency) String() string { return frequencyNames[f] }

// unit is the length of one period of f in seconds; for months and years the
// longest.
func (f frequency) unit() int64 {
	return [...]int64{1, 60, 3600, 86400, 7 * 86400, 31 * 86400, 366 * 86400}[f]
}

// weekdayNum is one item of BYDAY: the nth such weekday of the month or year,
// from the end if negative; n = 0 means every one.
type weekdayNum struct{ n, day int }

var weekdayNames = []string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}

// recurRule is a recurrence rule as written (RFC 5545 §3.3.10), before DTSTART
// fills in what it leaves open. Lists are sorted and free of duplicates.
type recurRule struct {
	freq     frequency
	interval int
	count    int  // 0: none
	until    when // isNothing: none
	wkst     int

	bySecond, byMinute, byHour           []int
	byDay                                []weekdayNum
	byMonthDay, byYearDay, byWeekNo, pos []int
	byMonth                              []int

	at map[string]int // offsets of the values, for the messages of check
}

// rulePart says how one part of a rule is read. The parts are listed as
// RFC 5545 §3.3.10 lists them.
type rulePart struct {
	name string
	read func(r *recurRule, p *ruleParser, v string) error
}

var ruleParts []rulePart

func init() { // a variable initialiser would refer to itself through the messages
	ruleParts = []rulePart{
		{"FREQ", readFreq},
		{"UNTIL", readUntil},
		{"COUNT", func(r *recurRule, p *ruleParser, v string) error { return p.number(&r.count, v) }},
		{"INTERVAL", func(r *recurRule, p *ruleParser, v string) error { return p.number(&r.interval, v) }},
		{"BYSECOND", func(r *recurRule, p *ruleParser, v string) error { return p.list(&r.bySecond, v, 0, 59, false) }},
		{"BYMINUTE", func(r *recurRule, p *ruleParser, v string) error { return p.list(&r.byMinute, v, 0, 59, false) }},
		{"BYHOUR", func(r *recurRule, p *ruleParser, v string) error { return p.list(&r.byHour, v, 0, 23, false) }},
		{"BYDAY", readByDay},
		{"BYMONTHDAY", func(r *recurRule, p *ruleParser, v string) error {
			return p.list(&r.byMonthDay, v, 1, 31,
				true)
		}},
		{"BYYEARDAY", func(r *recurRule, p *ruleParser, v string) error {
			return p.list(&r.byYearDay, v, 1, 366,
				true)
		}},
		{"BYWEEKNO", func(r *recurRule, p *ruleParser, v string) error { return p.list(&r.byWeekNo, v, 1, 53, true) }},
		{"BYMONTH", func(r *recurRule, p *ruleParser, v string) error { return p.list(&r.byMonth, v, 1, 12, false) }},
		{"BYSETPOS", func(r *recurRule, p *ruleParser, v string) error { return p.list(&r.pos, v, 1, 366, true) }},
		{"WKST", readWkst},
		{"BYEASTER", readByEaster},
	}
}

// ruleParser carries what a message needs: where in the text we are.
type ruleParser struct {
	text string
	part string // name of the part being read
	at   int    // byte offset of its value
}

func (p *ruleParser) bad(format string, args ...any) error {
	return failAt(CodeInvalidRule, "recurrence", p.at, p.part+" "+format, args...)
}

// parseRRule reads "RRULE:FREQ=…" or "FREQ=…" in any case. Each part may
// stand once; X- parts, RSCALE and SKIP are refused by name, since leaving
// them out would change the meaning silently.
func parseRRule(text string) (*recurRule, error) {
	p := &ruleParser{text: text, part: "EXRULE", at: len(text) - len(strings.TrimLeft(text, " \t"))}
	body := text[p.at:]
	if len(body) >= 6 && strings.EqualFold(body[:6], "RRULE:") {
		p.at += 6
		body = body[6:]
	}
	body = strings.TrimRight(body, " \t\r\n")
	if i := strings.IndexAny(body, "\r\n"); i >= 0 {
		return nil, failAt(CodeInvalidRule, "recurrence", p.at+i,
			"has more than one line; put DTSTART into start, RDATE into include and EXDATE into exclude")
	}
	if len(body) >= 7 && strings.EqualFold(body[:7], "EXRULE:") {
		return nil, p.bad("is not supported; list the dates in exclude")
	}
	r := &recurRule{freq: 255, interval: 1, wkst: 1, at: map[string]int{}}
	if err := p.parts(r, strings.TrimSuffix(body, ";")); err != nil {
		return nil, err
	}
	if r.freq == 255 {
		return nil, fail(CodeInvalidRule, "recurrence",
			"%s has no FREQ; write FREQ=DAILY, a cron: expression or every:15m", clip(text))
	}
	return r, nil
}

func (p *ruleParser) parts(r *recurRule, body string) error {
	start := p.at
	for _, part := range strings.Split(body, ";") {
		name, value, ok := strings.Cut(part, "=")
		p.at = start
		p.part = strings.ToUpper(strings.TrimSpace(name))
		if !ok {
			return failAt(CodeInvalidRule, "recurrence", p.at,
				"%s is no rule part; write NAME=VALUE, as in FREQ=DAILY;INTERVAL=2", clip(part))
		}
		i := slices.IndexFunc(ruleParts, func(k rulePart) bool { return k.name == p.part })
		if i < 0 {
			return p.unknownPart()
		}
		if _, seen := r.at[p.part]; seen {
			return p.bad("stands twice; once is allowed")
		}
		p.at += len(name) + 1
		r.at[p.part] = p.at
		if err := ruleParts[i].read(r, p, strings.ToUpper(strings.TrimSpace(value))); err != nil {
			return err
		}
		start += len(part) + 1
	}
	return nil
}

func (p *ruleParser) unknownPart() error {
	switch {
	case p.part == "RSCALE" || p.part == "SKIP":
		return failAt(CodeInvalidRule, "recurrence", p.at,
			"%s (RFC 7529) is not supported; for the last day of a month write BYMONTHDAY=-1", p.part)
	case strings.HasPrefix(p.part, "DTSTART") || p.part == "TZID":
		return failAt(CodeInvalidRule, "recurrence", p.at, "%s is no part of a rule; use the fields start and timezone",
			p.part)
	case strings.HasPrefix(p.part, "RDATE") || strings.HasPrefix(p.part, "EXDATE"):
		return failAt(CodeInvalidRule, "recurrence", p.at,
			"%s is no part of a rule; use the fields include and exclude", p.part)
	}
	known := make([]string, len(ruleParts))
	for i, k := range ruleParts {
		known[i] = k.name
	}
	return failAt(CodeInvalidRule, "recurrence", p.at, "%s is not a rule part%s", clip(p.part),
		orElse(near.Hint(p.part, known), "; write one of "+strings.Join(known[:len(known)-1], ", ")))
}

func readFreq(r *recurRule, p *ruleParser, v string) error {
	i := slices.Index(frequencyNames, v)
	if i < 0 {
		if strings.ContainsAny(v, " ,") {
			return p.bad("is %s; parts are separated by ;", clip(v))
		}
		return p.bad("is %s%s", clip(v), orElse(near.Hint(v, frequencyNames),
			"; write YEARLY, MONTHLY, WEEKLY, DAILY, HOURLY, MINUTELY or SECONDLY"))
	}
	r.freq = frequency(i)
	return nil
}

// readUntil refuses a bare date: whether that day still counts is read both
// ways. 20261231T235959Z is an instant, 20261231T235959 a wall time.
func readUntil(r *recurRule, p *ruleParser, v string) error {
	if strings.Contains(v, "-") { // ISO spelling, as in the field `until`
		w, err := parseWhen(v)
		if err == nil && w.kind != isDay {
			r.until = w
			return nil
		}
	}
	body, zulu := strings.CutSuffix(v, "Z")
	if _, ok := digits(body); ok && len(body) == 8 {
		return p.bad("is the bare date %s; write UNTIL=%sT235959 for all of that day", clip(v), body)
	}
	if len(body) != 15 || body[8] != 'T' {
		return p.bad("is %s; write UNTIL=20261231T235959 or UNTIL=20261231T235959Z", clip(v))
	}
	w, err := ParseWall(body[:4] + "-" + body[4:6] + "-" + body[6:11] + ":" + body[11:13] + ":" + body[13:15])
	if err != nil {
		return p.bad("is %s, which is no date-time", clip(v))
	}
	r.until = when{kind: isWall, wall: w}
	if zulu {
		r.until = when{kind: isAt, at: int64(w)}
	}
	return nil
}

func readByDay(r *recurRule, p *ruleParser, v string) error {
	for _, item := range strings.Split(v, ",") {
		item = strings.TrimSpace(item)
		i := 0
		for i < len(item) && (item[i] >= '0' && item[i] <= '9' || i == 0 && (item[i] == '+' || item[i] == '-')) {
			i++
		}
		d := slices.Index(weekdayNames, item[i:])
		if d < 0 {
			return p.bad("has %s%s", clip(item), didYouMeanDay(item[i:]))
		}
		n := 0
		if i > 0 {
			var err error
			if n, err = strconv.Atoi(item[:i]); err != nil || n == 0 || n < -53 || n > 53 {
				return p.bad("has %s; the number is 1 to 53, or -1 to -53 from the end", clip(item))
			}
		}
		r.byDay = append(r.byDay, weekdayNum{n, d})
	}
	slices.SortFunc(r.byDay, func(a, b weekdayNum) int { return (a.n-b.n)*7 + a.day - b.day })
	r.byDay = slices.Compact(r.byDay)
	return nil
}

func didYouMeanDay(s string) string {
	if len(s) >= 2 && slices.Contains(weekdayNames, s[:2]) {
		return "; did you mean " + s[:2] + "?"
	}
	return "; write MO, TU, WE, TH, FR, SA or SU, with a number as in 2MO or -1FR"
}

func readWkst(r *recurRule, p *ruleParser, v string) error {
	d := slices.Index(weekdayNames, v)
	if d < 0 {
		return p.bad("is %s%s", clip(v), didYouMeanDay(v))
	}
	r.wkst = d
	return nil
}

func readByEaster(_ *recurRule, p *ruleParser, _ string) error {
	return failAt(CodeDisputedRule, "recurrence", p.at,
		"BYEASTER is in no standard and implementations differ; list the dates in include")
}

// number reads a positive integer. Its bounds are the caller's limits.
func (p *ruleParser) number(to *int, v string) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || v[0] == '+' {
		return p.bad("is %s; write a whole number from 1", clip(v))
	}
	*to = n
	return nil
}

// list reads numbers from lo to hi; with signed also -hi to -lo, which count
// from the end, and a plus sign.
func (p *ruleParser) list(to *[]int, v string, lo, hi int, signed bool) error {
	for _, item := range strings.Split(v, ",") {
		item = strings.TrimSpace(item)
		n, err := strconv.Atoi(item)
		ok := err == nil && (n >= lo && n <= hi || signed && -n >= lo && -n <= hi)
		if !ok || item[0] == '+' && !signed {
			if signed {
				return p.bad("has %s; allowed are %d to %d, and -%d to -%d from the end", clip(item), lo, hi, lo, hi)
			}
			return p.bad("has %s; allowed are %d to %d", clip(item), lo, hi)
		}
		*to = append(*to, n)
	}
	slices.Sort(*to)
	*to = slices.Compact(*to)
	return nil
}
