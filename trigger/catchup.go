package trigger

import (
	"slices"
	"strings"

	"github.com/waterclock/waterclock/calendar"
)

// catchUp applies the misfire policy to a run of missed occurrences of a
// rule. It returns the occurrence to fire now, or false.
func (d *decision) catchUp() (Live, bool) {
	s := d.s
	if s.Spec.Misfire == FireAll && s.Series.At <= s.Series.MissedUntil { // the run's fact was added before
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
		d.keepLatest(d.m.MaxCatchUp, count, first, last)
		s.Series.MissedUntil = last.At
	}
	return d.seriesOccurrence(), true
}

// maxMissed bounds how many missed occurrences are counted.
const maxMissed = 1_000_000

// missedRun counts the missed occurrences from the planned one on, and finds the last of
// them. Skipped occurrences do not count.
func (d *decision) missedRun() (count int, last occurrence) {
	s := d.s
	last = s.seriesNow()
	r, err := d.rule()
	if err != nil {
		return 1, last
	}
	names := d.decidedNames(r)
	decided := s.Series.At
	n, l := r.missed(decided, d.now.Add(-d.m.MisfireAfter-d.m.window(&s.Spec))-1)
	if n > 0 {
		last = l
	}
	for {
		o, ok, err := r.next(last.At)
		if err != nil || !ok || !d.late(o) {
			break
		}
		n, last = n+1, o // within the window each has its own jitter
	}
	return n + 1 - d.leftOut(r, names, decided, last), d.notLeftOut(r, names, decided, last)
}

// late reports whether o is missed, with its jitter taken into account.
func (d *decision) late(o occurrence) bool {
	p := d.m.series(&d.s.Spec, d.s.Life, d.s.Key, o)
	return d.now.Sub(p.Due()) > d.m.MisfireAfter
}

// leftOut counts the rule's occurrences after decided, up to last, that must not fire. The
// list of skips has others, too: those that fired in this life before the rule was
// registered.
func (d *decision) leftOut(r rule, names *names, decided Instant, last occurrence) (n int) {
	if d.s.Spec.When.movesDays() { // a name does not say when it fires
		until := names.last()
		if names != nil { // of dates of include, and of what has no name here, all up to After is decided
			until = max(until, r.Zone().Wall(int64(names.after)).Date())
		}
		for _, id := range d.s.Series.Skip {
			until = max(until, dayOfName(id))
		}
		for {
			o, ok, err := r.next(decided)
			if err != nil || !ok || o.At > last.At ||
				dayOfName(o.ID) > until && r.Zone().Wall(int64(o.At)).Date() > until {
				return n
			}
			if d.isLeftOut(names, o) {
				n++
			}
			decided = o.At
		}
	}
	for _, id := range d.s.Series.Skip {
		at, err := calendar.ParseInstant(id)
		if wall, ok := d.m.Timetable.instantOf(id, d.s.Spec.When.Zone); err != nil && ok {
			at, err = int64(wall), nil
		}
		if err == nil && Instant(at) > decided && Instant(at) <= last.At && r.yields(id, Instant(at)) {
			n++
		}
	}
	return n
}

// yields reports whether the rule has an occurrence with this id at an instant. For the
// second pass of an overlap, at is the first pass, and the answer is not checked.
func (r rule) yields(id string, at Instant) bool {
	if strings.HasSuffix(id, "+f1") {
		return true
	}
	o, ok, err := r.next(at - 1)
	return err == nil && ok && o.ID == id
}

// isLeftOut reports whether an occurrence was skipped, has fired, or is decided by its name.
func (d *decision) isLeftOut(names *names, o occurrence) bool {
	return d.decided(o, names)
}

// notLeftOut is last, or else the last occurrence before it, but after decided, that is not left
// out. If there is none, it is the planned one.
func (d *decision) notLeftOut(r rule, names *names, decided Instant, last occurrence) occurrence {
	for last.At > decided && d.isLeftOut(names, last) {
		before, ok, err := r.Prev(int64(last.At) - 1)
		if err != nil || !ok {
			break
		}
		last = r.spell(before)
	}
	if last.At <= decided {
		return d.s.seriesNow()
	}
	return last
}

// moveTo makes o the planned occurrence. What was planned before it was missed.
func (d *decision) moveTo(o occurrence) {
	s := d.s
	old := s.Series
	p := d.m.series(&s.Spec, s.Life, s.Key, o)
	p.Start, p.Skip, p.TZData, p.After = old.Start, old.Skip, d.m.Timetable.Zones.Release(), old.After
	p.Decided, p.Begun = old.Decided, old.Begun
	if r, err := d.rule(); err == nil && o.At > old.At {
		d.keepNames(r, &p, o.At-1)
	}
	s.Series = p
}

// keepLatest drops all but the latest n of a run of count occurrences. To find the nth from
// the end, it estimates from the run's density how far back to search.
func (d *decision) keepLatest(n, count int, first Live, last occurrence) {
	r, err := d.rule()
	if count <= n || err != nil {
		return
	}
	names := d.decidedNames(r)
	begin := int64(first.Nominal - 1)
	until, span := int64(last.At), int64(last.At-first.Nominal)
	for back := max(span/int64(count), 1) * int64(n); ; back *= 2 {
		from := max(begin, until-back)
		list, err := r.Between(from, until, maxMissed)
		if err != nil {
			return
		}
		list = slices.DeleteFunc(list, func(o calendar.Occurrence) bool {
			return d.isLeftOut(names, occurrence{At: Instant(o.At), ID: o.ID()})
		})
		if len(list) >= n {
			d.planAfter(Instant(list[len(list)-n].At) - 1)
			return
		}
		if from == begin {
			return
		}
	}
}

// CatchingUp reports whether a timer that is due at now belongs to a run of missed
// occurrences that all fire (fire_all). The caller spaces these. It is false for a timer that
// was put off because its due topic refuses records.
func (m *Machine) CatchingUp(s *State, t Timer, now Instant) bool {
	return t.Kind == TimerSeries && s.Spec.Misfire == FireAll && s.Recurring() && s.Status == Pending &&
		s.Series.Occurrence == t.Occurrence && t.Due <= now &&
		now.Sub(s.Series.At+Instant(s.Series.Jitter)) > m.MisfireAfter
}
