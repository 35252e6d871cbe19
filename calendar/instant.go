package calendar

import (
	"errors"
	"strings"
)

// ParseInstant reads an instant as the contract writes one: RFC 3339 with an
// offset or Z, or a number of 10 digits (seconds) or 13 digits (milliseconds)
// since 1970. Other lengths are refused by name: guessing a unit is how
// reminders fire in 1970. Decimals past the third round up, never early.
func ParseInstant(s string) (ms int64, err error) {
	if n, ok := digits(s); ok {
		return epoch(s, n)
	}
	w, rest, ok := scanWall(strings.ToUpper(s))
	if !ok {
		return 0, fail(CodeInvalid, "", "%s is not an instant; write 2026-11-20T14:00:00Z, or with an offset", clip(s))
	}
	if rest == "" {
		return 0, fail(CodeInvalid, "", "%s has no offset; add Z or +01:00, or a timezone", clip(s))
	}
	off, ok := scanOffset(rest)
	if !ok {
		return 0, fail(CodeInvalid, "", "%s ends in %s, which is not an offset; write Z or +01:00", clip(s), clip(rest))
	}
	return int64(w) - int64(off)*1000, nil
}

func epoch(s string, n int) (int64, error) {
	switch len(s) {
	case 10:
		return int64(n) * 1000, nil
	case 13:
		return int64(n), nil
	}
	unit := ""
	switch len(s) {
	case 16:
		unit = ", it looks like microseconds"
	case 19:
		unit = ", it looks like nanoseconds"
	}
	return 0, fail(CodeInvalid, "",
		"a number of %d digits is neither seconds (10 digits) nor milliseconds (13 digits) since 1970%s", len(s), unit)
}

// scanOffset reads Z, +01:00 or -0800, in seconds east.
func scanOffset(s string) (seconds int, ok bool) {
	if s == "Z" {
		return 0, true
	}
	if len(s) == 6 && s[3] == ':' {
		s = s[:3] + s[4:]
	}
	if len(s) != 5 || s[0] != '+' && s[0] != '-' {
		return 0, false
	}
	h, ok1 := digits(s[1:3])
	m, ok2 := digits(s[3:5])
	if !ok1 || !ok2 || h > 23 || m > 59 {
		return 0, false
	}
	seconds = h*3600 + m*60
	if s[0] == '-' {
		seconds = -seconds
	}
	return seconds, true
}

// isInstant tells an instant from a local date-time or a date by its shape.
func isInstant(s string) bool {
	if _, ok := digits(s); ok {
		return true
	}
	u := strings.ToUpper(s)
	return strings.HasSuffix(u, "Z") || len(u) > 11 && strings.ContainsAny(u[11:], "+-")
}

// when is a point in time as somebody wrote it: an instant, a wall time, or a
// whole local day.
type when struct {
	kind whenKind
	at   int64 // instant: unix ms
	wall Wall  // wall time, or midnight of the day
}

type whenKind uint8

const (
	isNothing whenKind = iota
	isAt
	isWall
	isDay
)

// parseWhen reads any of the three; whoever calls decides which are welcome.
func parseWhen(s string) (when, error) {
	if isInstant(s) {
		at, err := ParseInstant(s)
		return when{kind: isAt, at: at}, err
	}
	if y, m, d, ok := scanDate(s); ok && len(s) == 10 {
		return when{kind: isDay, wall: Wall(int64(daysOf(y, m, d)) * msPerDay)}, nil
	}
	w, err := ParseWall(s)
	return when{kind: isWall, wall: w}, err
}

// in names the field an error belongs to.
func in(field string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e != nil {
		e.Field = field
		return e
	}
	return err
}
