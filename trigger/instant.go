package trigger

import (
	"math"
	"time"
)

// Instant is a point in time in milliseconds since 1970 UTC; 0 means none.
type Instant int64

// At converts a time, cutting it to the millisecond.
func At(t time.Time) Instant { return Instant(t.UnixMilli()) }

// Time is the instant in UTC.
func (i Instant) Time() time.Time { return time.UnixMilli(int64(i)).UTC() }

// Add moves an instant; parts of a millisecond are cut off.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d.Milliseconds()) }

// Sub is the time from j to i, as far as a Duration goes: 292 years.
func (i Instant) Sub(j Instant) time.Duration {
	const most = Instant(math.MaxInt64 / int64(time.Millisecond))
	return time.Duration(min(max(i-j, -most), most)) * time.Millisecond
}

// instantLayout is RFC 3339 with exactly three decimals, in UTC.
const instantLayout = "2006-01-02T15:04:05.000Z"

// String is RFC 3339 with milliseconds in UTC. All output has this form.
func (i Instant) String() string { return i.Time().Format(instantLayout) }

// AppendTo appends String without allocating.
func (i Instant) AppendTo(b []byte) []byte { return i.Time().AppendFormat(b, instantLayout) }
