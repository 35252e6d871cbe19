package topics

import (
	"bytes"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waterclock/waterclock/trigger"
)

// appendInstant appends RFC 3339 with milliseconds in UTC, as Instant.String does. It
// computes it without package time, for speed: a due event has two to four instants. Outside
// of the years 0 to 9999 it uses package time.
func appendInstant(b []byte, i trigger.Instant) []byte {
	const year0, year10000 = -62_167_219_200_000, 253_402_300_800_000
	if i < year0 || i >= year10000 {
		return i.AppendTo(b)
	}
	n := uint64(i - year0) // milliseconds since 0000-01-01
	days, ms := n/86_400_000, n%86_400_000
	year, month, date := civil(days)
	b = append(b, byte('0'+year/1000), byte('0'+year/100%10))
	b = append(appendTwo(b, year%100), '-')
	b = append(appendTwo(b, month), '-')
	b = append(appendTwo(b, date), 'T')
	b = append(appendTwo(b, ms/3_600_000), ':')
	b = append(appendTwo(b, ms/60_000%60), ':')
	b = append(appendTwo(b, ms/1000%60), '.', byte('0'+ms/100%10))
	return append(appendTwo(b, ms%100), 'Z')
}

func appendTwo(b []byte, n uint64) []byte { return append(b, byte('0'+n/10), byte('0'+n%10)) }

// civil is the date of a day counted from 0000-01-01 in the proleptic
// Gregorian calendar. Years are counted from March, so that the leap day is
// the last of its year.
func civil(days uint64) (year, month, date uint64) {
	const fourCenturies = 146_097
	days += fourCenturies - 60 // from 1 March of the year -400
	era, day := days/fourCenturies, days%fourCenturies
	y := (day - day/1460 + day/36_524 - day/(fourCenturies-1)) / 365
	day -= 365*y + y/4 - y/100
	m := (5*day + 2) / 153 // 0: March
	date = day - (153*m+2)/5 + 1
	year = era*400 + y - 400
	if m >= 10 {
		return year + 1, m - 9, date
	}
	return year, m + 3, date
}

// parseWritten reads an instant as appendInstant spells it, 0 if it is none.
func parseWritten(s string) trigger.Instant {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return 0
	}
	return trigger.At(t)
}

// beginsJSON reports whether b begins as JSON does. It saves calling the parser, whose error
// costs more than the rest of an event.
func beginsJSON(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 0 && strings.IndexByte(`{["-0123456789tfn`, b[0]) >= 0
}

// appendString appends s as a JSON string, as encoding/json does without HTML
// escaping: what is not UTF-8 becomes U+FFFD, and the two line separators
// that JavaScript once took for line ends are escaped.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c < 0x20 || c == '"' || c == '\\' {
				b = appendEscape(append(b, s[from:i]...), c)
				from = i + 1
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b = append(append(b, s[from:i]...), `\ufffd`...)
			from = i + n
		case r == '\u2028' || r == '\u2029':
			b = append(append(b, s[from:i]...), `\u202`...)
			b = append(b, byte('8'+r-'\u2028'))
			from = i + n
		}
		i += n
	}
	return append(append(b, s[from:]...), '"')
}

func appendEscape(b []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	}
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}
