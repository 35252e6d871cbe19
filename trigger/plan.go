package trigger

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waterclock/waterclock/calendar"
)

// plan settles what a time wish means for the command appended at from. The
// errors name the contract's field. A one-shot carries along how far the
// recurrence before it was decided, for a recurrence after it.
func (m *Machine) plan(spec *Spec, life Life, key Key, from Instant, before past) (Series, *Error) {
	if spec.When.Kind == WhenRecurrence {
		return m.planRule(spec, life, key, from, before)
	}
	p, err := m.planOnce(spec, life, key, from)
	p.After = before.after
	return p, err
}

func (m *Machine) planOnce(spec *Spec, life Life, key Key, from Instant) (Series, *Error) {
	w := &spec.When
	switch w.Kind {
	case WhenDelay:
		return m.instant(spec, life, key, from.Add(w.Delay)), nil
	case WhenInstant:
		return m.instant(spec, life, key, w.FireAt), nil
	case WhenLocal:
		o, err := m.Timetable.local(w.Local, w.Zone, w.DST)
		if err == nil {
			err = within(o.At, from)
		}
		if err != nil {
			return Series{}, err
		}
		return m.series(spec, life, key, o), nil
	}
	return Series{}, &Error{Code: CodeConflictingTime, Msg: "give exactly one of delay, fire_at, recurrence"}
}

// instant plans an occurrence whose identity is its instant.
func (m *Machine) instant(spec *Spec, life Life, key Key, at Instant) Series {
	return m.series(spec, life, key, occurrence{At: at, ID: at.String()})
}

// series is the plan for one occurrence, jitter included.
func (m *Machine) series(spec *Spec, life Life, key Key, o occurrence) Series {
	p := Series{At: o.At, Occurrence: o.ID + life.suffix(), Local: o.Local}
	if o.Local != "" {
		p.TZData = m.Timetable.Zones.Release()
	}
	p.Jitter = m.jitter(spec, key, p.Occurrence)
	return p
}

// jitter is a function of key and occurrence alone, so that it never moves
// when a plan is made again.
func (m *Machine) jitter(spec *Spec, key Key, occurrence string) int64 {
	return calendar.Jitter(string(key), occurrence, m.window(spec)).Milliseconds()
}

// window is what occurrences are spread over.
func (m *Machine) window(spec *Spec) time.Duration {
	if spec.Jitter == 0 && spec.Priority == Low {
		return m.Channel(spec.Channel).JitterLow
	}
	return spec.Jitter
}

// maxAhead and maxBehind bound instants that a caller names.
const (
	maxAhead  = 100 * 366 * 24 * time.Hour
	maxBehind = 366 * 24 * time.Hour
)

func within(at, from Instant) *Error {
	switch {
	case from.Sub(at) > maxBehind:
		return &Error{Code: CodeInThePast, Field: "fire_at", Msg: "this is over a year ago"}
	case at.Sub(from) > maxAhead:
		return &Error{Code: CodeBeyondHorizon, Field: "fire_at", Msg: "this is over 100 years ahead"}
	}
	return nil
}

// planRule settles a recurrence: its start, and its first occurrence that has
// not fired in this life. before is what stays of the plan it replaces.
func (m *Machine) planRule(spec *Spec, life Life, key Key, from Instant, before past) (Series, *Error) {
	if name := m.Timetable.missing(spec.When.Calendars); name != "" {
		return Series{}, invalid("calendars", "no calendar is named "+strconv.Quote(name)+": put it first (waterclock calendar put)")
	}
	r, err := m.Timetable.compile(&spec.When, key.Tenant(), before.start, from)
	if err != nil {
		return Series{}, err
	}
	if err := spread(spec, r); err != nil {
		return Series{}, err
	}
	after := from
	if spec.When.Start != "" || before.goesOn {
		after = minInstant // a start in the past: the misfire policy decides
	}
	o, ok, err := r.next(max(after, before.after))
	for ok && err == nil && before.decided(o, life) {
		o, ok, err = r.next(o.At) // the same wall time in another zone, or by other rules
	}
	if err != nil {
		return Series{}, err
	}
	if !ok {
		return Series{}, &Error{Code: CodeNoOccurrences, Field: "recurrence", Msg: "the rule yields no further occurrence"}
	}
	p := m.series(spec, life, key, o)
	p.Start, p.TZData, p.After, p.Skip = r.Start(), m.Timetable.Zones.Release(), before.after, fromDay(before.leaveOut(spec.When.Zone), o.ID)
	if spec.When.Start == "" && !before.goesOn {
		p.After = max(p.After, from)
	}
	return p, nil
}

// spread holds jitter against the period, so that occurrences keep their order.
func spread(spec *Spec, r rule) *Error {
	if spec.Jitter == 0 {
		return nil
	}
	if period := r.Period(); period > 0 && spec.Jitter > period/2 {
		return invalid("jitter", "jitter is at most half the period, "+(period/2).String())
	}
	return nil
}

// past is what a new plan keeps of the one it replaces: what was decided stays
// decided, and the same rule keeps its phase and what was left out of it.
type past struct {
	start string   // settled start of the same rule; "" begins a phase
	after Instant  // everything at or before it is decided
	done  []Firing // what has fired in this life
	zone  string
	skip  []string // left out of the same rule

	sameRule bool
	goesOn   bool // the same series: from after on, not from the append on
}

func (d *decision) past(w *When) past {
	s := d.s
	old := &s.Spec.When
	keep := past{after: s.Series.After, done: s.Done, zone: old.Zone}
	if w.Kind != WhenRecurrence || old.Kind != WhenRecurrence || w.Recurrence != old.Recurrence {
		return keep
	}
	keep.start, keep.skip, keep.sameRule = s.Series.Start, s.Series.Skip, true
	if w.Zone != old.Zone && s.Series.Local != "" && keep.after != 0 {
		keep.after = d.m.Timetable.sameWall(keep.after, old.Zone, w.Zone)
	}
	return keep
}

// decided says whether an occurrence has fired in this life or was left out.
// Of the same rule everything up to after is; of another one, whatever might
// have fired is not risked, be it for its wall time.
func (p *past) decided(o occurrence, life Life) bool {
	if fired(p.done, o.ID+life.suffix()) || indexSkip(p.skip, o.ID) >= 0 {
		return true
	}
	at := o.At
	if wall, err := calendar.ParseWall(wallOfID(o.ID)); err == nil {
		at = min(at, Instant(wall)-ahead(p.done))
	}
	return !p.sameRule && forgotten(p.done, at)
}

// ahead is how far clocks were ahead of UTC, in ms, where the firings took
// place: the most of them.
func ahead(done []Firing) (most Instant) {
	for i := range done {
		wall, err := calendar.ParseWall(wallOfID(done[i].Occurrence))
		if by := Instant(wall) - done[i].Nominal; err == nil && (i == 0 || by > most) {
			most = by
		}
	}
	return most
}

// leaveOut is what a new plan must not fire: what was skipped, and what fired
// under another rule or in another zone and is yet to come here. Named now, it
// outlasts the list of firings.
func (p *past) leaveOut(zone string) []string {
	if p.goesOn || (p.sameRule && p.zone == zone) {
		return p.skip
	}
	out := slices.Clone(p.skip)
	for _, f := range p.done {
		if indexSkip(out, f.Occurrence) < 0 && !offThePlan(f.Occurrence) {
			out = append(out, bare(f.Occurrence))
		}
	}
	return out
}

// wallOfID is the wall time an occurrence is named by.
func wallOfID(occurrence string) string { return strings.TrimSuffix(bare(occurrence), "+f1") }

// forgotten says whether an occurrence at an instant may be one of those that
// fired before the last 16, which alone are known by name. Nothing fires
// before its instant, so what lies after the oldest known firing is new.
func forgotten(done []Firing, at Instant) bool {
	return len(done) >= keepFirings && at <= done[0].At
}

func fired(done []Firing, occurrence string) bool {
	return slices.ContainsFunc(done, func(f Firing) bool { return f.Occurrence == occurrence })
}

// minInstant, 1900-01-01, is before every start that is accepted.
const minInstant = Instant(-2_208_988_800_000)

// advance plans the occurrence after the one that goes out now; At is 0 when
// there is none.
func (d *decision) advance() {
	s := d.s
	if !s.Recurring() {
		s.Series = Series{After: s.Series.After}
		return
	}
	d.planAfter(s.Series.At)
}

// planAfter moves a rule's plan to the first occurrence after t that is not
// left out.
func (d *decision) planAfter(t Instant) {
	s := d.s
	end := Series{Start: s.Series.Start, TZData: s.Series.TZData, After: t, Told: s.Series.Told}
	skip := s.Series.Skip
	r, err := d.rule()
	for err == nil {
		var o occurrence
		var ok bool
		if o, ok, err = r.next(t); err != nil || !ok {
			break
		}
		p := d.m.series(&s.Spec, s.Life, s.Key, o)
		if i := indexSkip(skip, p.Occurrence); i >= 0 || s.hasFired(p.Occurrence) {
			skip, t = without(skip, i), o.At
			continue
		}
		p.Start, p.TZData, p.After, p.Told, p.Skip = r.Start(), d.m.Timetable.Zones.Release(), end.After, end.Told, fromDay(skip, o.ID)
		s.Series = p
		return
	}
	s.Series = end
}

// rule is the trigger's recurrence, compiled. It was accepted once, so an
// error means that its calendars or its zone are gone; the series then ends.
func (d *decision) rule() (rule, *Error) {
	s := d.s
	return d.m.Timetable.compile(&s.Spec.When, s.Key.Tenant(), s.Series.Start, s.CreatedAt)
}

// catchUp applies the misfire policy to a run of missed occurrences of a
// rule. It returns the occurrence to fire now, or false.
func (d *decision) catchUp() (Live, bool) {
	s := d.s
	if s.Series.At <= s.Series.Told { // a run already told, under fire_all
		return d.seriesOccurrence(), true
	}
	first := d.seriesOccurrence()
	count, last := d.missedRun()
	d.misfired(count, first.Nominal, last.At)
	switch s.Spec.Misfire {
	case SkipMissed:
		d.planAfter(last.At)
		return Live{}, false
	case FireOnce:
		d.moveTo(last)
	case FireAll:
		d.dropOldest(count - d.m.MaxCatchUp)
		s.Series.Told = last.At
	}
	return d.seriesOccurrence(), true
}

// maxMissed bounds the walk over a run of missed occurrences.
const maxMissed = 1_000_000

// missedRun counts the missed occurrences from the planned one on, and finds
// the last of them. What a skip left out is not missed.
func (d *decision) missedRun() (count int, last occurrence) {
	s := d.s
	last = s.seriesNow()
	r, err := d.rule()
	if err != nil {
		return 1, last
	}
	n, l := r.missed(s.Series.At, d.now.Add(-d.m.MisfireAfter-d.m.window(&s.Spec))-1)
	if n > 0 {
		last = l
	}
	for o, ok, err := r.next(last.At); err == nil && ok && d.late(o); o, ok, err = r.next(last.At) {
		n, last = n+1, o // within the window each has its own jitter
	}
	return n + 1 - s.leftOut(last.ID), r.notLeftOut(last, s.Series.Skip)
}

// late says whether o is missed, its own jitter included.
func (d *decision) late(o occurrence) bool {
	p := d.m.series(&d.s.Spec, d.s.Life, d.s.Key, o)
	return d.now.Sub(p.Due()) > d.m.MisfireAfter
}

// leftOut counts the skipped occurrences between the planned one and last.
func (s *State) leftOut(last string) (n int) {
	for _, id := range s.Series.Skip {
		if id > bare(s.Series.Occurrence) && id <= last {
			n++
		}
	}
	return n
}

// notLeftOut is o, or the last occurrence before it that is not in skip.
func (r rule) notLeftOut(o occurrence, skip []string) occurrence {
	for indexSkip(skip, o.ID) >= 0 {
		before, ok, err := r.Prev(int64(o.At) - 1)
		if err != nil || !ok {
			break
		}
		o = r.spell(before)
	}
	return o
}

// moveTo makes o the planned occurrence.
func (d *decision) moveTo(o occurrence) {
	s := d.s
	old := s.Series
	s.Series = d.m.series(&s.Spec, s.Life, s.Key, o)
	s.Series.Start, s.Series.Skip, s.Series.TZData, s.Series.After = old.Start, old.Skip, d.m.Timetable.Zones.Release(), old.After
}

// dropOldest leaves out the first n occurrences of a run.
func (d *decision) dropOldest(n int) {
	for ; n > 0 && d.s.Series.At != 0; n-- {
		d.planAfter(d.s.Series.At)
	}
}

// skip leaves out one occurrence of a series: the next, or a named one.
func (d *decision) skip(c *Command) *Error {
	s := d.s
	if !s.Recurring() {
		return invalid("op", "a one-shot has only one occurrence: cancel it, or reschedule it")
	}
	if s.Series.At == 0 {
		return &Error{Code: CodeNotFound, Field: "occurrence", Msg: "the series has no further occurrence"}
	}
	o := s.seriesNow()
	next := c.Occurrence == "" || matches(c.Occurrence, &s.Series)
	if !next {
		found, err := d.find(c.Occurrence)
		if err != nil {
			return err
		}
		if o = found; indexSkip(s.Series.Skip, o.ID) >= 0 {
			return d.duplicate("already skipped")
		}
	}
	s.Revision++
	d.tell(Fact{Type: Skipped, Scheduled: o.At, Local: o.Local, Occurrence: o.ID + s.Life.suffix()})
	if next {
		d.planAfter(s.Series.At)
	} else {
		s.Series.Skip = append(without(s.Series.Skip, -1), o.ID)
	}
	d.settle()
	return nil
}

func (s *State) seriesNow() occurrence {
	return occurrence{At: s.Series.At, ID: bare(s.Series.Occurrence), Local: s.Series.Local}
}

// find looks an occurrence up that a skip names: a local date, a local
// date-time, or an instant, among the next thousand.
func (d *decision) find(name string) (occurrence, *Error) {
	r, err := d.rule()
	t := d.s.Series.At
	for n := 0; err == nil && n < maxFind; n++ {
		var o occurrence
		var ok bool
		if o, ok, err = r.next(t); err != nil || !ok {
			break
		}
		if p := (Series{At: o.At, Occurrence: o.ID, Local: o.Local}); matches(name, &p) {
			return o, nil
		}
		t = o.At
	}
	return occurrence{}, &Error{Code: CodeNotFound, Field: "occurrence", Msg: "the series has no occurrence " + name}
}

// maxFind bounds how far ahead an occurrence may be skipped.
const maxFind = 1000

// rezone keeps the wall times and moves them to another zone. The planned
// occurrence is the first that is undecided, there as here, so nothing fires
// twice and nothing is lost, whichever way the clocks go.
func (d *decision) rezone(c *Command) *Error {
	s := d.s
	w := &s.Spec.When
	switch {
	case w.Zone == "" || (w.Kind != WhenLocal && w.Kind != WhenRecurrence):
		return invalid("timezone", "only a trigger with local times can move to another zone")
	case s.Status == InFlight:
		return &Error{Code: CodeAlreadyFired, Msg: "the occurrence is in flight"}
	case c.Zone == w.Zone:
		return d.duplicate("same zone")
	}
	if _, err := d.m.Timetable.Zones.Lookup(c.Zone); err != nil {
		return fromCalendar(err)
	}
	spec := s.Spec
	spec.When.Zone = c.Zone
	series, err := d.inZone(&spec, c.From.Append)
	if err != nil {
		return err
	}
	d.replan(spec, series, "rezone")
	return nil
}

// inZone is the plan by the clocks of spec's zone. What was snoozed to an
// instant, or has nothing planned any more, stays as it is.
func (d *decision) inZone(spec *Spec, from Instant) (Series, *Error) {
	s := d.s
	switch {
	case s.Series.At == 0, s.Series.Local == "" && !s.Recurring():
		return s.Series, nil
	case !s.Recurring():
		return d.m.plan(spec, s.Life, s.Key, from, d.past(&spec.When))
	}
	if wall := d.m.Timetable.wallOf(s.Series.Start, s.Spec.When.Zone); s.Series.Local != "" && spec.When.Start != "" {
		spec.When.Start = wall // an instant would be another wall time there
	}
	before := past{start: s.Series.Start, done: s.Done, skip: s.Series.Skip, after: s.Series.At - 1, sameRule: true, goesOn: true}
	if at, ok := d.m.Timetable.instantOf(s.Series.Occurrence, spec.When.Zone); ok {
		before.after = at - 1
	}
	return d.m.planRule(spec, s.Life, s.Key, from, before)
}

func indexSkip(skip []string, occurrence string) int {
	for i, s := range skip {
		if s == bare(occurrence) {
			return i
		}
	}
	return -1
}

// fromDay copies skip, leaving out the days before an occurrence: a catch-up
// leaps over them.
func fromDay(skip []string, occurrence string) []string {
	const day = len("2006-01-02")
	return slices.DeleteFunc(slices.Clone(skip), func(s string) bool { return s[:day] < occurrence[:day] })
}

// without copies skip, leaving out index i.
func without(skip []string, i int) []string {
	out := make([]string, 0, len(skip)+1)
	for j, s := range skip {
		if j != i {
			out = append(out, s)
		}
	}
	return out
}

// matches says whether a user's name for an occurrence means p's: a date
// matches the whole local day.
func matches(name string, p *Series) bool {
	id := bare(p.Occurrence)
	if name == id || name == p.At.String() {
		return true
	}
	wall := p.Local
	if wall == "" {
		wall = id
	}
	if len(name) == len("2006-01-02") && len(wall) >= len(name) && wall[:len(name)] == name {
		return true
	}
	if len(name) == len("2006-01-02T15:04") && len(wall) >= len(name)+3 && wall[:len(name)] == name {
		return wall[len(name):len(name)+3] == ":00"
	}
	if t, err := time.Parse(time.RFC3339, name); err == nil {
		return At(t) == p.At
	}
	return false
}
