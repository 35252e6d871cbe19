// Package printable makes texts of users safe to show to a person.
package printable

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text shows control, bidirectional and zero-width characters as escapes, so they have no
// effect: what a producer wrote must not move the cursor of whoever looks at it, nor turn a line
// around.
func Text(s string) string {
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Quoted clips and quotes what came from outside.
func Quoted(s string) string {
	const most = 48
	if len(s) > most {
		end := most
		for end > most-utf8.UTFMax && !utf8.RuneStart(s[end]) { // not within a character
			end--
		}
		s = s[:end] + "…"
	}
	return strconv.Quote(s)
}

// IsASCII reports whether a text has only ASCII, of which some may be hidden.
func IsASCII[T ~string | ~[]byte](text T) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// These fill a place that looks empty, or have no width, though Unicode calls them letters or marks.
const fillers = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"

func hidden(r rune) bool { return r != ' ' && !unicode.IsPrint(r) || strings.ContainsRune(fillers, r) }
