package trigger

import (
	"time"
)

// Calendar turns wishes into instants. calendar.Zones and its rules stand
// behind it; a test may bring its own.
type Calendar interface {
	// Local resolves a wall time in a zone.
	Local(wall, zone string, dst DST) (Occurrence, error)
	// Rule compiles the recurrence of w. start is the settled start of the
	// plan it replaces, or ""; from is the command's append.
	Rule(w *When, start string, from Instant) (Rule, error)
	// Release names the tz database in use.
	Release() string
}

// Rule is a compiled recurrence.
type Rule interface {
	// Next is the first occurrence strictly after t; ok is false when there is none.
	Next(t Instant) (o Occurrence, ok bool, err error)
	// Missed counts the occurrences in (after, until], at most max of them.
	Missed(after, until Instant, max int) (count int, first, last Occurrence, err error)
	// Start is the settled start, which keeps the phase over edits.
	Start() string
}

// Occurrence is one resolved occurrence.
type Occurrence struct {
	At    Instant
	ID    string // wall time, or instant for elapsed time
	Local string // 2026-11-20T09:00:00[America/New_York], local-time triggers only
}

// plan settles what a time wish means for the command appended at from. The
// errors name the contract's field.
func (m *Machine) plan(spec *Spec, life Life, key Key, from Instant, before Series) (Series, *Error) {
	w := &spec.When
	switch w.Kind {
	case WhenDelay:
		return m.instant(spec, life, key, from.Add(w.Delay)), nil
	case WhenInstant:
		return m.instant(spec, life, key, w.FireAt), nil
	case WhenLocal:
		o, err := m.local(w.Local, w.Zone, w.DST)
		if err != nil {
			return Series{}, err
		}
		return m.series(spec, life, key, o), nil
	case WhenRecurrence:
		return m.planRule(spec, life, key, from, before)
	}
	return Series{}, &Error{Code: CodeConflictingTime, Msg: "give exactly one of delay, fire_at, recurrence"}
}

// instant plans an occurrence whose identity is its instant.
func (m *Machine) instant(spec *Spec, life Life, key Key, at Instant) Series {
	return m.series(spec, life, key, Occurrence{At: at, ID: at.String()})
}

func (m *Machine) local(wall, zone string, dst DST) (Occurrence, *Error) {
	if m.Calendar == nil {
		return Occurrence{}, unsupported("timezone")
	}
	o, err := m.Calendar.Local(wall, zone, dst)
	if err != nil {
		return Occurrence{}, asError(err)
	}
	return o, nil
}

// series is the plan for one occurrence, jitter included.
func (m *Machine) series(spec *Spec, life Life, key Key, o Occurrence) Series {
	p := Series{At: o.At, Occurrence: o.ID + life.suffix(), Local: o.Local}
	if o.Local != "" && m.Calendar != nil {
		p.TZData = m.Calendar.Release()
	}
	p.Jitter = m.jitter(spec, key, p.Occurrence)
	return p
}

// jitter is a function of key and occurrence alone, so that it never moves
// when a plan is made again.
func (m *Machine) jitter(spec *Spec, key Key, occurrence string) int64 {
	window := spec.Jitter
	if window == 0 && spec.Priority == Low {
		window = m.Channel(spec.Channel).JitterLow
	}
	return spread(string(key)+"@"+occurrence, window).Milliseconds()
}

// planRule settles a recurrence: its start, and its first occurrence that has
// not fired in this life.
func (m *Machine) planRule(spec *Spec, life Life, key Key, from Instant, before Series) (Series, *Error) {
	if m.Calendar == nil {
		return Series{}, unsupported("recurrence")
	}
	rule, err := m.Calendar.Rule(&spec.When, before.Start, from)
	if err != nil {
		return Series{}, asError(err)
	}
	after := from
	if spec.When.Start != "" {
		after = minInstant // a start in the past: the misfire policy decides
	}
	after = max(after, before.After)
	o, ok, err := rule.Next(after)
	if err != nil {
		return Series{}, asError(err)
	}
	if !ok {
		return Series{}, &Error{Code: CodeNoOccurrences, Field: "recurrence", Msg: "the rule yields no instant"}
	}
	p := m.series(spec, life, key, o)
	p.Start, p.TZData, p.After = rule.Start(), m.Calendar.Release(), before.After
	return p, nil
}

// minInstant, 1900-01-01, is before every start that is accepted.
const minInstant = Instant(-2_208_988_800_000)

// advance plans the occurrence after the one that goes out now; At is 0 when
// there is none.
func (d *decision) advance() {
	s := d.s
	if !s.Recurring() {
		s.Series = Series{After: s.Series.At}
		return
	}
	d.planAfter(s.Series.At)
}

// planAfter moves a rule's plan to the first occurrence after t that is not
// left out.
func (d *decision) planAfter(t Instant) {
	s := d.s
	told := s.Series.Told
	end := Series{Start: s.Series.Start, TZData: s.Series.TZData, After: t, Told: told}
	rule, err := d.m.Calendar.Rule(&s.Spec.When, s.Series.Start, s.CreatedAt)
	if err != nil {
		s.Series = end
		return
	}
	skip := s.Series.Skip
	for {
		o, ok, err := rule.Next(t)
		if err != nil || !ok {
			s.Series = end
			return
		}
		p := d.m.series(&s.Spec, s.Life, s.Key, o)
		p.Start, p.TZData, p.Told, p.After = rule.Start(), d.m.Calendar.Release(), told, t
		if i := indexSkip(skip, p.Occurrence); i >= 0 {
			skip = without(skip, i)
			t = o.At
			continue
		}
		p.Skip, s.Series = skip, p
		return
	}
}

// catchUp applies the misfire policy to a run of missed occurrences of a
// rule. It returns the occurrence to fire now, or false.
func (d *decision) catchUp() (Live, bool) {
	s := d.s
	if s.Series.At <= s.Series.Told { // a run already told, under fire_all
		return d.seriesOccurrence(), true
	}
	until := d.now.Add(-d.m.MisfireAfter-s.Spec.Jitter) - 1
	first := d.seriesOccurrence()
	count, last := d.missed(until)
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

// missed counts the run from the planned occurrence to until.
func (d *decision) missed(until Instant) (int, Occurrence) {
	s := d.s
	last := Occurrence{At: s.Series.At, ID: bare(s.Series.Occurrence), Local: s.Series.Local}
	rule, err := d.m.Calendar.Rule(&s.Spec.When, s.Series.Start, s.CreatedAt)
	if err != nil {
		return 1, last
	}
	n, _, l, err := rule.Missed(s.Series.At, until, maxMissed)
	if err != nil || n == 0 {
		return 1, last
	}
	return n + 1, l
}

// moveTo makes o the planned occurrence.
func (d *decision) moveTo(o Occurrence) {
	s := d.s
	old := s.Series
	s.Series = d.m.series(&s.Spec, s.Life, s.Key, o)
	s.Series.Start, s.Series.Skip, s.Series.TZData, s.Series.After = old.Start, old.Skip, d.m.Calendar.Release(), old.After
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
	if c.Occurrence == "" || matches(c.Occurrence, &s.Series) {
		d.planAfter(s.Series.At)
	} else {
		found, err := d.find(c.Occurrence)
		if err != nil {
			return err
		}
		o = found
		s.Series.Skip = append(without(s.Series.Skip, -1), found.ID)
	}
	s.Revision++
	d.settle()
	if !s.Status.Finished() || s.Series.At == 0 {
		d.tell(Fact{Type: Skipped, Scheduled: o.At, Local: o.Local, Occurrence: o.ID})
	}
	return nil
}

func (s *State) seriesNow() Occurrence {
	return Occurrence{At: s.Series.At, ID: bare(s.Series.Occurrence), Local: s.Series.Local}
}

// find looks an occurrence up that a skip names: a local date, a local
// date-time, or an instant, among the next thousand.
func (d *decision) find(name string) (Occurrence, *Error) {
	s := d.s
	rule, err := d.m.Calendar.Rule(&s.Spec.When, s.Series.Start, s.CreatedAt)
	if err != nil {
		return Occurrence{}, asError(err)
	}
	t := s.Series.At
	for range 1000 {
		o, ok, err := rule.Next(t)
		if err != nil || !ok {
			break
		}
		p := Series{At: o.At, Occurrence: o.ID, Local: o.Local}
		if matches(name, &p) {
			return o, nil
		}
		t = o.At
	}
	return Occurrence{}, &Error{Code: CodeNotFound, Field: "occurrence", Msg: "the series has no occurrence " + name}
}

// rezone keeps the wall times and moves them to another zone.
func (d *decision) rezone(c *Command) *Error {
	s := d.s
	w := s.Spec.When
	if w.Zone == "" || (w.Kind != WhenLocal && w.Kind != WhenRecurrence) {
		return invalid("timezone", "only a trigger with local times can move to another zone")
	}
	spec := s.Spec
	spec.When.Zone = c.Zone
	series, err := d.m.plan(&spec, s.Life, s.Key, s.CreatedAt, Series{Start: s.Series.Start, After: s.Series.After})
	if err != nil {
		return err
	}
	d.replan(spec, series, "rezone")
	return nil
}

func asError(err error) *Error {
	if e, ok := err.(*Error); ok {
		return e
	}
	return &Error{Code: CodeInvalid, Msg: err.Error()}
}

// spread is a duration in [0, window) by a hash of name: FNV-1a 64, fixed for
// ever because it decides when triggers fire.
func spread(name string, window time.Duration) time.Duration {
	if window <= 0 {
		return 0
	}
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	h ^= h >> 33 // FNV's low bits are weak; one round of mixing
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	return time.Duration(h % uint64(window))
}

func indexSkip(skip []string, occurrence string) int {
	for i, s := range skip {
		if s == bare(occurrence) {
			return i
		}
	}
	return -1
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
