package trigger

import (
	"slices"
	"strings"
	"time"

	"github.com/waterclock/waterclock/calendar"
)

// past is what a new plan keeps from the one it replaces. What was decided stays decided. The
// same rule keeps its phase and its skips, also with another start, other dates or calendars.
type past struct {
	start string   // start of the same rule; "": a new phase begins
	after Instant  // everything at or before it is decided
	done  []Firing // what has fired in this life
	zone  string
	skip  []string // skips of the same rule

	local bool   // the zone differs, and the rule yields wall times
	names *names // of the same rule with the same times: what is decided by name

	sameTimes bool // all but the zone is the same, so the rule yields the same wall times
	sameZone  bool
	last      Instant    // nothing planned for later has fired
	lastName  Instant    // nor anything whose name is later, where a calendar has moved days
	goesOn    bool       // the same series: it goes on from after, not from the append
	spread    bool       // its jitter was accepted before
	beyond    Instant    // the next planned occurrence must be later, although not all before it was decided
	held      occurrence // planned for before the append, and due after it by its jitter
}

// past is what a plan by w keeps, which a command appended at from asks for.
func (d *decision) past(w *When, from Instant) past {
	s := d.s
	old := &s.Spec.When
	keep := past{after: d.decidedByNow(), done: s.Done, zone: old.Zone, sameZone: w.Zone == old.Zone}
	keep.last = keep.after
	if n := len(s.Done); n > 0 {
		keep.last = max(keep.last, s.Done[n-1].At)
	}
	if old.movesDays() {
		for i := range s.Done {
			if at, ok := d.m.Timetable.instantOf(s.Done[i].Occurrence, old.Zone); ok {
				keep.lastName = max(keep.lastName, at)
			}
		}
	}
	if p := &s.Series; p.At > keep.after && p.At <= from && p.At+Instant(p.Jitter) > from && !w.movesDays() {
		keep.held = s.seriesNow()
	}
	if keep.sameTimes = w.sameButZone(old); !keep.sameTimes {
		// What a skip or a rezone decided ahead of the append says nothing of occurrences that only the new plan has.
		keep.after = min(keep.after, from)
	}
	if w.Kind != WhenRecurrence || old.Kind != WhenRecurrence || w.Recurrence != old.Recurrence {
		return keep
	}
	keep.skip = slices.Clip(s.Series.Skip)
	if w.Start == "" || w.Start == old.Start {
		keep.start = s.Series.Start
	}
	if keep.sameZone {
		if r, err := d.rule(); err == nil {
			d.keepDecided(&keep, r, w, from)
		}
		return keep
	}
	switch keep.local = d.local(); {
	case keep.local:
		keep.start = d.m.Timetable.wallOf(keep.start, old.Zone) // an instant would be another wall time there
	case w.Start != "":
		keep.start = "" // a wall time is another instant there
	}
	if keep.local {
		keep.names = d.namesThere()
	}
	if keep.local && d.decidedSome() {
		keep.after = d.m.Timetable.sameWall(keep.after, old.Zone, w.Zone)
		d.keepDates(&keep, w.Zone)
		keep.skip = slices.Clip(keep.skip)
	}
	return keep
}

// keepDates adds to the skips the dates of include that are decided and come after keep.after in a zone: a gap there
// shifts their wall times behind later ones.
func (d *decision) keepDates(keep *past, zone string) {
	p := &d.s.Series
	r, err := d.rule()
	if err != nil {
		return
	}
	for _, date := range r.Dates() {
		o := r.spell(date)
		there, ok := d.m.Timetable.instantOf(o.ID, zone)
		if ok && there > keep.after && o.At <= p.After && (p.At == 0 || o.At < p.At) {
			keep.leaveOutToo(o)
		}
	}
}

// decidedByNow is After by the zone rules now in force. A release does not plan anew what has ended. If that fired at
// After, its last occurrence may be at another instant by now.
func (d *decision) decidedByNow() Instant {
	s := d.s
	p, after := &s.Series, s.Series.After
	if p.At != 0 || p.TZData == d.m.Timetable.Zones.Release() || !s.Recurring() || s.Spec.When.movesDays() {
		return after
	}
	for i := range s.Done {
		f := &s.Done[i]
		if f.Nominal != after || offThePlan(f.Occurrence) || secondPass(f.Occurrence) {
			continue
		}
		if at, ok := d.m.Timetable.instantOf(f.Occurrence, s.Spec.When.Zone); ok {
			return at
		}
	}
	return after
}

// keepDecided adds to keep what r, the same rule in the same zone, has decided by name. If a plan with other dates
// begins before After, it adds what was decided since: a missed run may have gone on before a forwarded command was
// known.
func (d *decision) keepDecided(keep *past, r rule, w *When, from Instant) {
	s := d.s
	if s.Series.After > from && !keep.sameTimes {
		if skip, all := d.decidedSince(r, from); all {
			keep.skip = slices.Clip(skip)
		} else {
			keep.after = s.Series.After // nothing fires twice, and new dates before it do not fire
		}
	}
	if keep.start != "" && (keep.sameTimes || s.Spec.When.movesDays()) {
		keep.names = d.decidedNames(r).until(keep.after)
	}
}

// decidedSince is Skip, and what r has decided after an instant. It lists at most 2,000; all is false if there are
// more.
func (d *decision) decidedSince(r rule, from Instant) (skip []string, all bool) {
	p := &d.s.Series
	names := d.decidedNames(r)
	skip = slices.Clone(p.Skip)
	for {
		o, ok, err := r.next(from)
		if err != nil || !ok || o.At > p.After {
			return skip, true
		}
		if indexSkip(skip, o.ID) < 0 && (names == nil || names.has(o)) {
			if len(skip) >= maxSkips {
				return skip, false
			}
			skip = append(skip, o.ID)
		}
		from = o.At
	}
}

// local reports whether the rule yields wall times. Its planned occurrence does not say so:
// it may be a date of include. In a zone that the tz release lacks, no wall time has a meaning.
func (d *decision) local() bool {
	w := d.s.Spec.When
	if w.Recurrence != "" {
		w.Include = nil
	}
	r, err := d.m.Timetable.compile(&w, d.s.Key.Tenant(), d.s.Series.Start, d.s.CreatedAt)
	return err == nil && !r.ElapsedTime()
}

// decidedSome reports whether after is the instant of an occurrence that fired or was
// skipped. Else it is the append time of the command from which the series counts.
func (d *decision) decidedSome() bool {
	s := d.s
	for i := range s.Done {
		if f := &s.Done[i]; f.Nominal == s.Series.After && !offThePlan(f.Occurrence) {
			return true
		}
	}
	for _, id := range s.Series.Skip {
		if at, ok := d.m.Timetable.instantOf(id, s.Spec.When.Zone); ok && at == s.Series.After {
			return true
		}
	}
	r, err := d.rule()
	if err != nil {
		return false
	}
	o, ok, err := r.next(s.Series.After - 1)
	return err == nil && ok && o.At == s.Series.After
}

// isLeftOut reports whether an occurrence is known to have fired in this life, or to have been skipped.
func (p *past) isLeftOut(o occurrence, life Life) bool {
	return fired(p.done, o.ID+life.suffix()) || indexSkip(p.skip, o.ID) >= 0
}

// mayHaveFired reports whether an occurrence counts as fired although it is on no list. If the rule yields the same
// times, everything up to after is decided, and nothing else. Else an occurrence counts if it may have fired at this
// instant or for this wall time.
func (p *past) mayHaveFired(o occurrence) bool {
	last := p.last
	if p.names == nil { // they do not say it
		last = max(last, p.lastName)
	}
	if p.sameTimes || p.sameZone && o.At > last {
		return false
	}
	at := o.At
	if wall, err := calendar.ParseWall(wallOfID(o.ID)); err == nil {
		if by, local := ahead(p.done); local {
			at = min(at, Instant(wall)-by)
		}
	}
	return forgotten(p.done, at)
}

// leaveOutToo adds an occurrence to the skips. They are clipped wherever they are copied, so that no other list grows
// into the same memory.
func (p *past) leaveOutToo(o occurrence) {
	if len(p.skip) < maxSkips && indexSkip(p.skip, o.ID) < 0 {
		p.skip = append(p.skip, o.ID)
	}
}

// leaveOutLater adds to the skips what may have fired and yet comes after the planned occurrence: a gap has shifted its
// wall time behind that, or a calendar has moved its day there.
func (p *past) leaveOutLater(r rule, planned Instant, w *When) {
	by, local := ahead(p.done)
	if !local || p.sameTimes || p.sameZone && planned >= p.last || len(p.done) < keepFirings {
		return
	}
	for _, date := range r.Dates() {
		if o := r.spell(date); o.At > planned && p.mayHaveFired(o) {
			p.leaveOutToo(o)
		}
	}
	if r.ElapsedTime() {
		return // it yields no wall time but these dates
	}
	const longestGap = 24 * time.Hour
	known := max(p.done[0].Nominal, p.done[0].At) + by // every wall time after this is new
	until := Instant(r.Zone().Reach(calendar.Wall(known))).Add(longestGap)
	for range maxReplanSteps {
		o, ok, err := r.next(planned)
		if err != nil || !ok || o.At > until && (!w.movesDays() || dayOfName(o.ID) > calendar.Wall(known).Date()) {
			return
		}
		if p.mayHaveFired(o) {
			p.leaveOutToo(o)
		}
		planned = o.At
	}
}

// ahead is the largest offset from UTC, in ms, among the zones of the firings. local is false
// if no firing is named by a wall time.
func ahead(done []Firing) (most Instant, local bool) {
	for i := range done {
		wall, err := calendar.ParseWall(wallOfID(done[i].Occurrence))
		if by := Instant(wall) - done[i].Nominal; err == nil && (!local || by > most) {
			most, local = by, true
		}
	}
	return most, local
}

// stillHeld reports whether r has the occurrence that jitter holds back.
func (p *past) stillHeld(r rule) bool {
	if p.held.At == 0 {
		return false
	}
	o, ok, err := r.next(p.held.At - 1)
	return err == nil && ok && o.At == p.held.At && o.ID == p.held.ID
}

// leaveOut lists what a new plan must not fire: what was skipped, and what fired by other
// times or in another zone and would come once more here. The ids are kept in the
// plan, because the list of firings is short.
func (p *past) leaveOut() []string {
	if p.goesOn || p.sameTimes && p.sameZone {
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

// wallOfID is the wall time in an occurrence's id.
func wallOfID(occurrence string) string { return strings.TrimSuffix(bare(occurrence), "+f1") }

// secondPass reports whether an occurrence is the one of the second pass of an overlap.
func secondPass(occurrence string) bool { return bare(occurrence) != wallOfID(occurrence) }

// wallOfPlan is the wall time for which the next occurrence is planned: that of its id, on the day to which a calendar
// has moved it.
func (s *State) wallOfPlan() string {
	const day = len("2006-01-02")
	id := wallOfID(s.Series.Occurrence)
	if !s.Spec.When.movesDays() || min(len(id), len(s.Series.Local)) < day {
		return id
	}
	return s.Series.Local[:day] + id[day:]
}

// forgotten reports whether an occurrence at an instant may have fired before the last 16
// firings, which are all that the State keeps. Nothing fires before its instant, so an
// instant after the oldest known firing is new. If the known ones fired in the order of
// their plan, so is one after the oldest one's own instant, however late that fired.
func forgotten(done []Firing, at Instant) bool {
	if len(done) < keepFirings {
		return false
	}
	if inOrder(done) {
		return at <= done[0].Nominal
	}
	return at <= done[0].At
}

// inOrder reports whether all firings are of the plan, each for a later instant than the one before.
func inOrder(done []Firing) bool {
	for i := range done {
		if offThePlan(done[i].Occurrence) || i > 0 && done[i].Nominal <= done[i-1].Nominal {
			return false
		}
	}
	return true
}

func fired(done []Firing, occurrence string) bool {
	return slices.ContainsFunc(done, func(f Firing) bool { return f.Occurrence == occurrence })
}
