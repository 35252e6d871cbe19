package trigger

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
