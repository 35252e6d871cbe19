package config

import (
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for _, row := range []struct {
		text string
		want time.Duration
		ok   bool
	}{
		{"250ms", 250 * time.Millisecond, true},
		{"7m", 7 * time.Minute, true},
		{"1h30m", 90 * time.Minute, true},
		{"2d", 48 * time.Hour, true},
		{"1w2d", 9 * 24 * time.Hour, true},
		{"1.5s", 1500 * time.Millisecond, true},
		{"90", 90 * time.Second, true},
		{"0", 0, true},
		{"520w", 520 * 7 * 24 * time.Hour, true},
		{"530w", 0, false},
		{"", 0, false},
		{"m", 0, false},
		{"7", 7 * time.Second, true},
		{"7m30", 0, false},
		{"7M", 0, false},
		{"1y", 0, false},
		{"-1s", 0, false},
		{"1us", 0, false},
		{"1e300s", 0, false},
		{"NaN", 0, false},
		{"9999999999999999999d", 0, false},
		{"7 m", 0, false},
	} {
		got, err := ParseDuration(row.text)
		if (err == nil) != row.ok || got != row.want {
			t.Errorf("%q: got %v, %v; want %v, ok %v", row.text, got, err, row.want, row.ok)
		}
	}
}

func TestParseSize(t *testing.T) {
	for _, row := range []struct {
		text string
		want Size
		ok   bool
	}{
		{"4KiB", 4096, true},
		{"4 KiB", 4096, true},
		{"1.5GiB", 3 << 29, true},
		{"500MB", 500_000_000, true},
		{"12", 12, true},
		{"12B", 12, true},
		{"4K", 0, false},
		{"-1B", 0, false},
		{"", 0, false},
		{"KiB", 0, false},
		{"1e30TiB", 0, false},
		{"NaN", 0, false},
	} {
		got, err := ParseSize(row.text)
		if (err == nil) != row.ok || got != row.want {
			t.Errorf("%q: got %d, %v; want %d, ok %v", row.text, got, err, row.want, row.ok)
		}
	}
}

// What is formatted parses to the same value, and nothing makes a parser
// panic or answer out of bounds.
func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"250ms", "1w2d3h4m5s6ms", "0", "1.5h", "1..5s", "٣s"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			return
		}
		if d < 0 || d > maxDuration {
			t.Fatalf("%q is %v", text, d)
		}
		whole := d.Truncate(time.Millisecond)
		if second, err := ParseDuration(FormatDuration(d)); err != nil || second != whole {
			t.Fatalf("%q is %v, formatted %s is %v (%v)", text, d, FormatDuration(d), second, err)
		}
	})
}

func FuzzParseSize(f *testing.F) {
	for _, seed := range []string{"4KiB", "1.5GiB", "0", "9223372036854775807", "1e18", "0x1p3B"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSize(text)
		if err != nil {
			return
		}
		if s < 0 {
			t.Fatalf("%q is %d", text, s)
		}
		second, err := ParseSize(s.String())
		if err != nil || second != s && s < 1<<53 {
			t.Fatalf("%q is %d, formatted %s is %d (%v)", text, s, s, second, err)
		}
	})
}

func FuzzParseReplication(f *testing.F) {
	for _, seed := range []string{"3", "dc1=3,dc2=2", "=1", "a=", "a=1,a=2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseReplication(text)
		if err != nil {
			return
		}
		if second, err := parseReplication(r.String()); err != nil || second.String() != r.String() {
			t.Fatalf("%q is %s, read back %s (%v)", text, r, second, err)
		}
	})
}
