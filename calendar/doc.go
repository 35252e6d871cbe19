// Package calendar turns a wish on a wall clock ("the last weekday of every
// month at nine, New York") into instants. It is pure: no clock, no I/O, no
// goroutine; the caller brings the time and the tz database release.
//
// # Source of truth
//
// docs/SEMANTICS.md is. Behind it stand RFC 5545 for
// rules, the IANA tz database for zones, and cron(5) for cron. The 395 cases
// in testdata/time-cases.jsonl and the tests beside them hold us to it.
//
// # Model
//
//	Spec ── Compile ──► Rule ── Next(after) ──► Occurrence
//
//	compile.go             Spec to Rule; start.go: start and count; dates.go: include, exclude
//	rrule.go, cron.go      text to parts; every refusal says what to write instead
//	cage.go, days.go       which dates: rrule-go is asked for the days of 14 kinds of year, no more
//	times.go, wallset.go   dates × times of day, BYSETPOS: wall times
//	zone.go                wall time to instant: gap, overlap, release
//	grid.go                the other way: instants whose local reading matches
//	rule.go                Next, First; missed.go: Prev, Missed, Between
//
// A rule runs on one of three engines:
//
//   - wall times, then resolved: FREQ of DAILY and above, and cron with fixed
//     hours and minutes. A wall time in a gap fires shifted by the gap, in an
//     overlap at the first pass, unless DST says otherwise. Two wall times
//     that fall on one instant fire once, under the later name.
//   - elapsed time: every:, HOURLY, MINUTELY, SECONDLY. BY parts are tested
//     on the local reading of each instant.
//   - the real timeline: cron whose minute or hour starts with *. Each
//     instant is matched by its local reading, so both passes of an overlap
//     fire and a gap fires nothing.
//
// # Fine print
//
//   - The start fires only if the rule yields it. COUNT counts candidates
//     from the start on, before exclusions, gaps and collapses. UNTIL is
//     inclusive: with Z an instant, else compared with wall times.
//   - BYSETPOS picks from whole periods, also from the one the start is in.
//   - A bare date in Include takes the time of day of the start.
//   - An exclusion matches the scheduled wall time, or the instant it means;
//     a bare date matches the scheduled date.
//   - cron: a field that begins with * is unrestricted, steps included, both
//     for "real timeline" and for "day of month OR day of week".
//   - Holidays act on the scheduled date, before it is resolved. The moving
//     modes take weekends for non-business days too.
//
// # Promises
//
//   - Next is strictly after its argument, and never decreases.
//   - Next costs the same for a series of one year and of fifty, because
//     nothing is counted from the start: COUNT became a last wall time when
//     the rule was compiled, and the start is only a phase and a lower bound.
//   - Work is bounded: a search ends after one Gregorian cycle of 400 years.
//   - The same Spec and release give the same occurrences for ever.
package calendar
