package printable

import (
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "",
		"Grüße, 東京":             "Grüße, 東京",
		"a\x1b[2Jb\n":           `a\x1b[2Jb\n`,
		"abc\u202etxt.exe":      `abc\u202etxt.exe`,
		"zero\u200bwidth\u00a0": `zero\u200bwidth\u00a0`,
		"admin\u3164\u034f":     `admin\u3164\u034f`,
		"\U000e0041tag":         `\U000e0041tag`,
	} {
		if got := Text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestQuoted(t *testing.T) {
	x47, cont := strings.Repeat("x", 47), strings.Repeat("\x80", 60)
	for in, want := range map[string]string{
		"":         `""`,
		"a\"\n":    `"a\"\n"`,
		x47 + "y":  `"` + x47 + `y"`,
		x47 + "yz": `"` + x47 + `y…"`,
		x47 + "é":  `"` + x47 + `…"`, // it is cut before a character, not within
		cont:       `"` + strings.Repeat(`\x80`, 44) + `…"`,
	} {
		if got := Quoted(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestIsASCII(t *testing.T) {
	for in, want := range map[string]bool{"": true, "a\x1b\x7f": true, "\u0080": false, "é": false, "aé": false} {
		if IsASCII(in) != want || IsASCII([]byte(in)) != want {
			t.Errorf("%q: %v", in, !want)
		}
	}
}
