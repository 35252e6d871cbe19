package calendar

import (
	"fmt"
	"math/bits"
	"time"
)

// Days are counted from 1970-01-01, in the proleptic Gregorian calendar, and
// weekdays from Sunday = 0. Years run from 1 to 9999: what four digits can
// write (RFC 3339, RFC 5545).
const (
	secondsPerDay = 86_400
	msPerDay      = secondsPerDay * 1000

	// The Gregorian calendar repeats after 400 years of 146,097 days, which
	// is a whole number of weeks. A rule on dates that has not fired in one
	// such cycle is refused.
	cycleDays = 146_097

	maxYear = 9999
)

var (
	minDay = daysOf(1, 1, 1)
	maxDay = daysOf(maxYear, 12, 31)
)

// daysOf returns the day number of a date. The algorithm counts from the 1st
// of March, so that a leap day ends its year.
func daysOf(y, m, d int) int {
	if m <= 2 {
		y--
		m += 12
	}
	era := floorDiv(y, 400)
	yoe := y - era*400
	doy := (153*(m-3)+2)/5 + d - 1
	return era*cycleDays + yoe*365 + yoe/4 - yoe/100 + doy - 719_468
}

// dateOf is the inverse of daysOf.
func dateOf(day int) (y, m, d int) {
	z := day + 719_468
	era := floorDiv(z, cycleDays)
	doe := z - era*cycleDays
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d = doy - (153*mp+2)/5 + 1
	m = mp + 3
	y = yoe + era*400
	if m > 12 {
		m -= 12
		y++
	}
	return y, m, d
}

func weekdayOf(day int) int { return floorMod(day+4, 7) }

func isLeap(y int) bool { return y%4 == 0 && (y%100 != 0 || y%400 == 0) }

func daysInMonth(y, m int) int {
	switch m {
	case 2:
		if isLeap(y) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// A Date is a local calendar date, in days since 1970-01-01.
type Date int32

// ParseDate reads "2026-12-25".
func ParseDate(s string) (Date, error) {
	y, m, d, ok := scanDate(s)
	if !ok || len(s) != 10 {
		return 0, fail(CodeInvalid, "", "%s is not a date; write 2026-12-25", clip(s))
	}
	return Date(daysOf(y, m, d)), nil
}

func (d Date) String() string {
	y, m, dd := dateOf(int(d))
	return fmt.Sprintf("%04d-%02d-%02d", y, m, dd)
}

// A Wall is a local date-time without a zone, in milliseconds since
// 1970-01-01T00:00:00 as if it were UTC. It names no instant until a Zone
// resolves it.
type Wall int64

// ParseWall reads "2026-11-20T09:00", with optional seconds and up to three
// decimals. A bare date is refused: which time of that day is meant cannot be
// known. So is a 60th second, which no wall clock in the tz database has.
func ParseWall(s string) (Wall, error) {
	if _, _, _, ok := scanDate(s); ok && len(s) == 10 {
		return 0, fail(CodeInvalid, "", "%s is a date without a time; write %sT09:00", clip(s), s)
	}
	w, rest, ok := scanWall(s)
	if !ok || rest != "" {
		return 0, fail(CodeInvalid, "", "%s is not a local date-time; write 2026-11-20T09:00 or 2026-11-20T09:00:00",
			clip(s))
	}
	return w, nil
}

// String writes seconds always and milliseconds only where there are any.
func (w Wall) String() string { return string(w.append(make([]byte, 0, 24))) }

func (w Wall) append(b []byte) []byte {
	day := w.day()
	y, m, d := dateOf(day)
	ms := int(int64(w) - int64(day)*msPerDay)
	b = appendDigits(b, y, 4)
	b = appendDigits(append(b, '-'), m, 2)
	b = appendDigits(append(b, '-'), d, 2)
	b = appendDigits(append(b, 'T'), ms/3_600_000, 2)
	b = appendDigits(append(b, ':'), ms/60_000%60, 2)
	b = appendDigits(append(b, ':'), ms/1000%60, 2)
	if ms%1000 != 0 {
		b = appendDigits(append(b, '.'), ms%1000, 3)
	}
	return b
}

// Date is the local date of w.
func (w Wall) Date() Date { return Date(w.day()) }

func (w Wall) day() int { return int(floorDiv(int64(w), msPerDay)) }

// scanWall reads the date-time at the front of s and returns what follows it.
// Digits past the third decimal are rounded up: firing early is the one error
// that cannot be mended.
func scanWall(s string) (w Wall, rest string, ok bool) {
	y, mo, d, ok := scanDate(s)
	if !ok || len(s) < 16 || s[10] != 'T' || s[13] != ':' {
		return 0, "", false
	}
	h, ok1 := digits(s[11:13])
	mi, ok2 := digits(s[14:16])
	if !ok1 || !ok2 || h > 23 || mi > 59 {
		return 0, "", false
	}
	sec, frac := 0, 0
	rest = s[16:]
	if len(rest) > 0 && rest[0] == ':' {
		if len(rest) < 3 {
			return 0, "", false
		}
		if sec, ok = digits(rest[1:3]); !ok || sec > 59 {
			return 0, "", false
		}
		rest = rest[3:]
		if len(rest) > 0 && rest[0] == '.' {
			if frac, rest, ok = scanFraction(rest[1:]); !ok {
				return 0, "", false
			}
		}
	}
	secs := int64(daysOf(y, mo, d))*secondsPerDay + int64(h*3600+mi*60+sec)
	return Wall(secs*1000 + int64(frac)), rest, true
}

// scanFraction reads 1 to 9 decimals of a second as milliseconds, rounded up.
func scanFraction(s string) (ms int, rest string, ok bool) {
	n, round := 0, 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		switch c := int(s[n] - '0'); {
		case n < 3:
			ms = ms*10 + c
		case c > 0:
			round = 1
		}
		n++
	}
	for i := n; i < 3; i++ {
		ms *= 10
	}
	return ms + round, s[n:], n >= 1 && n <= 9
}

// scanDate reads the 10 characters of a date at the front of s.
func scanDate(s string) (y, m, d int, ok bool) {
	if len(s) < 10 || s[4] != '-' || s[7] != '-' {
		return 0, 0, 0, false
	}
	y, ok1 := digits(s[:4])
	m, ok2 := digits(s[5:7])
	d, ok3 := digits(s[8:10])
	ok = ok1 && ok2 && ok3 && y >= 1 && m >= 1 && m <= 12 && d >= 1 && d <= daysInMonth(y, m)
	return y, m, d, ok
}

func digits(s string) (n int, ok bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, s != ""
}

func appendDigits(b []byte, n, width int) []byte {
	for p := pow10[width]; p >= 1; p /= 10 {
		b = append(b, byte('0'+n/p%10))
	}
	return b
}

var pow10 = [...]int{1: 1, 2: 10, 3: 100, 4: 1000}

// utcString writes an instant as RFC 3339 in UTC, with milliseconds only
// where there are any.
func utcString(ms int64) string { return Wall(ms).String() + "Z" }

type integer interface{ ~int | ~int64 }

func floorDiv[T integer](a, b T) T {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func floorMod[T integer](a, b T) T { return a - floorDiv(a, b)*b }

func ceilDiv[T integer](a, b T) T { return -floorDiv(-a, b) }

func popcount(x uint64) int { return bits.OnesCount64(x) }

// DurationText writes 1h, 30m, 1h30m, 24h: a Duration without its zero tail.
func DurationText(d time.Duration) string {
	s := d.String()
	if n := len(s); n > 2 && s[n-2:] == "0s" && s[n-3] == 'm' {
		s = s[:n-2]
	}
	if n := len(s); n > 2 && s[n-2:] == "0m" && s[n-3] == 'h' {
		s = s[:n-2]
	}
	return s
}
