package trigger

import (
	"slices"
	"sort"
	"time"

	"github.com/waterclock/waterclock/calendar"
)

// NameStep is a part of what is decided of a rule, by the names of its occurrences: of the times of day up to Until,
// and after that of the step before, all names are decided up to Day. Names stay what they are when a calendar is
// edited or the series moves to another zone; instants do not.
type NameStep struct {
	Until calendar.Wall // a time of day
	Day   calendar.Date
}

// wallDay is a day of wall time.
const wallDay = calendar.Wall(24 * time.Hour / time.Millisecond)

// maxSteps bounds them. Of more, the two next to each other that differ least become one, with the later day. So what
// is decided stays so, and some names that are not count as decided.
const maxSteps = 64

// keepsNames reports whether a series needs Decided: else After and the zone say the same.
func (w *When) keepsNames(p *Series) bool { return w.movesDays() || len(p.Decided) > 0 }

// movesNames reports whether names say what is decided, and calendars may have moved what is not to before After.
func (w *When) movesNames(n *names) bool { return !n.none() && w.movesDays() }

// passed has the names that r's calendars, as they are now, have let pass up to an instant: on the days that were moved
// to earlier ones, and on this one up to the time of day that clocks have shown.
func (r rule) passed(at Instant) []NameStep {
	shown := shown(r.Zone(), int64(at))
	day := shown.Date()
	return raise(
		[]NameStep{{timeOfDay(shown), r.LastBy(day)}},
		[]NameStep{{wallDay - 1, r.LastBy(day - 1)}},
	)
}

// shown is the wall time up to which everything has been on clocks. In the second pass of an overlap that is its end.
// After a gap it is what clocks would show without it, since what lies in the gap fires that much later.
func shown(z *calendar.Zone, at int64) calendar.Wall {
	const while = int64(3 * time.Hour / time.Millisecond)
	wall, before := z.Wall(at), z.Wall(at-while)+calendar.Wall(while)
	if before <= wall {
		return before
	}
	n := sort.Search(int(before-wall), func(n int) bool { return z.ResolveFirst(wall+calendar.Wall(n)+1) > at })
	return wall + calendar.Wall(n)
}

// raise has all names of both.
func raise(a, b []NameStep) (out []NameStep) {
	for _, t := range times(a, b) {
		x, inA := dayAt(a, t)
		y, inB := dayAt(b, t)
		if !inA || inB && y > x {
			x = y
		}
		out = addStep(out, t, x)
	}
	return bounded(out)
}

// pass moves a plan on: the names that are in passed and not in before are decided now. Of a time of day, what is
// decided lies between begun and decided. Those up to begun that were given back join it when their day comes.
func pass(decided, begun, before, passed []NameStep) (newDecided, newBegun []NameStep) {
	if len(begun) == 0 {
		return raise(decided, passed), nil
	}
	for _, t := range times(decided, begun, before, passed) {
		from, _ := dayAt(begun, t)
		to, some := dayAt(decided, t)
		was, _ := dayAt(before, t)
		is, _ := dayAt(passed, t)
		switch none := !some || to <= from; {
		case was == is: // none of them passed
		case none && was < is:
			from, to = min(from, was), is
		case none || is <= from: // given back in part, and some after it are decided: those stay so
			to = max(to, is)
		default:
			from, to = min(from, was), max(to, is)
		}
		newDecided, newBegun = addStep(newDecided, t, to), addStep(newBegun, t, from)
	}
	return bounded(newDecided), bounded(newBegun)
}

// times has the times of day at which a step ends.
func times(all ...[]NameStep) (until []calendar.Wall) {
	for _, s := range slices.Concat(all...) {
		until = append(until, s.Until)
	}
	slices.Sort(until)
	return slices.Compact(until)
}

// addStep adds a step, or makes the last one longer.
func addStep(steps []NameStep, until calendar.Wall, day calendar.Date) []NameStep {
	if n := len(steps); n > 0 && steps[n-1].Day == day {
		steps[n-1].Until = until
		return steps
	}
	return append(steps, NameStep{until, day})
}

// bounded has at most maxSteps.
func bounded(out []NameStep) []NameStep {
	for len(out) > maxSteps {
		near := 0
		for i := range out[:len(out)-1] {
			if apart(out[i:]) < apart(out[near:]) {
				near = i
			}
		}
		out[near+1].Day = max(out[near].Day, out[near+1].Day)
		out = slices.Delete(out, near, near+1)
	}
	return out
}

// lowest is the first day of the steps, or day if that is before it.
func lowest(steps []NameStep, day calendar.Date) calendar.Date {
	for _, s := range steps {
		day = min(day, s.Day)
	}
	return day
}

func timeOfDay(wall calendar.Wall) calendar.Wall { return wall - calendar.Wall(wall.Date())*wallDay }

// apart is how many days lie between the first two steps.
func apart(s []NameStep) calendar.Date { return max(s[0].Day-s[1].Day, s[1].Day-s[0].Day) }

// dayAt is the last decided day of a time of day.
func dayAt(steps []NameStep, t calendar.Wall) (calendar.Date, bool) {
	for _, s := range steps {
		if t <= s.Until {
			return s.Day, true
		}
	}
	return 0, false
}

// below reports whether a name is among the steps.
func below(steps []NameStep, name calendar.Wall) bool {
	day, ok := dayAt(steps, timeOfDay(name))
	return ok && name.Date() <= day
}

// names is what is decided of a rule, without what had passed when it began.
type names struct {
	decided, begun []NameStep
	rule           rule    // no calendar moves its dates
	after          Instant // of what has no name here, or had passed when the rule began, all up to this is decided
}

// has reports whether an occurrence is decided by its name. The second pass of an overlap has the names of the first.
func (n *names) has(o occurrence) bool {
	if n.none() { // instants say it
		return n != nil && o.At <= n.after
	}
	wall, err := calendar.ParseWall(bare(o.ID)) // not of a second pass
	if err != nil || n.rule.Includes(wall) || below(n.begun, wall) {
		return o.At <= n.after
	}
	return below(n.decided, wall)
}

// until is n with another After.
func (n *names) until(after Instant) *names {
	if n == nil {
		return nil
	}
	return &names{n.decided, n.begun, n.rule, after}
}

// late is n for an occurrence that counts although it is past, as one of the rule's own does. A date of include does
// not.
func (n *names) late(o occurrence) *names {
	if n == nil {
		return nil
	}
	if wall, err := calendar.ParseWall(bare(o.ID)); err == nil && n.rule.Includes(wall) {
		return n
	}
	return n.until(minInstant)
}

// none reports whether no name says anything.
func (n *names) none() bool { return n == nil || len(n.decided)+len(n.begun) == 0 }

// first is an instant before all that is not decided by its name: an edit of a calendar may have moved it to the past.
func (n *names) first(from Instant) Instant {
	tod := calendar.Wall(0)
	for _, s := range raise(n.decided, n.begun) {
		from = min(from, Instant(n.rule.Zone().Reach(calendar.Wall(n.dayAfter(s.Day))*wallDay+tod)-1))
		tod = s.Until + 1
	}
	return from
}

// dayAfter is the first day on which anything fires that is named after a day.
func (n *names) dayAfter(day calendar.Date) calendar.Date {
	later := func(date calendar.Date) bool { return n.rule.LastBy(date) > day }
	if later(day) {
		most := 2 * int(maxAhead.Hours()/24)
		back := sort.Search(most, func(days int) bool { return !later(day - calendar.Date(days)) })
		return day + 1 - calendar.Date(back)
	}
	const farthest = 366 // no calendar moves a day further
	ahead := sort.Search(farthest, func(days int) bool { return later(day + 1 + calendar.Date(days)) })
	return day + 1 + calendar.Date(ahead%farthest)
}

// behind is the instant from which to look for what is undecided, behind so many that have their names among the
// decided ones. Of many, all days that are decided whole are left out at once.
func (n *names) behind(o occurrence, seen int) Instant {
	if seen%maxReplanSteps != 0 {
		return o.At
	}
	next := n.dayAfter(lowest(n.decided, n.last()))
	return max(o.At, Instant(n.rule.Zone().ResolveFirst(calendar.Wall(next)*wallDay)-1))
}

// dayOfName is the day in an occurrence's id, or the first of all if it has none.
func dayOfName(id string) calendar.Date {
	wall, err := calendar.ParseWall(wallOfID(id))
	if err != nil {
		return 0
	}
	return wall.Date()
}

// last is the last day of which a name is decided.
func (n *names) last() (day calendar.Date) {
	if n == nil {
		return 0
	}
	for _, s := range n.decided {
		day = max(day, s.Day)
	}
	return day
}

// decidedNames is nil if instants alone say what is decided. A state of an older format does not have the names.
func (d *decision) decidedNames(r rule) *names {
	s := d.s
	n := &names{s.Series.Decided, s.Series.Begun, r, s.Series.After}
	switch {
	case !s.Spec.When.keepsNames(&s.Series) || !d.local():
		return nil
	case len(n.decided) == 0 && len(n.begun) == 0 && d.decidedSome():
		n.decided, n.begun = d.olderNames(r)
	}
	return n
}

// olderNames derives from instants what a state of an older format does not have. r may have calendars that were
// edited since. So the firings that the state keeps, and the planned one, also say which days had moved to others.
func (d *decision) olderNames(r rule) (decided, begun []NameStep) {
	s := d.s
	decided, begun = r.passed(s.Series.After), r.passed(s.CreatedAt)
	zone := r.Zone()
	planned, err := calendar.ParseWall(wallOfID(s.Series.Occurrence))
	if err != nil {
		return decided, begun
	}
	reached, created := zone.Wall(int64(s.Series.After)), zone.Wall(int64(s.CreatedAt))
	if s.Spec.When.Calendars == nil || s.Spec.When.Calendars.On != calendar.OnPrevious {
		return raise(decided, upTo(min(reached, planned-1), 0)), begun
	}
	last := reached.Date() // the last day that had moved to the day of reached
	for i := range s.Done {
		f := &s.Done[i]
		name, err := calendar.ParseWall(wallOfID(f.Occurrence))
		if err == nil && zone.Wall(int64(f.Nominal)).Date() == reached.Date() {
			last = max(last, name.Date())
		}
	}
	switch to := zone.Wall(int64(s.Series.At)); {
	case to == planned: // not moved: perhaps a date of include, which says nothing of others
	case to.Date() > reached.Date():
		last = max(last, to.Date()-1)
	default:
		last = max(last, planned.Date())
	}
	ahead := last - reached.Date()
	if created.Date() == reached.Date() {
		begun = raise(begun, upTo(created, ahead))
	}
	return raise(decided, upTo(reached, ahead)), begun
}

// upTo has all names up to a wall time, and those of its times of day on some days after it.
func upTo(wall calendar.Wall, days calendar.Date) []NameStep {
	day := wall.Date()
	return []NameStep{{timeOfDay(wall), day + days}, {wallDay - 1, day - 1}}
}

// namesThere is what is decided by the names of a series that moves to another zone.
func (d *decision) namesThere() *names {
	s := d.s
	r, err := d.rule()
	if err != nil {
		return nil
	}
	if s.Spec.When.keepsNames(&s.Series) {
		return d.decidedNames(r)
	}
	n := &names{begun: r.passed(s.CreatedAt), rule: r}
	if d.decidedSome() {
		n.decided = r.passed(s.Series.After)
	}
	return n
}

// keepNames notes in p that the plan of s has decided everything up to t, and its planned occurrence if that is not
// later.
func (d *decision) keepNames(r rule, p *Series, t Instant) {
	old := &d.s.Series
	p.Decided, p.Begun = old.Decided, old.Begun
	if r.ElapsedTime() || !d.s.Spec.When.keepsNames(old) {
		return
	}
	if len(p.Decided)+len(p.Begun) == 0 { // of an older format
		p.Begun = r.passed(d.s.CreatedAt)
		if d.decidedSome() || old.At != 0 && old.At <= old.After { // an edit has moved what is planned to before After
			p.Decided, p.Begun = d.olderNames(r)
		}
	}
	if old.At == 0 || old.At > t {
		p.Decided = raise(p.Decided, r.passed(t))
		return
	}
	p.Decided, p.Begun = pass(p.Decided, p.Begun, r.passed(old.At-1), r.passed(t))
	wall, err := calendar.ParseWall(bare(old.Occurrence))
	if err == nil && !r.Includes(wall) && !below(p.Decided, wall) { // a date of include says nothing of other names
		tod, low := timeOfDay(wall), lowest(p.Decided, wall.Date())
		p.Decided = raise(p.Decided, []NameStep{{tod - 1, low}, {tod, wall.Date()}, {wallDay - 1, low}})
	}
	if here := r.passed(t); !d.s.Spec.When.movesDays() && slices.Equal(raise(p.Decided, here), here) {
		p.Decided, p.Begun = nil, nil // all that was decided in another zone has been on clocks in this one
	}
}
