package config

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes.
type Size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"kB", 1e3},
	{"KB", 1e3},
	{"B", 1},
}

// ParseSize reads 4KiB, 1.5GiB, 500MB, or a bare number of bytes. KiB is 1024
// bytes and KB 1000; a letter alone (4K) is refused, because people disagree.
func ParseSize(s string) (Size, error) {
	number, unit := s, int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(s, u.name); ok {
			number, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f < 0 || f*float64(unit) >= math.MaxInt64 || math.IsNaN(f) {
		return 0, fmt.Errorf("%q is not a size: write a number and KiB, MiB or GiB, such as 4KiB", s)
	}
	return Size(f * float64(unit)), nil
}

// String is the shortest exact spelling in powers of 1024.
func (s Size) String() string {
	for _, u := range sizeUnits[:4] {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

var durationUnits = []struct {
	name string
	d    time.Duration
}{
	{"w", 7 * 24 * time.Hour},
	{"d", 24 * time.Hour},
	{"h", time.Hour},
	{"m", time.Minute},
	{"s", time.Second},
	{"ms", time.Millisecond},
}

// maxDuration is the longest duration a setting may have (10 years, as
// for a delay), in days of 24 h.
const maxDuration = 3653 * 24 * time.Hour

// ParseDuration reads the contract's durations: 250ms, 7m, 1h30m, 2d, 1w, or
// a bare number of seconds. A day is 24 h; there are no months and years.
func ParseDuration(s string) (time.Duration, error) {
	bad := fmt.Errorf("%q is not a duration: write for example 250ms, 30s, 5m, 1h30m, 2d or 1w", s)
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if !(f >= 0 && f <= maxDuration.Seconds()) {
			return 0, bad
		}
		return time.Duration(f * float64(time.Second)), nil
	}
	var sum time.Duration
	for rest := s; rest != ""; {
		d, n := durationTerm(rest)
		if n == 0 {
			return 0, bad
		}
		if sum += d; sum < 0 || sum > maxDuration {
			return 0, fmt.Errorf("%q is over 10 years", s)
		}
		rest = rest[n:]
	}
	if s == "" {
		return 0, bad
	}
	return sum, nil
}

// durationTerm reads one number with its unit and says how long it was; 0
// means there was none.
func durationTerm(s string) (time.Duration, int) {
	digits := len(s) - len(strings.TrimLeft(s, "0123456789."))
	letters := len(s[digits:]) - len(strings.TrimLeft(s[digits:], "abcdefghijklmnopqrstuvwxyz"))
	f, err := strconv.ParseFloat(s[:digits], 64)
	if err != nil {
		return 0, 0
	}
	for _, u := range durationUnits {
		if u.name == s[digits:digits+letters] {
			if f*float64(u.d) > float64(maxDuration)*2 {
				return 2 * maxDuration, digits + letters
			}
			return time.Duration(math.Round(f * float64(u.d))), digits + letters
		}
	}
	return 0, 0
}

// FormatDuration is the exact spelling ParseDuration reads back, for whole
// milliseconds: 1w2d, 1h30m, 0s.
func FormatDuration(d time.Duration) string {
	if d < time.Millisecond {
		return "0s"
	}
	if d%(24*time.Hour) == 0 && d%(7*24*time.Hour) != 0 {
		return strconv.FormatInt(int64(d/(24*time.Hour)), 10) + "d"
	}
	var b strings.Builder
	for _, u := range durationUnits {
		if n := d / u.d; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d %= u.d
		}
	}
	return b.String()
}

// The bounds of a cap. A worker reads as many of a user's messages before each.
const (
	maxCap       = 1000
	maxCapWithin = 30 * 24 * time.Hour
	maxCaps      = 5
)

// parseCaps reads 5/h,20/d: a number, and a unit or a duration.
func parseCaps(s string) (caps []Cap, err error) {
	for _, part := range splitList(s) {
		c, err := parseCap(part)
		if err != nil {
			return nil, err
		}
		caps = append(caps, c)
	}
	if len(caps) > maxCaps {
		return nil, fmt.Errorf("there are %d caps, and at most %d are allowed", len(caps), maxCaps)
	}
	return caps, nil
}

func parseCap(s string) (c Cap, err error) {
	number, within, _ := strings.Cut(s, "/")
	if c.Most, err = strconv.Atoi(number); err != nil || within == "" {
		return c, fmt.Errorf("%q is not a cap: write a number and a time, such as 5/h or 100/2d", s)
	}
	if strings.IndexByte("0123456789.", within[0]) < 0 {
		within = "1" + within // 5/h
	} else if _, err := strconv.ParseFloat(within, 64); err == nil {
		return c, fmt.Errorf("%q has a time without a unit: write for example 5/30s or 5/h", s)
	}
	if c.Within, err = ParseDuration(within); err != nil {
		return c, fmt.Errorf("%q is not a cap: write a number and a time, such as 5/h or 100/2d", s)
	}
	switch {
	case c.Most < 1:
		return c, fmt.Errorf("%q: at least 1 is allowed; to send nothing, leave the channel out of roles", s)
	case c.Most > maxCap:
		return c, fmt.Errorf("%q is above the most allowed, %d", s, maxCap)
	case c.Within < time.Second || c.Within > maxCapWithin:
		return c, fmt.Errorf("%q: the time is 1s to 30d", s)
	}
	return c, nil
}

// String is the spelling parseCap reads back.
func (c Cap) String() string {
	within := FormatDuration(c.Within)
	if unit, one := strings.CutPrefix(within, "1"); one && strings.IndexByte("0123456789", unit[0]) < 0 {
		for _, u := range durationUnits {
			if u.name == unit {
				within = unit
			}
		}
	}
	return strconv.Itoa(c.Most) + "/" + within
}

// Replication is a keyspace's: one factor, or a factor per data center.
type Replication struct {
	Factor      int
	DataCenters map[string]int // nil means SimpleStrategy with Factor
}

// parseReplication reads "3" or "dc1=3,dc2=2".
func parseReplication(s string) (Replication, error) {
	bad := fmt.Errorf("%q is not a replication: write a factor such as 3, or one per data center: dc1=3,dc2=2", s)
	if n, err := strconv.Atoi(s); err == nil {
		if n < 1 || n > 100 {
			return Replication{}, bad
		}
		return Replication{Factor: n}, nil
	}
	r := Replication{DataCenters: map[string]int{}}
	for _, part := range splitList(s) {
		dc, factor, found := strings.Cut(part, "=")
		n, err := strconv.Atoi(factor)
		if !found || dc == "" || err != nil || n < 1 || n > 100 || strings.ContainsAny(dc, `'"\`) {
			return Replication{}, bad
		}
		r.DataCenters[dc] = n
	}
	if len(r.DataCenters) == 0 {
		return Replication{}, bad
	}
	return r, nil
}

// String is the spelling parseReplication reads back.
func (r Replication) String() string {
	if r.DataCenters == nil {
		return strconv.Itoa(r.Factor)
	}
	var parts []string
	for dc, n := range r.DataCenters {
		parts = append(parts, fmt.Sprintf("%s=%d", dc, n))
	}
	sort.Strings(parts)
	return strings.Join(parts, ",")
}

// splitList cuts at commas, drops blanks around the parts and empty parts.
func splitList(s string) []string {
	var out []string
	for _, part := range strings.Split(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
