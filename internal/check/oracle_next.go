package check

import "slices"

// searchYears bounds a search that finds nothing.
const searchYears = 400

// steps iterates over the occurrences of a series in the order of their instants.
type steps struct {
	s       *series
	after   int64                       // ms: only later occurrences
	pull    func() ([]occurrence, bool) // returns occurrences of the rule in search order; false: the rule has ended
	pending []occurrence                // pulled, not returned yet
	reached int64                       // ms: the search will find nothing earlier
	include []occurrence                // the remaining dates of include
	counted int                         // candidates of the rule so far
	ended   bool
}

// later iterates over what is strictly after an instant (ms). The start bounds the rule, not the
// dates of include.
func (s *series) later(after int64) *steps {
	it := &steps{s: s, after: after, include: s.include}
	switch {
	case s.every > 0:
		it.pull = it.pullEvery()
	case s.rule != nil && s.rule.freq >= hourly:
		it.pull = it.pullUnits()
	case s.rule != nil:
		it.pull = it.pullPeriods()
	case s.cron != nil && s.cron.live:
		it.pull = it.pullLive()
	case s.cron != nil:
		it.pull = it.pullDays()
	default:
		it.pull = func() ([]occurrence, bool) { return nil, false }
	}
	return it
}

// slack bounds the difference between the order of local times and the order of instants. No
// transition moves a clock by more than a day.
const slack = 27 * 3600 * 1000

// next returns the next occurrence. false: there is none.
func (it *steps) next() (occurrence, bool) {
	for {
		o, ok := it.pick()
		if !ok {
			return occurrence{}, false
		}
		if o.at > it.after && !it.s.excluded(&o) {
			it.after = o.at
			return o, true
		}
	}
}

// pick takes the earliest of pending and include. It takes all of the same instant at once, under
// the later name. A local time of include takes precedence over an instant of a rule of elapsed
// time.
func (it *steps) pick() (occurrence, bool) {
	for !it.ended && (len(it.pending) == 0 || it.earliest() > it.reached-slack-it.s.holidays.earlier()) {
		found, more := it.pull()
		it.ended = !more
		for _, o := range found {
			if it.s.past(&o) || !it.s.holidays.has(&o) || it.s.leavesOut(&o) {
				continue
			}
			it.pending = append(it.pending, o)
		}
	}
	var best occurrence
	ok := false
	take := func(o occurrence) {
		later := o.local > best.local
		if o.named != best.named {
			later = o.named
		}
		if !ok || o.at < best.at || o.at == best.at && later {
			best, ok = o, true
		}
	}
	for _, o := range it.pending {
		take(o)
	}
	if len(it.include) > 0 {
		take(it.include[0])
	}
	if !ok {
		return best, false
	}
	kept := it.pending[:0]
	for _, o := range it.pending {
		if o.at != best.at {
			kept = append(kept, o)
		} else if o.name != best.name {
			best.also = append(best.also, o.name)
		}
	}
	it.pending = kept
	for len(it.include) > 0 && it.include[0].at <= best.at {
		it.include = it.include[1:]
	}
	return best, true
}

func (it *steps) earliest() int64 {
	first := it.pending[0].at
	for _, o := range it.pending {
		first = min(first, o.at)
	}
	return first
}

// candidate counts a local time of the rule against COUNT. It returns false if the rule ended
// before it.
func (it *steps) candidate() bool {
	it.counted++
	return it.s.count == 0 || it.counted <= it.s.count
}

// seek reports whether the search may begin near the requested instant, because nothing must be
// counted from the start.
func (it *steps) seek() bool { return it.s.count == 0 }

// before reports whether a local time is before the first that may fire. If the start is an
// instant, or the append, local times count by their instants. Late in the first pass of an
// overlap, the second pass has earlier local times.
func (s *series) before(w wall) bool {
	if s.byInstant {
		passes := s.clock.resolve(w, "shift", s.overlap)
		return s.early(passes[len(passes)-1].at*1000 + s.frac)
	}
	if s.strict {
		return w <= s.start
	}
	return w < s.start
}

// early reports whether an instant is before the start.
func (s *series) early(at int64) bool { return at < s.startAt || s.strict && at <= s.startAt }

// begun returns the occurrences at a local time that are not before the start.
func (s *series) begun(w wall, frac int64) []occurrence {
	if day, ok := s.holidays.moved(w.day()); day != w.day() || !ok {
		return s.onDay(day, ok, w, frac)
	}
	return slices.DeleteFunc(s.atWall(w, frac), func(o occurrence) bool { return s.byInstant && s.early(o.at) })
}

// onDay returns the occurrences at a local time that a calendar moves to another day. A local time of include stays on
// its own day, and is there only once.
func (s *series) onDay(day int64, ok bool, w wall, frac int64) (out []occurrence) {
	if !ok || slices.ContainsFunc(s.include, func(o occurrence) bool { return o.named && o.local == w }) {
		return nil
	}
	shift := day - w.day()
	meant := s.clock.resolve(w, "shift", "first")[0].at*1000 + frac
	for _, p := range s.clock.resolve(w+wall(shift*86400), s.gap, s.overlap) {
		out = append(out, occurrence{
			at: p.at*1000 + frac, name: wallName(w, frac, p.second), local: w, named: true, shift: shift, meant: meant,
		})
	}
	return out
}

// pullEvery yields start, start + every, start + 2 every …
func (it *steps) pullEvery() func() ([]occurrence, bool) {
	s := it.s
	k := int64(0)
	if s.strict {
		k = 1
	}
	first := k
	if at := floorDiv(it.after-s.startAt, s.every); at > k { // computed directly, also with a count
		k = at
	}
	return func() ([]occurrence, bool) {
		if s.count > 0 && k-first >= int64(s.count) {
			return nil, false
		}
		at := s.startAt + k*s.every
		k++
		it.reached = at + slack + 1
		o := s.instant(at)
		return []occurrence{o}, !s.past(&o)
	}
}

// instant returns an occurrence that is named by its instant.
func (s *series) instant(at int64) occurrence {
	return occurrence{at: at, name: spell(at), local: s.clock.show(floorDiv(at, 1000))}
}

// pullPeriods serves FREQ DAILY and above. It checks each day of one period of the rule after
// another.
func (it *steps) pullPeriods() func() ([]occurrence, bool) {
	s, times := it.s, it.s.rule.times()
	n := int64(0)
	if s.byInstant { // in an overlap at midnight, the day before may count
		n = -int64(s.rule.interval)
	}
	if s.rule.byWeekNo != nil {
		n = -1 // the start may be in the last week of the previous year
	}
	from := s.clock.show(floorDiv(it.after, 1000)).day() - 3 - s.holidays.later()
	if it.seek() && from > s.start.day() {
		k := int64(s.rule.interval)
		n = max(n, floorDiv(s.rule.periodOf(s.start, from), k)*k)
		if s.rule.byWeekNo != nil {
			n = max(-1, n-1)
		}
	}
	limit := max(from, s.start.day()) + searchYears*366
	return func() ([]occurrence, bool) {
		_, to := s.rule.span(s.start, n)
		var out []occurrence
		for _, w := range s.rule.candidates(s.start, n, times) {
			if s.before(w) {
				continue
			}
			if !it.candidate() {
				return out, false
			}
			out = append(out, s.begun(w, s.frac)...)
			limit = max(limit, w.day()+searchYears*366)
		}
		n += int64(s.rule.interval)
		it.reached = to * 86400 * 1000
		return out, to < limit && !s.ends(wall(to*86400))
	}
}

// ends reports whether all local times from w on are after the end of the rule.
func (s *series) ends(w wall) bool {
	return s.hasWall && w > s.untilWall || s.untilAt != 0 && int64(w)*1000 > s.untilAt+slack
}

// pullDays serves cron with fixed hours and minutes, day by day.
func (it *steps) pullDays() func() ([]occurrence, bool) {
	s, times := it.s, it.s.cron.times()
	day := s.start.day()
	if s.byInstant { // in an overlap at midnight, the day before may count
		day--
	}
	if it.seek() {
		day = max(day, s.clock.show(floorDiv(it.after, 1000)).day()-3-s.holidays.later())
	}
	limit := day + searchYears*366
	return func() ([]occurrence, bool) {
		var out []occurrence
		if s.cron.matches(day) {
			for _, t := range times {
				w := wall(day*86400 + t)
				if s.before(w) || !s.strict && w == s.start && s.frac > 0 {
					continue
				}
				if !it.candidate() {
					return out, false
				}
				out = append(out, s.begun(w, 0)...)
			}
			limit = day + searchYears*366
		}
		day++
		it.reached = day * 86400 * 1000
		return out, day < limit && !s.ends(wall(day*86400))
	}
}

// pullLive serves cron whose minute or hour begins with a star, minute by minute of real time. If
// the day or the hour does not match, it skips whole quarters of an hour. The offsets of zones
// have been multiples of that since 1972.
func (it *steps) pullLive() func() ([]occurrence, bool) {
	s := it.s
	t := floorDiv(s.startAt, 60_000) * 60
	if it.seek() {
		t = max(t, floorDiv(it.after, 60_000)*60)
	}
	limit := t + searchYears*366*86400
	return func() ([]occurrence, bool) {
		for ; t < limit; t += 60 {
			w := s.clock.show(t)
			h, m, _ := w.clock()
			if !s.cron.hours[h] || !s.cron.matches(w.day()) {
				t += 900 - 60 - t%900
				continue
			}
			if !s.cron.minutes[m] || s.early(t*1000) {
				continue
			}
			if !it.candidate() {
				return nil, false
			}
			at := t
			t += 60
			limit = t + searchYears*366*86400
			it.reached = t*1000 + slack
			return []occurrence{{at: at * 1000, name: s.liveName(at, w), local: w, named: true}}, !s.ends(w - 86400)
		}
		return nil, false
	}
}

// liveName returns the name of an occurrence, marked if it is in the second pass of an overlap.
func (s *series) liveName(at int64, w wall) string {
	ts := s.clock.instants(w)
	return wallName(w, 0, len(ts) > 1 && ts[0] < at)
}

// pullUnits serves HOURLY, MINUTELY and SECONDLY, one unit of elapsed time after another from the
// start.
func (it *steps) pullUnits() func() ([]occurrence, bool) {
	s, r := it.s, it.s.rule
	unit := map[frequency]int64{hourly: 3600, minutely: 60, secondly: 1}[r.freq]
	step := unit * int64(r.interval)
	expands := r.freq == hourly && (r.givenMinute || r.givenSecond) || r.freq == minutely && r.givenSecond
	begin := floorDiv(s.startAt, 1000)
	if expands {
		begin -= (int64(s.start)%unit + unit) % unit
	}
	k := int64(0)
	if it.seek() {
		k = max(0, floorDiv(floorDiv(it.after, 1000)-begin, step)-1)
	}
	limit := begin + k*step + searchYears*366*86400
	fits := r.matcher()
	return func() ([]occurrence, bool) {
		for ; begin+k*step < limit; k++ {
			t := begin + k*step
			w := s.clock.show(t)
			if jump := skip(w, fits(w.day())); jump > 0 { // near the end of a day that does not match
				k += max(0, jump/step-1)
				continue
			}
			var found []int64
			if expands {
				for at := t; at < t+unit; at++ {
					if w := s.clock.show(at); fits(w.day()) && r.fits(w) {
						found = append(found, at)
					}
				}
			} else if fits(w.day()) && r.fitsUnit(w) {
				found = []int64{t}
			}
			var out []occurrence
			for _, at := range setPos(found, r.bySetPos) {
				ms := at*1000 + s.frac
				if s.early(ms) {
					continue
				}
				if !it.candidate() {
					return out, false
				}
				out = append(out, s.instant(ms))
			}
			if len(out) > 0 {
				k++
				it.reached = (begin+k*step)*1000 + slack + 1
				limit = max(limit, t+searchYears*366*86400)
				return out, !s.ends(out[0].local - 86400)
			}
			if s.ends(w - 86400) {
				return nil, false
			}
		}
		return nil, false
	}
}

// matcher returns matches with a cache for repeated calls for one day.
func (r *rrule) matcher() func(day int64) bool {
	last, fits := int64(0), r.matches(0)
	return func(day int64) bool {
		if day != last {
			last, fits = day, r.matches(day)
		}
		return fits
	}
}

// skip returns how many seconds may be skipped if the date does not match. It stops up to two
// hours before the end of the day, so that it jumps over no transition.
func skip(w wall, fits bool) int64 {
	if fits {
		return 0
	}
	return max(0, (w.day()+1)*86400-int64(w)-7200)
}

// fitsUnit checks the parts that limit the time of day against the local time.
func (r *rrule) fitsUnit(w wall) bool {
	h, m, s := w.clock()
	return (!r.givenHour || has(r.byHour, h)) && (!r.givenMinute || has(r.byMinute, m)) &&
		(!r.givenSecond || has(r.bySecond, s))
}

// fits checks all parts of the time of day, including those that expand.
func (r *rrule) fits(w wall) bool {
	h, m, s := w.clock()
	return (!r.givenHour || has(r.byHour, h)) && (r.byMinute == nil || has(r.byMinute, m)) &&
		(r.bySecond == nil || has(r.bySecond, s))
}

func has(list []int, n int) bool {
	for _, v := range list {
		if v == n {
			return true
		}
	}
	return false
}
