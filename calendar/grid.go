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

// maxTries bounds one search: a look for each day of a Gregorian cycle.
const maxTries = cycleDays

// effort is how many steps an evaluation may still take. Steps are counted, not
// timed, so that every replica gives up at the same one.
type effort int

// What one search may take, at most about 10 ms; what a look at the first
// occurrences of a rule may, which holds to a part of it whoever asks for
// hundreds; and what counting may.
const (
	searchEffort = 1 << 17
	walkEffort   = 1 << 18
	countEffort  = 1 << 19
)

func (e *effort) spend(steps int) error {
	if *e -= effort(steps); *e < 0 {
		return fail(CodeInvalidRule, "recurrence",
			"takes too many steps to evaluate: its interval meets its times of day too seldom; write FREQ=DAILY "+
				"with BYHOUR, or an INTERVAL that divides a day")
	}
	return nil
}

// next finds the first instant at or after t. ok is false if there is none
// within 400 years, or none was found in maxLooks looks.
func (g *grid) next(z *Zone, t int64) (int64, bool, error) {
	e := effort(searchEffort)
	return g.nextWithin(z, t, &e)
}

func (g *grid) nextWithin(z *Zone, t int64, e *effort) (int64, bool, error) {
	if len(g.pos) == 0 {
		return g.search(z, t, t+cycleDays*secondsPerDay, e)
	}
	return g.nextPicked(z, t, e)
}

// search leaps from the grid to the wall times and back until both agree.
// Each leap is to the earliest instant that could do, and never over a clock
// change, which may bring back wall times that were passed.
func (g *grid) search(z *Zone, t, limit int64, e *effort) (int64, bool, error) {
	t = max(t, g.base)
	impossible := offsetSet{}
	for tries := 0; t <= limit && tries < maxTries; tries++ {
		if err := e.spend(1); err != nil {
			return 0, false, err
		}
		s := z.span(t)
		if tries >= 64 { // not a common rule: look closer before going on
			if g.unreachable(s.off, &impossible) {
				t = s.hi
				continue
			}
			if err := e.spend(g.leapSteps()); err != nil {
				return 0, false, err
			}
			t = min(g.leap(t, s.off), s.hi-1)
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
func (g *grid) nextPicked(z *Zone, t int64, e *effort) (int64, bool, error) {
	limit := t + cycleDays*secondsPerDay
	start := g.base + floorDiv(max(t, g.base)-g.base, g.step)*g.step
	for tries := 0; start <= limit && tries < maxTries; tries++ {
		first, ok, err := g.search(z, start, limit, e)
		if !ok || err != nil {
			return 0, false, err
		}
		start = g.base + floorDiv(first-g.base, g.step)*g.step
		u, ok, err := g.pickIn(z, start, first, t, e)
		if ok || err != nil {
			return u, ok, err
		}
		start += g.step
	}
	return 0, false, nil
}

// pickIn returns the first picked instant at or after t of the window that
// begins at start, whose first member is known. A window that is a whole hour
// or minute on local clocks has all its members or none, so the kth is
// computed; others, around clock changes, are listed.
func (g *grid) pickIn(z *Zone, start, first, t int64, e *effort) (best int64, ok bool, err error) {
	in := g.walls.times
	in.hours = 1
	if g.window == 60 {
		in.minutes = 1
	}
	n, member := in.count(), func(k int) int64 { return start + int64(in.at(k)) }
	if s := z.span(start); s.hi < start+g.window || floorMod(start+s.off, g.window) != 0 {
		var list []int64
		for u, ok := first, true; ok && u < start+g.window; {
			list = append(list, u)
			if u, ok, err = g.search(z, u+1, start+g.window-1, e); err != nil {
				return 0, false, err
			}
		}
		n, member = len(list), func(k int) int64 { return list[k] }
	}
	if err = e.spend(len(g.pos) / 8); err != nil {
		return 0, false, err
	}
	for _, pos := range g.pos {
		k := pos - 1
		if pos < 0 {
			k = n + pos
		}
		if k < 0 || k >= n {
			continue
		}
		if u := member(k); u >= t && (!ok || u < best) {
			best, ok = u, true
		}
	}
	return best, ok, nil
}

// unreachable tells whether, at one offset, no window ever meets a time of
// day of the rule: FREQ=HOURLY;INTERVAL=24;BYHOUR=1 from 09:00. Windows visit
// the times of day that are congruent modulo gcd(step, a day). rrule-go and
// others loop for ever on such rules.
func (g *grid) unreachable(off int64, seen *offsetSet) bool {
	if g.step == 0 {
		return false
	}
	if v, ok := seen.get(off); ok {
		return v
	}
	stride := gcd(g.step, secondsPerDay)
	for first := floorMod(g.base+off, stride); first < secondsPerDay; {
		tod, ok := g.walls.times.next(int(first))
		if !ok {
			break
		}
		if int64(tod) < first+g.window {
			seen.put(off, false)
			return false
		}
		first += ceilDiv(int64(tod)+1-g.window-first, stride) * stride // the first window that may hold it
	}
	seen.put(off, true)
	return true
}

// maxLeapTimes bounds the work of one leap. Rules with more times of day meet
// one of them soon.
const maxLeapTimes = 256

// leapSteps is the work of one leap, 0 where there is none to make.
func (g *grid) leapSteps() int {
	if n := g.walls.times.count(); g.step != 0 && g.window == 1 && n <= maxLeapTimes {
		return n
	}
	return 0
}

// leap returns an instant at or after t that the grid cannot hit a time of day
// of the rule before, at one offset: FREQ=SECONDLY;INTERVAL=86399 at 05:05:05
// comes by once in 236 years.
func (g *grid) leap(t, off int64) int64 {
	if g.leapSteps() == 0 {
		return t
	}
	at := g.base + ceilDiv(t-g.base, g.step)*g.step
	tod := floorMod(at+off, secondsPerDay)
	best := int64(-1)
	for want, ok := g.walls.times.first(), true; ok; want, ok = g.walls.times.next(want + 1) {
		diff := floorMod(int64(want)-tod, secondsPerDay)
		if x := firstInRange(floorMod(g.step, secondsPerDay), secondsPerDay, diff, diff); x >= 0 &&
			(best < 0 || x < best) {
			best = x
		}
	}
	if best < 0 {
		return at
	}
	return at + best*g.step
}

// firstInRange is the least x ≥ 0 with lo ≤ a·x mod m ≤ hi, or -1. It descends
// as Euclid's algorithm does.
func firstInRange(a, m, lo, hi int64) int64 {
	if lo == 0 {
		return 0
	}
	if a == 0 {
		return -1
	}
	if c := ceilDiv(lo, a); c*a <= hi {
		return c
	}
	y := firstInRange(m%a, a, a-hi%a, a-lo%a)
	if y < 0 {
		return -1
	}
	return ceilDiv(lo+m*y, a)
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
