package check

import (
	"fmt"
	"time"
)

// stamp parses an RFC 3339 instant into milliseconds since 1970. It is fast for the form that the
// engine writes, 2026-11-20T14:00:00.000Z, and uses package time for other forms.
func stamp(b []byte) (int64, bool) {
	if len(b) == 24 && b[23] == 'Z' && b[4] == '-' && b[7] == '-' && b[10] == 'T' && b[13] == ':' && b[16] == ':' &&
		b[19] == '.' {
		y, ok0 := digits(b[0:4])
		mo, ok1 := digits(b[5:7])
		d, ok2 := digits(b[8:10])
		h, ok3 := digits(b[11:13])
		mi, ok4 := digits(b[14:16])
		s, ok5 := digits(b[17:19])
		ms, ok6 := digits(b[20:23])
		if ok0 && ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && mo >= 1 && mo <= 12 && d >= 1 && d <= daysIn(y, mo) &&
			h < 24 && mi < 60 && s < 60 {
			return (dayNumber(y, mo, d)*86400+int64(h*3600+mi*60+s))*1000 + int64(ms), true
		}
		return 0, false
	}
	t, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return 0, false
	}
	return t.UnixMilli(), true
}

func digits(b []byte) (n int, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// dayNumber returns the days since 1970-01-01 of a date in the proleptic Gregorian calendar
// (Howard Hinnant's days_from_civil).
func dayNumber(y, m, d int) int64 {
	if m <= 2 {
		y--
	}
	era := y / 400
	if y < 0 {
		era = (y - 399) / 400
	}
	yoe := y - era*400
	mp := (m + 9) % 12
	doy := (153*mp+2)/5 + d - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	return int64(era)*146097 + int64(doe) - 719468
}

// civil is the inverse of dayNumber.
func civil(day int64) (y, m, d int) {
	z := day + 719468
	era := z / 146097
	if z < 0 {
		era = (z - 146096) / 146097
	}
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d = int(doy - (153*mp+2)/5 + 1)
	m = int(mp + 3)
	if m > 12 {
		m -= 12
	}
	y = int(yoe + era*400)
	if m <= 2 {
		y++
	}
	return y, m, d
}

func leap(y int) bool { return y%4 == 0 && (y%100 != 0 || y%400 == 0) }

func daysIn(y, m int) int {
	switch m {
	case 2:
		if leap(y) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

func daysInYear(y int) int {
	if leap(y) {
		return 366
	}
	return 365
}

// spell formats an instant as the engine does.
func spell(ms int64) string {
	if ms == 0 {
		return "none"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// wall is a local time without a zone, in seconds since 1970-01-01T00:00:00 local time.
type wall int64

func wallOf(y, m, d, hh, mm, ss int) wall {
	return wall(dayNumber(y, m, d)*86400 + int64(hh*3600+mm*60+ss))
}

func (w wall) day() int64 { return floorDiv(int64(w), 86400) }
func (w wall) clock() (h, m, s int) {
	t := int64(w) - w.day()*86400
	return int(t / 3600), int(t / 60 % 60), int(t % 60)
}

func (w wall) String() string {
	y, m, d := civil(w.day())
	hh, mm, ss := w.clock()
	return fmt.Sprintf("%04d-%02d-%02dT%02d:%02d:%02d", y, m, d, hh, mm, ss)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// parseWall parses 2026-11-20T09:00 and 2026-11-20T09:00:00. date reports a bare date.
func parseWall(s string) (w wall, date, ok bool) {
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil && len(s) == len(layout) {
			return wall(t.Unix()), layout == "2006-01-02", true
		}
	}
	return 0, false, false
}
