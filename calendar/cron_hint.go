package calendar

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/waterclock/waterclock/internal/near"
)

// This file says what to write instead of a cron expression that is none:
// other dialects, and whole lines out of crontabs.

func (p *cronParser) bad(at int, format string, args ...any) error {
	if p.err == nil {
		p.err = failAt(CodeInvalidRule, "recurrence", p.base+at, format, args...)
	}
	return p.err
}

func (p *cronParser) badItem(f cronField, item, why string) {
	_ = p.bad(p.at, "cron %s: %s %s", f.name, clip(item), why)
}

func (p *cronParser) badMacro(w cronWord) error {
	if strings.EqualFold(w.text, "@reboot") {
		return p.bad(w.at, "@reboot has no time; a trigger fires at instants")
	}
	known := make([]string, 0, len(cronMacros))
	for k := range cronMacros {
		known = append(known, k)
	}
	slices.Sort(known)
	return p.bad(w.at, "%s is not known%s", clip(w.text), orElse(near.Hint(w.text, known),
		"; write "+strings.Join(known, ", ")))
}

// cronFieldLike tells a field of a longer dialect from the user or the
// command of a crontab's line.
var cronFieldLike = regexp.MustCompile(`(?i)^(SUN|MON|TUE|WED|THU|FRI|SAT|[0-9*?,/#LW-])+$`)

// badShape refuses a text that has not 5 fields.
func (p *cronParser) badShape(f []cronWord) error {
	if len(f) == 0 {
		return p.bad(0, "cron has no fields; write 5: minute hour day-of-month month day-of-week, as in 0 9 * * 1-5")
	}
	name, _, isSetting := strings.Cut(f[0].text, "=")
	switch {
	case strings.EqualFold(name, "CRON_TZ") || strings.EqualFold(name, "TZ"):
		return p.bad(f[0].at, "a zone inside cron is not supported; use the field timezone")
	case isSetting:
		return p.bad(f[0].at, "%s is a setting of a crontab, no schedule; leave the line out", clip(f[0].text))
	case f[0].text[0] == '#':
		return p.bad(f[0].at, "a comment is no schedule; leave the line out")
	case strings.EqualFold(f[0].text, "@every"):
		return p.bad(f[0].at, "write every:%s, without cron: and @", f[1].text)
	case f[0].text[0] == '@':
		return p.commandBehind(f, 1)
	case len(f) > 5 && (f[5].text[0] == '#' || !cronFieldLike.MatchString(f[5].text)):
		return p.commandBehind(f, 5)
	case len(f) > 5:
		return p.bad(f[0].at,
			"cron has %d fields; write 5 (minute hour day month weekday), without seconds, year or command", len(f))
	}
	return p.bad(f[0].at, "cron has %d fields; write 5: minute hour day-of-month month day-of-week, as in 0 9 * * 1-5",
		len(f))
}

// commandBehind refuses a line of a crontab whose schedule has n words; a
// fault in the schedule itself comes first.
func (p *cronParser) commandBehind(f []cronWord, n int) error {
	end := f[n-1].at + len(f[n-1].text)
	if _, err := parseCron(p.text[:end], p.base); err != nil {
		return err
	}
	words := make([]string, n)
	for i := range words {
		words[i] = f[i].text
	}
	return p.bad(f[n].at, "%s follows the schedule; write cron:%s, and what to do into payload", clip(p.text[f[n].at:]),
		strings.Join(words, " "))
}

// forwards spells a range that runs backwards as two.
func forwards(f cronField, a, b string, lo int, stepped bool) string {
	if stepped {
		return "it as two ranges"
	}
	name := func(i int, like string) string {
		if _, isNumber := digits(like); isNumber || f.names == nil {
			return strconv.Itoa(i)
		}
		return f.names[i]
	}
	span := func(from, to string) string {
		if strings.EqualFold(from, to) {
			return from
		}
		return from + "-" + to
	}
	head, tail := span(a, name(f.last, a)), span(name(f.lo, b), b)
	if lo > f.last { // 7-1: the Sunday is in the tail
		return tail
	}
	return head + "," + tail
}

// whyNoNumber says what is wrong with s, a value in an item.
func whyNoNumber(f cronField, item, s string) string {
	u := strings.ToUpper(item)
	days, fromEnd := digits(strings.TrimPrefix(u, "L-"))
	switch {
	case item == "":
		return "is empty; write " + f.write
	case u[0] == 'H' || strings.Contains(u, "~"):
		return "means some time; write a number, and spread with jitter"
	case u == "?":
		return "stands for a day only; write *"
	case f.name == cronDay.name && strings.HasPrefix(u, "L-") && fromEnd && days < 31:
		return "is not cron; write FREQ=MONTHLY;BYMONTHDAY=-" + strconv.Itoa(days+1) + " with BYHOUR and BYMINUTE"
	case f.name == cronWeekday.name && len(u) == 2 && u[0] == 'L' && u[1] >= '0' && u[1] <= '7':
		return "is not known; write " + u[1:] + "L"
	case f.names == nil:
		return "is not a number; write " + f.write
	}
	var known []string // a command in the wrong place is no misspelt name
	for _, name := range f.names {
		switch {
		case name == "" || !strings.EqualFold(s[:min(1, len(s))], name[:1]):
		case len(s) > 3 && strings.EqualFold(s[:3], name):
			return "is neither a number nor a name; did you mean " + name + "?"
		default:
			known = append(known, name)
		}
	}
	return "is neither a number nor a name" + orElse(near.Hint(s, known), "; write "+f.write)
}
