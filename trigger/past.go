package trigger

import (
	"slices"
	"strings"

	"github.com/waterclock/waterclock/calendar"
)

// past is what a new plan keeps of the one it replaces: what was decided stays
// decided, and the same rule keeps its phase and what was left out of it.
type past struct {
	start string   // start of the same rule; "" begins a phase
	after Instant  // everything at or before it is decided
	done  []Firing // what has fired in this life
	zone  string
	skip  []string // left out of the same rule

	moved      bool    // the same rule goes to another zone, from the wall times decided there
	begun, was Instant // moved: all of the series is decided there from begun to was

	sameRule bool
	goesOn   bool    // the same series: from after on, not from the append on
	beyond   Instant // what is planned next lies beyond it, though it was not decided up to there
}

func (d *decision) past(w *When) past {
	s := d.s
	old := &s.Spec.When
	keep := past{after: s.Series.After, done: s.Done, zone: old.Zone}
	if w.Kind != WhenRecurrence || old.Kind != WhenRecurrence || w.Recurrence != old.Recurrence {
		keep.after = min(keep.after, d.now) // what a skip or a rezone decided ahead was about the old rule
		return keep
	}
	keep.start, keep.skip, keep.sameRule = s.Series.Start, s.Series.Skip, true
	if w.Zone != old.Zone && s.Series.Local != "" && d.decidedSome() {
		keep.moved, keep.begun, keep.was = true, s.CreatedAt, keep.after
		keep.after = d.m.Timetable.sameWall(keep.after, old.Zone, w.Zone)
	}
	return keep
}

// decidedSome says that after is the instant of an occurrence that fired or was
// skipped, not that of the command from which the series counts.
func (d *decision) decidedSome() bool {
	s := d.s
	if len(s.Done) > 0 || len(s.Series.Skip) > 0 {
		return true
	}
	r, err := d.rule()
	if err != nil {
		return false
	}
	o, ok, err := r.next(s.Series.After - 1)
	return err == nil && ok && o.At == s.Series.After
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
		if by, local := ahead(p.done); local {
			at = min(at, Instant(wall)-by)
		}
	}
	return !p.sameRule && forgotten(p.done, at)
}

// decidedThere says whether an occurrence's wall time was decided in the zone
// that the series comes from. In the second pass of an overlap that is so of
// wall times ahead of the clock: the first pass had them, under the same names.
func (p *past) decidedThere(t *Timetable, o occurrence) bool {
	if !p.moved || strings.HasSuffix(bare(o.ID), "+f1") {
		return false
	}
	at, ok := t.instantOf(o.ID, p.zone)
	return ok && p.begun <= at && at <= p.was
}

// ahead is how far clocks were ahead of UTC, in ms, where the firings took
// place: the most of them. local is false if none has a wall time for a name.
func ahead(done []Firing) (most Instant, local bool) {
	for i := range done {
		wall, err := calendar.ParseWall(wallOfID(done[i].Occurrence))
		if by := Instant(wall) - done[i].Nominal; err == nil && (!local || by > most) {
			most, local = by, true
		}
	}
	return most, local
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
