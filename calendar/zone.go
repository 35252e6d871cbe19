package calendar

import (
	"slices"
	"sync"
	"time"
)

// GapPolicy says what becomes of a wall time that a clock change skips.
type GapPolicy uint8

// OverlapPolicy says which pass of a repeated wall time counts.
type OverlapPolicy uint8

// The gap policies.
const (
	GapShift GapPolicy = iota // later by the gap: 02:30 fires at 03:30 (RFC 5545 §3.3.5); the default
	GapSkip                   // does not fire (one reading of RFC 5545 §3.3.10)
)

// The overlap policies.
const (
	OverlapFirst  OverlapPolicy = iota // the earlier instant (RFC 5545 §3.3.5); the default
	OverlapSecond                      // the later instant
	OverlapBoth                        // both
)

// DST is the contract's `dst` field. Its zero value is the default.
type DST struct {
	Gap     GapPolicy
	Overlap OverlapPolicy
}

// ParseDST reads the two words of the contract's `dst` field; "" is the default.
func ParseDST(gap, overlap string) (DST, error) {
	g := slices.Index([]string{"shift", "skip"}, gap)
	o := slices.Index([]string{"first", "second", "both"}, overlap)
	if gap != "" && g < 0 {
		return DST{}, fail(CodeInvalid, "dst", "gap is %s; write shift or skip", clip(gap))
	}
	if overlap != "" && o < 0 {
		return DST{}, fail(CodeInvalid, "dst", "overlap is %s; write first, second or both", clip(overlap))
	}
	return DST{GapPolicy(max(g, 0)), OverlapPolicy(max(o, 0))}, nil
}

// Resolved is one instant that a wall time means.
type Resolved struct {
	At    int64         // unix milliseconds
	Shift time.Duration // by how much a gap moved it; 0 outside gaps
	Fold  bool          // second pass of an overlap
	Twice bool          // the wall time is read twice that day
}

// Zone turns wall times into instants by one release's rules for one IANA
// name. It is safe for concurrent use.
//
// Nothing else in this repository may ask package time for a local date:
// time.Date and its kin resolve gaps and overlaps differently east and west
// of Greenwich, and a test holds everyone to it.
type Zone struct {
	name string
	loc  *time.Location

	once  sync.Once // fills the table, on first use: most zones never are
	since []int64   // unix seconds at which offset[i+1] begins, ascending
	off   []int32   // seconds east of Greenwich; one longer than since
	until int64     // how long the last of them holds, at least tableEnd
}

// Name is the IANA name the zone was looked up by.
func (z *Zone) Name() string { return z.name }

// Offset is how far the zone's clocks are ahead of UTC at an instant.
func (z *Zone) Offset(ms int64) (seconds int) {
	return int(z.span(floorDiv(ms, 1000)).off)
}

// Wall is what the zone's clocks read at an instant.
func (z *Zone) Wall(ms int64) Wall { return Wall(ms + int64(z.Offset(ms))*1000) }

// Resolve returns the instants a wall time means under d: none in a gap with
// GapSkip, two in an overlap with OverlapBoth, else one.
func (z *Zone) Resolve(w Wall, d DST) []Resolved {
	var buf [2]Resolved
	n := z.resolve(w, d, &buf)
	return slices.Clone(buf[:n])
}

// ResolveFirst is Resolve under the default policy, without allocation.
func (z *Zone) ResolveFirst(w Wall) (ms int64) {
	var buf [2]Resolved
	z.resolve(w, DST{}, &buf)
	return buf[0].At
}

// Reach is when clocks first show w or something later: ResolveFirst, but for a
// w in a gap the end of the gap.
func (z *Zone) Reach(w Wall) (ms int64) {
	ms = z.ResolveFirst(w)
	if z.Wall(ms) > w {
		ms = z.span(floorDiv(ms, 1000)).lo * 1000
	}
	return ms
}

// resolve asks for the offset well before and well after the wall time. The
// margins follow from offsets lying within [-12 h, +14 h] and from no zone
// changing its clocks twice in 28 h: both hold for every zone from 1970 on.
// They take in the 24 h that Samoa (2011) and Kwajalein (1993) skipped.
func (z *Zone) resolve(w Wall, d DST, out *[2]Resolved) int {
	ms := floorMod(int64(w), 1000)
	wall := (int64(w) - ms) / 1000
	before := z.span(wall - 15*3600)
	if wall+13*3600 < before.hi { // one offset all around: nearly always
		out[0] = Resolved{At: (wall-before.off)*1000 + ms}
		return 1
	}
	after := z.span(wall + 13*3600)
	first, second := wall-before.off, wall-after.off
	inFirst := z.span(first).off == before.off
	inSecond := z.span(second).off == after.off
	switch {
	case before.off == after.off || inFirst && !inSecond:
		out[0] = Resolved{At: first*1000 + ms}
		return 1
	case inSecond && !inFirst:
		out[0] = Resolved{At: second*1000 + ms}
		return 1
	case inFirst && inSecond:
		return overlap(first*1000+ms, second*1000+ms, d.Overlap, out)
	}
	if d.Gap == GapSkip {
		return 0
	}
	out[0] = Resolved{At: first*1000 + ms, Shift: time.Duration(after.off-before.off) * time.Second}
	return 1
}

func overlap(first, second int64, p OverlapPolicy, out *[2]Resolved) int {
	a := Resolved{At: first, Twice: true}
	b := Resolved{At: second, Twice: true, Fold: true}
	switch p {
	case OverlapSecond:
		out[0] = b
		return 1
	case OverlapBoth:
		out[0], out[1] = a, b
		return 2
	}
	out[0] = a
	return 1
}

// span is a stretch of time with one offset, in unix seconds: lo ≤ t < hi.
// Neighbouring spans may have the same offset.
type span struct{ lo, hi, off int64 }

const (
	forever    = int64(1) << 60
	tableStart = -int64(170) * 31_556_952 // about the year 1800: before the first entry of any zone
	tableEnd   = 5_680_281_600            // 2150-01-01; later instants are looked up one by one
)

// span finds the offset at an instant and how long it holds around it.
func (z *Zone) span(t int64) span {
	z.once.Do(z.fill)
	if t >= tableEnd {
		return spanOf(z.loc, t)
	}
	lo, hi := 0, len(z.since)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if z.since[mid] <= t {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	s := span{-forever, z.until, int64(z.off[lo])}
	if lo > 0 {
		s.lo = z.since[lo-1]
	}
	if lo < len(z.since) {
		s.hi = z.since[lo]
	}
	return s
}

// disturbance is by how many seconds clocks change within 26 hours of an
// instant; 0 nearly always. Around a change, wall times in order may become
// instants out of order, by at most this much.
func (z *Zone) disturbance(t int64) (seconds int64) {
	s := z.span(t)
	if s.lo < t-26*3600 && s.hi > t+26*3600 {
		return 0
	}
	for at := t - 26*3600; at <= t+26*3600; {
		s := z.span(at)
		seconds += abs(z.span(s.hi).off - s.off)
		at = s.hi
	}
	return seconds
}

func abs(x int64) int64 { return max(x, -x) }

// fill copies the zone's offsets up to tableEnd into the table, so that a
// look-up costs nanoseconds: package time parses the zone's rule text anew
// for every instant past its last stored transition.
func (z *Zone) fill() {
	s := spanOf(z.loc, tableStart)
	z.off = []int32{int32(s.off)}
	for s.hi < tableEnd {
		next := spanOf(z.loc, s.hi)
		if next.off != s.off {
			z.since = append(z.since, s.hi)
			z.off = append(z.off, int32(next.off))
		}
		s = next
	}
	z.until = s.hi
}

// spanOf asks package time. ZoneBounds answers end ≤ t on 31 December of
// leap years under a zone's rule text (golang/go#81583), where a walk from
// span to span would never end; there we claim no more than one day.
func spanOf(loc *time.Location, t int64) span {
	at := time.Unix(t, 0).In(loc)
	_, off := at.Zone()
	s := span{-forever, forever, int64(off)}
	start, end := at.ZoneBounds()
	if !start.IsZero() {
		s.lo = min(start.Unix(), t)
	}
	if !end.IsZero() {
		s.hi = end.Unix()
	}
	if s.hi <= t {
		s.hi = t + 1
		for s.hi < t+secondsPerDay {
			if _, o := time.Unix(s.hi+3599, 0).In(loc).Zone(); o != off {
				break
			}
			s.hi += 3600
		}
	}
	return s
}
