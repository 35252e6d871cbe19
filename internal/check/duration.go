package check

import (
	"strings"
	"time"
)

// duration parses 7m, 1h30m, 2d, 1w, 500ms, PT7M, P1DT2H or a number of seconds.
func duration(s string) (time.Duration, bool) {
	if s == "" {
		return 0, false
	}
	if n, ok := number([]byte(s)); ok {
		return time.Duration(n) * time.Second, n >= 0 && n <= maxSeconds
	}
	if s[0] == 'P' || s[0] == 'p' {
		return isoDuration(strings.ToUpper(s[1:]))
	}
	units := []struct {
		name string
		d    time.Duration
	}{{"ms", time.Millisecond}, {"w", week}, {"d", day}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	return sum(s, func(rest string) (time.Duration, int) {
		for _, u := range units {
			if strings.HasPrefix(rest, u.name) {
				return u.d, len(u.name)
			}
		}
		return 0, 0
	})
}

const (
	day        = 24 * time.Hour
	week       = 7 * day
	maxSeconds = 10 * 366 * 86400
)

func isoDuration(s string) (time.Duration, bool) {
	date, clock, timed := strings.Cut(s, "T")
	if date == "" && clock == "" || timed && clock == "" {
		return 0, false
	}
	one := func(units string, sizes ...time.Duration) func(string) (time.Duration, int) {
		return func(rest string) (time.Duration, int) {
			if rest == "" {
				return 0, 0
			}
			if i := strings.IndexByte(units, rest[0]); i >= 0 {
				return sizes[i], 1
			}
			return 0, 0
		}
	}
	var total time.Duration
	if date != "" {
		d, ok := sum(date, one("WD", week, day))
		if !ok {
			return 0, false
		}
		total += d
	}
	if clock != "" {
		d, ok := sum(clock, one("HMS", time.Hour, time.Minute, time.Second))
		if !ok {
			return 0, false
		}
		total += d
	}
	return total, true
}

// sum adds numbers with units. Each number may have a fraction.
func sum(s string, unit func(rest string) (time.Duration, int)) (total time.Duration, ok bool) {
	for s != "" {
		whole, frac, scale, i, dot := int64(0), int64(0), int64(1), 0, false
		for ; i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '.' && !dot); i++ {
			switch {
			case s[i] == '.':
				dot = true
			case dot && scale < 1e9:
				frac, scale = frac*10+int64(s[i]-'0'), scale*10
			case !dot && whole < 1e12:
				whole = whole*10 + int64(s[i]-'0')
			}
		}
		if i == 0 {
			return 0, false
		}
		u, n := unit(s[i:])
		if n == 0 || whole > int64(maxSeconds*time.Second/u) {
			return 0, false
		}
		total += time.Duration(whole)*u + time.Duration(frac)*u/time.Duration(scale)
		s = s[i+n:]
	}
	return total, total >= 0
}
