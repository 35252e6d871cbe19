package calendar

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// maxDelay is the contract's "at most 10 years", a year being 365.25 days.
const maxDelay = 87_660 * time.Hour

// ParseDuration reads a `delay`, or any other length of elapsed time: "7m",
// "1h30m", "2d", "1w", "500ms"; ISO 8601 "PT7M", "P1DT2H", "P2W"; or a number
// of seconds. A day is 24 hours and a week 7 days. Units run from large to
// small, each at most once. Years and months are refused because they have no
// fixed length; so are a sign, and anything over 10 years (beyond_horizon).
// 0 is allowed and means now.
func ParseDuration(s string) (time.Duration, error) {
	d, err := parseDuration(s)
	if err == nil && d > maxDelay {
		return 0, fail(CodeBeyondHorizon, "", "%s is over 10 years", clip(s))
	}
	return d, err
}

// parseDuration is ParseDuration bounded only by what 64 bits hold (292 years).
func parseDuration(s string) (time.Duration, error) {
	bad := func(why string) (time.Duration, error) {
		return 0, fail(CodeInvalid, "", "%s %s; write 7m, 1h30m, 2d, PT7M or a number of seconds", clip(s), why)
	}
	switch {
	case s == "":
		return bad("is empty")
	case s[0] == '-' || s[0] == '+':
		return bad("has a sign")
	case s[0] == 'P' || s[0] == 'p':
		return parseISO(strings.ToUpper(s), bad)
	}
	if n, rest, ok := scanNumber(s); ok && rest == "" {
		return scaled(n, time.Second, bad)
	}
	return parseUnits(s, unitsPlain, bad)
}

type unit struct {
	name string
	size time.Duration // 0: known, and refused because it has no fixed length
}

var (
	unitsPlain = []unit{
		{"y", 0},
		{"mo", 0},
		{"w", 7 * 24 * time.Hour},
		{"d", 24 * time.Hour},
		{"h", time.Hour},
		{"m", time.Minute},
		{"s", time.Second},
		{"ms", time.Millisecond},
	}
	unitsISODate = []unit{{"Y", 0}, {"M", 0}, {"W", 7 * 24 * time.Hour}, {"D", 24 * time.Hour}}
	unitsISOTime = []unit{{"H", time.Hour}, {"M", time.Minute}, {"S", time.Second}}
)

type badDuration func(why string) (time.Duration, error)

func parseISO(s string, bad badDuration) (time.Duration, error) {
	date, clock, hasClock := strings.Cut(s[1:], "T")
	if date == "" && clock == "" {
		return bad("has no length")
	}
	if hasClock && clock == "" {
		return bad("ends in T")
	}
	var days, rest time.Duration
	var err error
	if date != "" {
		if days, err = parseUnits(date, unitsISODate, bad); err != nil {
			return 0, err
		}
	}
	if clock != "" {
		if rest, err = parseUnits(clock, unitsISOTime, bad); err != nil {
			return 0, err
		}
	}
	if days > math.MaxInt64-rest {
		return bad("is longer than 292 years")
	}
	return days + rest, nil
}

// parseUnits adds up numbers with units; each unit must be smaller than the
// one before it.
func parseUnits(s string, units []unit, bad badDuration) (time.Duration, error) {
	var sum time.Duration
	for s != "" {
		n, rest, ok := scanNumber(s)
		if !ok {
			return bad("is not a duration")
		}
		name := rest[:letters(rest)]
		s = rest[len(name):]
		i := 0
		for i < len(units) && units[i].name != name {
			i++
		}
		switch {
		case name == "" && s == "":
			return bad("ends in a number without a unit")
		case name == "":
			return bad("has " + clip(s) + " where a unit belongs, right behind the number")
		case i == len(units):
			return bad("has the unit " + clip(name) + ", which is unknown or out of order")
		case units[i].size == 0:
			return bad("has years or months, which have no fixed length")
		}
		d, err := scaled(n, units[i].size, bad)
		if err != nil {
			return 0, err
		}
		if sum > math.MaxInt64-d {
			return bad("is longer than 292 years")
		}
		sum += d
		units = units[i+1:]
	}
	return sum, nil
}

// number is a decimal with at most three places, in thousandths.
type number struct{ thousandths int64 }

func scanNumber(s string) (n number, rest string, ok bool) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	if i == 0 || i > 15 {
		return number{}, "", false
	}
	whole, _ := digits(s[:i])
	n.thousandths = int64(whole) * 1000
	s = s[i:]
	if s == "" || s[0] != '.' {
		return n, s, true
	}
	f := 1
	for f < len(s) && s[f] >= '0' && s[f] <= '9' {
		f++
	}
	if f == 1 || f > 4 {
		return number{}, "", false
	}
	frac, _ := digits((s[1:f] + "00")[:3])
	n.thousandths += int64(frac)
	return n, s[f:], true
}

// scaled multiplies the whole and the thousandths on their own, so that long durations keep their decimals.
func scaled(n number, size time.Duration, bad badDuration) (time.Duration, error) {
	ns := int64(size)
	whole, part := n.thousandths/1000, n.thousandths%1000*ns/1000
	if whole > (math.MaxInt64-part)/ns {
		return bad("is longer than 292 years")
	}
	return time.Duration(whole*ns + part), nil
}

// PlainNumber spells a JSON number without an exponent, as durations and times
// are read; ok is false where it is too large, or too small, to mean one.
func PlainNumber(s string) (plain string, ok bool) {
	if !strings.ContainsAny(s, "eE") {
		return s, true
	}
	f, err := strconv.ParseFloat(s, 64)
	if size := math.Abs(f); err != nil || size >= 1e15 || size < 1e-9 && size != 0 {
		return s, false
	}
	return strconv.FormatFloat(f, 'f', -1, 64), true
}

func letters(s string) int {
	i := 0
	for i < len(s) && (s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z') {
		i++
	}
	return i
}
