package calendar

// grid is a rule on the real timeline: instants, each with one local reading,
// and the reading decides. It serves two masters.
//
// FREQ below DAILY: elapsed time. From base on, windows of `window` seconds
// follow each other every `step` seconds of elapsed time: the hours of an
// HOURLY rule, the minutes of a MINUTELY one. An instant fires if it lies in
// a window and its local reading is in `walls`. A window of one second is a
// point; then BY parts only filter (RFC 5545 §3.3.10, "limit").
//
// cron with * in minute or hour: one window, from the beginning of time.
//
// Instants are in seconds; a start's milliseconds are added back by the caller.
type grid struct {
	base, step, window int64
	walls              *wallSet
	pos                []int // BYSETPOS within a window
}

// maxLooks bounds one search: a look for each day of a Gregorian cycle.
const maxLooks = cycleDays

// next finds the first instant at or after t. ok is false if there is none
// within 400 years, or none was found in maxLooks looks.
func (g *grid) next(z *Zone, t int64) (int64, bool, error) {
	if len(g.pos) == 0 {
		return g.search(z, t, t+cycleDays*secondsPerDay)
	}
	return g.nextPicked(z, t)
}

// search leaps from the grid to the wall times and back until both agree.
// Each leap is to the earliest instant that could do, and never over a clock
// change, which may bring back wall times that were passed.
func (g *grid) search(z *Zone, t, limit int64) (int64, bool, error) {
	t = max(t, g.base)
	impossible := offsetSet{}
	for looks := 0; t <= limit && looks < maxLooks; looks++ {
		s := z.span(t)
		if looks >= 64 && g.unreachable(s.off, &impossible) {
			t = s.hi
			continue
		}
		w, ok, err := g.walls.next(t + s.off)
		if !ok || err != nil {
			return 0, false, err
		}
		if t = w - s.off; t >= s.hi { // clocks change before it, perhaps back: look again from there
			t = s.hi
			continue
		}
		if g.step == 0 {
			return t, t <= limit, nil
		}
		k := floorDiv(t-g.base, g.step)
		start := g.base + k*g.step
		if t < start+g.window {
			return t, t <= limit, nil
		}
		t = start + g.step
	}
	return 0, false, nil
}

// nextPicked evaluates BYSETPOS in one window after another.
func (g *grid) nextPicked(z *Zone, t int64) (int64, bool, error) {
	limit := t + cycleDays*secondsPerDay
	start := g.base + floorDiv(max(t, g.base)-g.base, g.step)*g.step
	for looks := 0; start <= limit && looks < maxLooks; looks++ {
		first, ok, err := g.search(z, start, limit)
		if !ok || err != nil {
			return 0, false, err
		}
		start = g.base + floorDiv(first-g.base, g.step)*g.step
		var members []int64
		for u := first; ok && u < start+g.window; u, ok, err = g.search(z, u+1, start+g.window-1) {
			members = append(members, u)
		}
		if err != nil {
			return 0, false, err
		}
		if u, ok := g.pick(members, t); ok {
			return u, true, nil
		}
		start += g.step
	}
	return 0, false, nil
}

func (g *grid) pick(members []int64, t int64) (best int64, ok bool) {
	for _, pos := range g.pos {
		k := pos - 1
		if pos < 0 {
			k = len(members) + pos
		}
		if k < 0 || k >= len(members) {
			continue
		}
		if u := members[k]; u >= t && (!ok || u < best) {
			best, ok = u, true
		}
	}
	return best, ok
}

// unreachable tells whether, at one offset, no window ever meets a time of
// day of the rule: FREQ=HOURLY;INTERVAL=24;BYHOUR=1 from 09:00. Windows visit
// the times of day that are congruent modulo gcd(step, a day). rrule-go and
// others loop for ever on such rules (TIME D5).
func (g *grid) unreachable(off int64, seen *offsetSet) bool {
	if g.step == 0 {
		return false
	}
	if v, ok := seen.get(off); ok {
		return v
	}
	stride := gcd(g.step, secondsPerDay)
	for first := floorMod(g.base+off, stride); first < secondsPerDay; first += stride {
		tod, ok := g.walls.times.next(int(first))
		if ok && int64(tod) < first+g.window {
			seen.put(off, false)
			return false
		}
	}
	seen.put(off, true)
	return true
}

// offsetSet remembers an answer for each of the few offsets of a zone.
type offsetSet struct {
	off    [8]int64
	answer [8]bool
	n      int
}

func (s *offsetSet) get(off int64) (answer, ok bool) {
	for i := range min(s.n, len(s.off)) {
		if s.off[i] == off {
			return s.answer[i], true
		}
	}
	return false, false
}

func (s *offsetSet) put(off int64, answer bool) {
	i := s.n % len(s.off)
	s.off[i], s.answer[i] = off, answer
	s.n++
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
