package calendar

import (
	"slices"
	"time"

	"github.com/waterclock/waterclock/internal/near"
)

// Spec is what a caller asked for. Texts are as the contract writes them.
type Spec struct {
	// Recurrence is "RRULE:FREQ=…", "FREQ=…", "cron:0 9 * * 1-5",
	// "cron:@daily" or "every:15m". It may be empty if Include is not.
	Recurrence string
	// Start is the first moment that counts and gives the rule its phase: a
	// local date-time or an instant. Empty: strictly after Append, phased on it.
	Start string
	// Zone is an IANA name; empty means UTC.
	Zone string
	// Include adds dates (RDATE): local date-times, instants, or bare dates,
	// which take the time of day of the start (00:00 where there is no rule
	// and no start). Until and Count do not touch them.
	Include []string
	// Exclude removes (EXDATE): a local date-time or instant the one
	// occurrence, a bare date all of that local day. It beats Include.
	Exclude []string
	// Until is the last moment that counts, inclusive: an instant, or a local
	// date-time that is compared with wall times. A bare date is refused.
	Until string
	// Count ends the rule after so many candidates, counted before Exclude.
	// 0 means no count.
	Count int
	// DST decides on gaps and overlaps.
	DST DST
	// Calendars skips or moves occurrences on holidays; nil: none.
	Calendars *CalendarRule
	// Append is when the command was appended, unix ms. It stands in for a
	// Start, and the horizon is counted from it.
	Append int64
	// Limits bounds the rule; the zero value is the contract's defaults.
	Limits Limits
}

// Limits are a tenant's bounds on a rule. In every field 0 means the default
// and -1 no bound.
type Limits struct {
	MinPeriod    time.Duration // shortest period; default 1 minute
	MaxInterval  int           // INTERVAL; default 10,000
	MaxCount     int           // COUNT; default 100,000; more is counted no further than countSteps
	HorizonYears int           // how far ahead the first occurrence may be; default 100
	RuleBytes    int           // length of Recurrence; default 512
	MaxDates     int           // Include and Exclude together; default 512
}

// countSteps bounds the walk that turns COUNT into a last occurrence.
const countSteps = 100_000

// Preview is l as POST /v1/preview applies it: no shortest period, no bound on
// INTERVAL and COUNT, no horizon. The sizes that keep the work bounded stay.
func (l Limits) Preview() Limits {
	l.MinPeriod, l.MaxInterval, l.MaxCount, l.HorizonYears = -1, -1, -1, -1
	return l
}

func (l Limits) withDefaults() Limits {
	or(&l.MinPeriod, time.Minute, 1<<62)
	or(&l.MaxInterval, 10_000, 1<<40)
	or(&l.MaxCount, countSteps, 1<<62)
	or(&l.HorizonYears, 100, 1<<30)
	or(&l.RuleBytes, 512, 1<<16)
	or(&l.MaxDates, 512, 1<<16)
	if l.MinPeriod == 1<<62 {
		l.MinPeriod = 0
	}
	return l
}

func or[T ~int | ~int64](v *T, def, unbounded T) {
	switch {
	case *v == 0:
		*v = def
	case *v < 0:
		*v = unbounded
	}
}

// CalendarRule is the contract's `calendars` field with its names resolved.
type CalendarRule struct {
	Names []string
	On    string // skip, next_business_day or previous_business_day
	Sets  []DateSet
}

// What becomes of an occurrence on a day of a calendar.
const (
	OnSkip     = "skip"                  // an occurrence on a listed date does not fire
	OnNext     = "next_business_day"     // it moves to the next Monday to Friday that is not listed
	OnPrevious = "previous_business_day" // likewise, to the one before
)

// DateSet is a named calendar: local dates, sorted.
type DateSet []Date

// NewDateSet reads dates such as "2026-12-25", in any order.
func NewDateSet(dates []string) (DateSet, error) {
	set := make(DateSet, 0, len(dates))
	for _, s := range dates {
		d, err := ParseDate(s)
		if err != nil {
			return nil, in("calendars", err)
		}
		set = append(set, d)
	}
	slices.Sort(set)
	return slices.Compact(set), nil
}

// Has tells whether a date is listed.
func (s DateSet) Has(d Date) bool {
	_, ok := slices.BinarySearch(s, d)
	return ok
}

// holidays is a CalendarRule at work. It acts on the scheduled wall date,
// before that is resolved; the identity stays the scheduled wall time.
//
// A business day is a Monday to Friday that no set lists. The two moving
// modes move whatever is not on a business day, weekends included (ISDA's
// "following" and "preceding"); skip looks at the listed dates alone.
type holidays struct {
	on   string
	runs []dateRun // of listed dates; where they move, with the weekends next to them
	move int       // the most days an occurrence may move
}

// dateRun is dates that follow each other, both ends included.
type dateRun struct{ lo, hi Date }

// maxMove bounds a move; a set without a business day in so many days skips.
const maxMove = 366

func newHolidays(c *CalendarRule) (*holidays, error) {
	if c == nil {
		return nil, nil
	}
	known := []string{OnSkip, OnNext, OnPrevious}
	if !slices.Contains(known, c.On) {
		return nil, fail(CodeInvalid, "calendars", "on is %s%s; write skip, next_business_day or previous_business_day",
			clip(c.On), near.Hint(c.On, known))
	}
	h := &holidays{on: c.On}
	all := slices.Concat(c.Sets...)
	if len(c.Sets) > 1 {
		slices.Sort(all)
	}
	for _, d := range all {
		h.add(d)
	}
	if c.On != OnSkip {
		h.move = 2 // a plain weekend
		for _, r := range h.runs {
			h.move = max(h.move, min(int(r.hi-r.lo)+1, maxMove-1))
		}
	}
	return h, nil
}

// add takes the next listed date. Its run is finished by the weekend behind it,
// so that one listed from the Monday on joins it.
func (h *holidays) add(d Date) {
	r := dateRun{d, d}
	if h.on != OnSkip {
		for weekend(r.lo - 1) {
			r.lo--
		}
		for weekend(r.hi + 1) {
			r.hi++
		}
	}
	if n := len(h.runs); n > 0 && r.lo <= h.runs[n-1].hi+1 {
		h.runs[n-1].hi = max(h.runs[n-1].hi, r.hi)
		return
	}
	h.runs = append(h.runs, r)
}

func weekend(d Date) bool {
	wd := weekdayOf(int(d))
	return wd == 0 || wd == 6
}

// run is the one that a date is in.
func (h *holidays) run(d Date) (r dateRun, ok bool) {
	i, _ := slices.BinarySearchFunc(h.runs, d, func(r dateRun, d Date) int { return int(r.hi) - int(d) })
	if i == len(h.runs) || h.runs[i].lo > d {
		return dateRun{}, false
	}
	return h.runs[i], true
}

// apply returns the date an occurrence scheduled on d fires on; not ok: none.
func (h *holidays) apply(d Date) (to Date, ok bool) {
	if h == nil {
		return d, true
	}
	r, in := h.run(d)
	switch {
	case h.on == OnSkip:
		return d, !in
	case !in && !weekend(d):
		return d, true
	case !in: // a plain weekend
		for r = (dateRun{d, d}); weekend(r.lo - 1); r.lo-- {
		}
		for weekend(r.hi + 1) {
			r.hi++
		}
	}
	if to = r.hi + 1; h.on == OnPrevious {
		to = r.lo - 1
	}
	return to, max(to-d, d-to) < maxMove
}

// lastBy is the last date that apply leaves on a date, or moves to it or before it.
func (h *holidays) lastBy(date Date) Date {
	last := date
	switch h.on {
	case OnNext:
		for to, _ := h.apply(last); to > date && date-last < maxMove; to, _ = h.apply(last) {
			last--
		}
	case OnPrevious:
		for to, _ := h.apply(last + 1); to <= date && last-date < maxMove; to, _ = h.apply(last + 1) {
			last++
		}
	}
	return last
}

// ahead and behind are how far, in ms, firing may lie after and before the
// scheduled wall time.
func (h *holidays) ahead() int64 {
	if h == nil || h.on != OnNext {
		return 0
	}
	return int64(h.move) * msPerDay
}

func (h *holidays) behind() int64 {
	if h == nil || h.on != OnPrevious {
		return 0
	}
	return int64(h.move) * msPerDay
}
