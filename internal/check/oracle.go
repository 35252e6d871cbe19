package check

import (
	"fmt"
	"sort"
	"strings"
	"time"
)

// recurrence is the decoded time part of a series in a command.
type recurrence struct {
	text             string // RRULE:…, FREQ=…, cron:…, every:…; "": dates alone
	start            string // as given; "": the append
	zone             string // "": UTC
	until            string
	count            int
	include, exclude []string
	gap, overlap     string
	calendars        []string  // names of calendars
	on               string    // what happens on their dates
	holidays         *holidays // those dates; nil: it names no calendar
}

// series is a compiled recurrence. It belongs to one goroutine.
type series struct {
	clock        *clockwork
	gap, overlap string

	rule  *rrule
	cron  *cronRule
	every int64 // ms

	start     wall  // phase, and first time at which it may fire
	frac      int64 // milliseconds within the second, of every wall time
	startAt   int64 // ms
	strict    bool  // no start was given: occurrences are strictly after it
	byInstant bool  // the start is an instant, or the append: local times are compared by their instants
	count     int   // 0: no end
	untilAt   int64 // ms; 0: none
	untilWall wall
	hasWall   bool // untilWall is set

	include     []occurrence
	outDays     map[int64]bool
	outWalls    map[wall]bool
	outInstants map[int64]bool
	holidays    *holidays // nil: none
}

// occurrence is one instant of a series, with its name within the life, and its local time if it
// has one.
type occurrence struct {
	at    int64 // ms
	name  string
	local wall
	named bool  // it is named by a local time
	shift int64 // by how many days a calendar has moved it from local
	meant int64 // with shift: the instant from which it was moved, ms

	also []string // names of others at the same instant, for which it stands
}

// shown is the local time for which it is planned.
func (o *occurrence) shown() wall { return o.local + wall(o.shift*86400) }

// ruled is the instant by which its rule ends and its dates are excluded (ms).
func (o *occurrence) ruled() int64 {
	if o.shift != 0 {
		return o.meant
	}
	return o.at
}

// newSeries compiles a recurrence. appended is the first append of its command (ms). anchor, if
// not nil, is the start that an earlier command fixed (docs/decisions/0009).
func newSeries(r *recurrence, zones *Zones, appended int64, anchor *phaseStart) (*series, error) {
	loc, ok := zones.location(r.zone)
	if !ok {
		return nil, fmt.Errorf("%w: zone %q", errRule, r.zone)
	}
	s := &series{
		clock: newClockwork(loc), gap: r.gap, overlap: r.overlap, count: r.count,
		outDays: map[int64]bool{}, outWalls: map[wall]bool{}, outInstants: map[int64]bool{}, holidays: r.holidays,
	}
	if err := s.begin(r, appended, anchor); err != nil {
		return nil, err
	}
	if err := s.setText(r.text); err != nil {
		return nil, err
	}
	if err := s.end(r.until); err != nil {
		return nil, err
	}
	return s, s.dates(r)
}

// phaseStart is the start of a series that was given none.
type phaseStart struct {
	wall wall
	frac int64
	at   int64
}

// begin computes the start. If the append is the start, it has whole seconds. For every:, its
// phase has milliseconds.
func (s *series) begin(r *recurrence, appended int64, anchor *phaseStart) error {
	every := strings.HasPrefix(r.text, "every:")
	switch {
	case r.start == "" && anchor != nil:
		s.start, s.frac, s.startAt, s.strict, s.byInstant = anchor.wall, anchor.frac, anchor.at, true, true
		if elapsedText(r.text) { // elapsed time does not depend on a zone
			s.start = s.clock.show(floorDiv(s.startAt, 1000))
		} else { // a local time stays the same across clock changes
			if p := s.clock.resolve(s.start, "shift", "first"); len(p) > 0 && s.clock.show(floorDiv(s.startAt,
				1000)) != s.start {
				s.startAt = s.notBefore(p[0].at, s.start) * 1000
				// In a gap it is the gap's end, whose wall time is later than the one the series began after.
				s.strict = s.clock.show(floorDiv(s.startAt, 1000)) == s.start
			}
		}
	case r.start == "":
		s.startAt, s.strict, s.byInstant = appended, true, true
		if !every {
			s.startAt = floorDiv(appended, 1000) * 1000
		}
		s.start = s.clock.show(floorDiv(s.startAt, 1000))
		s.frac = s.startAt - floorDiv(s.startAt, 1000)*1000
	default:
		if w, frac, ok := localTime(r.start); ok {
			s.start, s.frac = w, frac
			p := s.clock.resolve(w, "shift", s.overlap)
			s.startAt = p[0].at*1000 + frac
			if liveText(r.text) && len(s.clock.instants(w)) == 0 { // it has no phase, so the start is only a bound
				s.startAt = s.notBefore(p[0].at, w) * 1000
			}
			return nil
		}
		at, ok := instantText(r.start)
		if !ok {
			return fmt.Errorf("%w: start %q", errRule, r.start)
		}
		s.startAt, s.frac, s.byInstant = at, at-floorDiv(at, 1000)*1000, true
		s.start = s.clock.show(floorDiv(at, 1000))
	}
	return nil
}

// liveText reports whether a rule is a cron expression that follows real time.
func liveText(text string) bool {
	fields, ok := strings.CutPrefix(text, "cron:")
	if !ok {
		return false
	}
	c, err := parseCron(fields)
	return err == nil && c.live
}

// notBefore returns the first second, at or before t, from which the local time is at least w. If
// w is in a gap, that is the end of the gap, because no clock shows w itself.
func (s *series) notBefore(t int64, w wall) int64 {
	for s.clock.show(t-1) > w {
		t -= min(60, int64(s.clock.show(t-1)-w))
	}
	return t
}

// elapsedText reports whether a rule counts elapsed time.
func elapsedText(text string) bool {
	if strings.HasPrefix(text, "every:") {
		return true
	}
	r, err := parseRRule(text)
	return err == nil && r.freq >= hourly
}

// localTime parses a local time, with up to nine digits of fractional seconds.
func localTime(s string) (w wall, frac int64, ok bool) {
	if whole, f, cut := strings.Cut(s, "."); cut && len(whole) == 19 && f != "" && len(f) <= 9 {
		_, fine := digits([]byte(f))
		n, _ := digits([]byte((f + "000")[:3]))
		w, date, ok := parseWall(whole)
		return w, int64(n), ok && fine && !date
	}
	w, date, ok := parseWall(s)
	return w, 0, ok && !date
}

// instantText parses RFC 3339, or 10 or 13 digits.
func instantText(s string) (int64, bool) {
	if len(s) == 10 || len(s) == 13 {
		if n, ok := number([]byte(s)); ok && n >= 0 {
			if len(s) == 10 {
				n *= 1000
			}
			return n, true
		}
	}
	s = strings.ToUpper(s)
	for _, layout := range instantLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UnixMilli(), true
		}
	}
	return 0, false
}

// instantLayouts are RFC 3339, also without seconds, and with offsets without a colon.
var instantLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05.999999999Z0700",
	"2006-01-02T15:04Z0700",
}

func (s *series) setText(text string) (err error) {
	switch {
	case text == "":
		return nil
	case strings.HasPrefix(text, "every:"):
		d, ok := duration(text[len("every:"):])
		if !ok || d < time.Millisecond {
			return fmt.Errorf("%w: %q", errRule, text)
		}
		s.every = d.Milliseconds()
	case strings.HasPrefix(text, "cron:"):
		s.cron, err = parseCron(text[len("cron:"):])
	default:
		if s.rule, err = parseRRule(text); err != nil {
			return err
		}
		s.rule.fill(s.start)
		if s.rule.count > 0 {
			s.count = s.rule.count
		}
		if s.rule.hasUntil && s.rule.untilUTC {
			s.untilAt = int64(s.rule.until)*1000 + 999
		} else if s.rule.hasUntil {
			s.setUntil(s.rule.until, 999)
		}
	}
	return err
}

// setUntil sets the end of a rule. A rule of elapsed time ends at an instant: the later one in an
// overlap, and in a gap one that is later by the gap; cron that follows real time ends at the
// gap. A rule of local times ends at a local time.
func (s *series) setUntil(w wall, frac int64) {
	if s.every > 0 || s.cron != nil && s.cron.live || s.rule != nil && s.rule.freq >= hourly {
		at := s.clock.resolve(w, "shift", "second")[0].at
		s.untilAt = at*1000 + frac
		if s.cron != nil && len(s.clock.instants(w)) == 0 {
			s.untilAt = s.notBefore(at, w)*1000 - 1
		}
		return
	}
	s.untilWall, s.hasWall = w, true
}

func (s *series) end(until string) error {
	if until == "" {
		return nil
	}
	if w, frac, ok := localTime(until); ok {
		s.setUntil(w, frac)
		return nil
	}
	at, ok := instantText(until)
	if !ok {
		return fmt.Errorf("%w: until %q", errRule, until)
	}
	s.untilAt = at
	return nil
}

// dates parses include and exclude. A bare date in include takes the time of day of an explicit
// start.
func (s *series) dates(r *recurrence) error {
	for _, text := range r.exclude {
		if w, date, ok := parseWall(text); ok && date {
			s.outDays[w.day()] = true
		} else if w, _, ok := localTime(text); ok {
			s.outWalls[w] = true
			if len(s.clock.instants(w)) == 0 { // the zone skips it, so it stands for the shifted time
				for _, p := range s.clock.resolve(w, s.gap, s.overlap) {
					s.outInstants[p.at*1000] = true
				}
			}
		} else if at, ok := instantText(text); ok {
			s.outInstants[at] = true
		} else {
			return fmt.Errorf("%w: exclude %q", errRule, text)
		}
	}
	for _, text := range r.include {
		w, date, ok := parseWall(text)
		frac := int64(0)
		if date && r.start != "" {
			w, frac = wall(w.day()*86400+int64(s.start)-s.start.day()*86400), s.frac
		} else if !date {
			w, frac, ok = localTime(text)
		}
		if ok {
			s.include = append(s.include, s.atWall(w, frac)...)
			continue
		}
		at, ok := instantText(text)
		if !ok {
			return fmt.Errorf("%w: include %q", errRule, text)
		}
		s.include = append(s.include, occurrence{at: at, name: spell(at), local: s.clock.show(floorDiv(at, 1000))})
	}
	sort.SliceStable(s.include, func(i, j int) bool { return s.include[i].at < s.include[j].at })
	return nil
}

// atWall returns the occurrences at a local time under the trigger's policies.
func (s *series) atWall(w wall, frac int64) (out []occurrence) {
	for _, p := range s.clock.resolve(w, s.gap, s.overlap) {
		out = append(out, occurrence{
			at: p.at*1000 + frac, name: wallName(w, frac, p.second),
			local: w, named: true,
		})
	}
	return out
}

func wallName(w wall, frac int64, second bool) string {
	name := w.String()
	if frac > 0 {
		name += fmt.Sprintf(".%03d", frac)
	}
	if second {
		name += "+f1"
	}
	return name
}

// excluded is the last check on an occurrence of the rule or of include.
func (s *series) excluded(o *occurrence) bool {
	w := o.local
	return s.outDays[w.day()] || s.outWalls[w] || s.outInstants[o.ruled()]
}

// leavesOut reports whether an occurrence of the rule is excluded: before it comes to the instant of another, or,
// with a calendar, another is moved to its own.
func (s *series) leavesOut(o *occurrence) bool {
	return s.outDays[o.local.day()] || (o.shift != 0 || s.holidays != nil) && s.excluded(o)
}

// past reports whether an occurrence is after the end of the rule.
func (s *series) past(o *occurrence) bool {
	return s.untilAt != 0 && o.ruled() > s.untilAt || s.hasWall && o.local > s.untilWall
}
