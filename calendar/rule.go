package calendar

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
)

// Rule is a compiled Spec. It is immutable, apart from caches that any
// goroutine may fill, and safe for concurrent use.
type Rule struct {
	zone *Zone
	dst  DST
	kind ruleKind

	walls *wallSet // onWalls
	grid  grid     // onGrid
	step  int64    // onInterval: ms

	subMs     int64 // the start's milliseconds past the second
	startWall Wall  // onWalls: no candidate is before it
	startAt   int64 // no occurrence of the rule is before this instant, but one that a holiday moved there
	lastWall  Wall  // onWalls: no candidate is after it (COUNT, local UNTIL)
	untilAt   int64 // likewise, after this instant
	countedTo int64 // if not 0: COUNT is larger than was counted, and does not end the rule up to here
	floor     int64 // Next and First look strictly after it: the append of a rule without start

	start    string
	include  []Occurrence // sorted, distinct
	exclude  excluded
	holidays *holidays
	source   source

	closestOnce sync.Once // fills closestMs
	closestMs   int64
}

type ruleKind uint8

const (
	onWalls    ruleKind = iota // wall times, resolved: FREQ ≥ DAILY, cron with fixed hours and minutes
	onGrid                     // instants, by their local reading: FREQ < DAILY with BY parts, cron with *
	onInterval                 // elapsed time alone: every:, FREQ < DAILY without BY parts
	onDates                    // include only
)

// source is what was compiled, for Describe.
type source struct {
	rule *recurRule
	cron *cronExpr
}

const (
	minInstant = math.MinInt64 / 4
	maxInstant = int64(253_402_300_799_999) // 9999-12-31T23:59:59.999Z
)

// Zone is the zone in which the rule's wall times are resolved.
func (r *Rule) Zone() *Zone { return r.zone }

// Start is the start to store: the caller's, or for a Spec without one the
// first candidate after Append. Compiling with it keeps phase and count.
func (r *Rule) Start() string { return r.start }

// ElapsedTime tells whether occurrences are identified by their instant, as
// those of every: and of FREQ below DAILY: then no zone can move them unless
// BY parts read local time, and `rezone` has nothing to move.
func (r *Rule) ElapsedTime() bool {
	switch r.kind {
	case onWalls:
		return false
	case onGrid:
		return r.source.cron == nil
	case onInterval:
		return true
	}
	return !slices.ContainsFunc(r.include, func(o Occurrence) bool { return !o.Elapsed })
}

// Next returns the first occurrence strictly after an instant (unix ms). ok
// is false when the rule has ended, or fires not once in the next 400 years.
// The cost does not depend on the age of the series: a few microseconds,
// and under 10 ms for rules made to be slow.
func (r *Rule) Next(after int64) (Occurrence, bool, error) {
	after = max(after, r.floor)
	o, ok, err := r.nextOfRule(after)
	if err != nil {
		return Occurrence{}, false, err
	}
	i, _ := slices.BinarySearchFunc(r.include, after+1, func(o Occurrence, at int64) int {
		return cmp.Compare(o.At, at)
	})
	if i < len(r.include) && (!ok || r.include[i].before(o)) {
		return r.include[i], true, nil
	}
	return o, ok, nil
}

// First is the first occurrence of all; for a Spec without start, after Append.
func (r *Rule) First() (Occurrence, bool, error) { return r.Next(minInstant) }

// Named returns the occurrence with an ID as zone and calendars have it now: at another instant
// than before, if they moved it. Where several wall times fall on its instant, it is the one
// that stands for all. ok is false if zone or calendars leave it out.
func (r *Rule) Named(id string) (Occurrence, bool, error) {
	for _, at := range r.instantsOf(id) {
		if o, ok, err := r.Next(at - 1); err != nil || ok && o.At == at {
			return o, ok, err
		}
	}
	return Occurrence{}, false, nil
}

// instantsOf lists the instants that an occurrence's ID may mean.
func (r *Rule) instantsOf(id string) (all []int64) {
	text, fold := strings.CutSuffix(id, "+f1")
	wall, err := ParseWall(text)
	if err != nil {
		if at, err := ParseInstant(id); err == nil {
			all = append(all, at)
		}
		return all
	}
	for _, o := range r.include {
		if !o.Elapsed && o.Local == wall && o.Fold == fold {
			all = append(all, o.At)
		}
	}
	moved := wall
	if r.kind == onWalls {
		to, fires := r.holidays.apply(wall.Date())
		if !fires {
			return all
		}
		moved += Wall(to-wall.Date()) * msPerDay
	}
	for _, res := range r.zone.Resolve(moved, DST{Gap: r.dst.Gap, Overlap: OverlapBoth}) {
		if res.Fold == fold {
			all = append(all, res.At)
		}
	}
	return all
}

// LastBy is the last date whose wall times fire on a date or before it, as the calendars move them.
func (r *Rule) LastBy(date Date) Date {
	if r.kind != onWalls || r.holidays == nil {
		return date
	}
	return r.holidays.lastBy(date)
}

// LocalTime writes what clocks in the zone show when o fires:
// 2026-11-20T09:00:00[America/New_York]. In a gap that is the shifted time.
func (r *Rule) LocalTime(o Occurrence) string {
	return r.zone.Wall(o.At).String() + "[" + r.zone.name + "]"
}

// LocalOffset is LocalTime as RFC 3339: 2026-03-08T03:30:00-04:00.
func (r *Rule) LocalOffset(o Occurrence) string { return r.zone.format(o.At) }

func (r *Rule) nextOfRule(after int64) (Occurrence, bool, error) {
	after = max(after, r.startAt-1-r.holidays.behind())
	if after-r.holidays.ahead() >= r.untilAt || after > maxInstant {
		return Occurrence{}, false, nil
	}
	switch r.kind {
	case onWalls:
		return r.nextOnWalls(after)
	case onGrid:
		return r.nextOnGrid(after)
	case onInterval:
		return r.nextOnInterval(after)
	}
	return Occurrence{}, false, nil
}

// nextOnWalls resolves wall times in order until no later one can become an
// earlier instant. Away from clock changes that is the first one.
func (r *Rule) nextOnWalls(after int64) (best Occurrence, ok bool, err error) {
	upset := r.zone.disturbance(floorDiv(after, 1000)) * 1000
	first := int64(r.zone.Wall(after)) - upset - r.holidays.ahead()
	from := max(floorDiv(first-r.subMs, 1000), ceilDiv(int64(r.startWall)-r.subMs, 1000))
	limit := r.lastWall
	for {
		w, found, err := r.walls.next(from)
		wall := Wall(w*1000 + r.subMs)
		if err != nil || !found || wall > limit {
			return best, ok, err
		}
		from = w + 1
		to, fires := r.holidays.apply(wall.Date())
		if !fires || r.exclude.day(wall.Date()) {
			from = (int64(wall.Date()) + 1) * secondsPerDay
			continue
		}
		moved := wall + Wall(to-wall.Date())*msPerDay
		o, found := r.resolve(wall, moved, after)
		if !found || ok && !o.before(best) {
			continue
		}
		best, ok = o, true
		late := r.zone.disturbance(floorDiv(o.At, 1000))*1000 + r.holidays.behind()
		if late == 0 && r.holidays.ahead() == 0 {
			return best, true, nil
		}
		limit = min(r.lastWall, moved+Wall(late))
	}
}

// resolve returns the first instant after `after` at which the wall time
// fires, having been moved from one date to another by a holiday.
func (r *Rule) resolve(wall, moved Wall, after int64) (Occurrence, bool) {
	var buf [2]Resolved
	n := r.zone.resolve(moved, r.dst, &buf)
	if moved != wall && r.Includes(wall) {
		return Occurrence{}, false // of that name there is one already, on the day that was asked for
	}
	for _, res := range buf[:n] {
		o := Occurrence{At: res.At, Local: wall, Fold: res.Fold}
		scheduled := res.At
		if moved != wall {
			scheduled = r.zone.ResolveFirst(wall)
			o.Note = "moved to " + moved.Date().String() + " (" + r.holidays.on + ")"
		} else if res.Twice || res.Shift != 0 {
			o.Note = res.note()
		}
		if res.At > after && r.startAt <= scheduled && scheduled <= r.untilAt && !r.exclude.has(scheduled, wall) {
			return o, true
		}
	}
	return Occurrence{}, false
}

// Includes says whether include names a wall time.
func (r *Rule) Includes(wall Wall) bool {
	return slices.ContainsFunc(r.include, func(o Occurrence) bool { return !o.Elapsed && o.Local == wall })
}

// Dates lists what include adds to the rule, in order.
func (r *Rule) Dates() []Occurrence { return slices.Clone(r.include) }

func (r *Rule) nextOnGrid(after int64) (Occurrence, bool, error) {
	spare := effort(searchEffort) // for all of it: what is left out costs a search each
	for t := floorDiv(after-r.subMs, 1000) + 1; ; {
		u, ok, err := r.grid.nextWithin(r.zone, t, &spare)
		at := u*1000 + r.subMs
		if !ok || err != nil || at > r.untilAt {
			return Occurrence{}, false, err
		}
		wall := r.zone.Wall(at)
		if skip := r.skipTo(at, wall); skip > at {
			t = floorDiv(skip-1-r.subMs, 1000) + 1
			continue
		}
		if r.source.cron == nil {
			return Occurrence{At: at, Elapsed: true}, true, nil
		}
		return r.zone.reading(at, wall), true, nil
	}
}

func (r *Rule) nextOnInterval(after int64) (Occurrence, bool, error) {
	for {
		at := r.startAt
		if after >= at {
			at += (floorDiv(after-at, r.step) + 1) * r.step
		}
		if at > r.untilAt || at > maxInstant {
			return Occurrence{}, false, nil
		}
		skip := r.skipTo(at, r.zone.Wall(at))
		if skip == at {
			return Occurrence{At: at, Elapsed: true}, true, nil
		}
		after = skip - 1
	}
}

// skipTo returns at itself if an instant that reads wall fires, else the
// instant to go on from: the next, or the end of a day that is left out.
func (r *Rule) skipTo(at int64, wall Wall) int64 {
	day := wall.Date()
	_, fires := r.holidays.apply(day)
	switch {
	case !fires || r.exclude.day(day):
		return max(at+1, r.zone.ResolveFirst(Wall(day+1)*msPerDay))
	case r.exclude.has(at, wall):
		return at + 1
	}
	return at
}

// reading is the occurrence of an instant that is known by its local reading.
func (z *Zone) reading(at int64, wall Wall) Occurrence {
	o := Occurrence{At: at, Local: wall}
	var buf [2]Resolved
	for _, res := range buf[:z.resolve(wall, DST{Overlap: OverlapBoth}, &buf)] {
		if res.At == at {
			o.Fold, o.Note = res.Fold, res.note()
		}
	}
	return o
}

// format writes an instant as the zone's clocks show it, RFC 3339.
func (z *Zone) format(at int64) string {
	off := z.Offset(at)
	b := Wall(at + int64(off)*1000).append(make([]byte, 0, 32))
	if off == 0 {
		return string(append(b, 'Z'))
	}
	sign := byte('+')
	if off < 0 {
		sign, off = '-', -off
	}
	b = appendDigits(append(b, sign), off/3600, 2)
	return string(appendDigits(append(b, ':'), off/60%60, 2))
}

// excluded is a rule's exclusions, in the three forms people write them.
type excluded struct {
	instants map[int64]struct{} // also the instants that the wall times mean
	walls    map[Wall]struct{}
	days     map[Date]struct{}
}

func (x *excluded) day(d Date) bool {
	_, ok := x.days[d]
	return ok
}

func (x *excluded) none() bool { return len(x.instants) == 0 && len(x.walls) == 0 && len(x.days) == 0 }

func (x *excluded) has(at int64, wall Wall) bool {
	if len(x.instants) == 0 && len(x.walls) == 0 {
		return false
	}
	if _, ok := x.instants[at]; ok {
		return true
	}
	_, ok := x.walls[wall]
	return ok
}
