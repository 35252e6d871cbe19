package calendar

import "slices"

// wallSet is the wall times of a rule, without zone, start and end: dates
// times times of day, thinned out by BYSETPOS. Wall times are in seconds here
// and nowhere else; a start's milliseconds are added back by the caller.
type wallSet struct {
	days  *daySet
	times timeSet
	pos   []int // BYSETPOS; nil: all
}

// next finds the first wall time at or after from. ok is false if there is
// none within one Gregorian cycle of 400 years, or before the year 10000:
// such a rule never fires again, and looking took bounded work.
func (s *wallSet) next(from int64) (w int64, ok bool, err error) {
	day := int(floorDiv(from, secondsPerDay))
	limit := min(day+cycleDays+366, maxDay)
	if len(s.pos) > 0 {
		return s.nextPicked(from, day, limit)
	}
	d, ok, err := s.days.next(day, limit)
	if !ok || err != nil {
		return 0, false, err
	}
	if d == day {
		if tod, ok := s.times.next(int(from - int64(day)*secondsPerDay)); ok {
			return int64(day)*secondsPerDay + int64(tod), true, nil
		}
		if d, ok, err = s.days.next(day+1, limit); !ok || err != nil {
			return 0, false, err
		}
	}
	return int64(d)*secondsPerDay + int64(s.times.first()), true, nil
}

// maxPeriodDays is the longest period: a year of 53 weeks.
const maxPeriodDays = 371

// count walks n wall times from one on, fewer if there are no more, and returns
// the last. With BYSETPOS it looks at each period once, not at each pick of it.
func (s *wallSet) count(from int64, n int) (last int64, counted int, err error) {
	if len(s.pos) == 0 {
		for counted < n {
			w, ok, err := s.next(from)
			if err != nil || !ok {
				return last, counted, err
			}
			from, last, counted = w+1, w, counted+1
		}
		return last, counted, nil
	}
	var buf [maxPeriodDays]int
	var picks []int64
	day := int(floorDiv(from, secondsPerDay))
	for limit := min(day+cycleDays+366, maxDay); day <= limit; {
		members, end, err := s.period(&buf, day, limit)
		if err != nil || len(members) == 0 {
			return last, counted, err
		}
		picks = s.picks(picks[:0], members, from)
		if left := n - counted; len(picks) >= left {
			return picks[left-1], n, nil
		}
		if counted += len(picks); len(picks) > 0 {
			last, limit = picks[len(picks)-1], min(end+cycleDays+366, maxDay)
		}
		day = end + 1
	}
	return last, counted, nil
}

// period lists the days of the first period with any that ends at day or after
// it, but does not begin after limit; end is the period's last day.
func (s *wallSet) period(buf *[maxPeriodDays]int, day, limit int) (members []int, end int, err error) {
	d, ok, err := s.days.next(s.days.first(s.days.period(day)), limit)
	if !ok || err != nil {
		return nil, 0, err
	}
	end = s.days.first(s.days.period(d)+1) - 1
	members = buf[:0]
	for ok && d <= end && len(members) < len(buf) {
		members = append(members, d)
		if d, ok, err = s.days.next(d+1, end); err != nil {
			return nil, 0, err
		}
	}
	return members, end, nil
}

// nextPicked evaluates BYSETPOS over whole periods, also the one the start
// falls into. A period's members are days × times, so the kth is
// found without listing them.
func (s *wallSet) nextPicked(from int64, day, limit int) (int64, bool, error) {
	var buf [maxPeriodDays]int
	times := s.times.count()
	for day <= limit {
		members, end, err := s.period(&buf, day, limit)
		if err != nil || len(members) == 0 {
			return 0, false, err
		}
		if w, ok := s.pick(members, times, from); ok {
			return w, true, nil
		}
		day = end + 1
	}
	return 0, false, nil
}

// picks appends all picked members at or after from, in order.
func (s *wallSet) picks(to []int64, members []int, from int64) []int64 {
	times := s.times.count()
	for _, pos := range s.pos {
		if w, ok := s.member(members, times, pos); ok && w >= from {
			to = append(to, w)
		}
	}
	slices.Sort(to)
	return slices.Compact(to)
}

// member is the one that a position names; ok is false where there is none.
func (s *wallSet) member(members []int, times, pos int) (w int64, ok bool) {
	total := len(members) * times
	k := pos - 1
	if pos < 0 {
		k = total + pos
	}
	if k < 0 || k >= total {
		return 0, false
	}
	return int64(members[k/times])*secondsPerDay + int64(s.times.at(k%times)), true
}

// pick returns the first picked member at or after from.
func (s *wallSet) pick(members []int, times int, from int64) (best int64, ok bool) {
	for _, pos := range s.pos {
		if w, is := s.member(members, times, pos); is && w >= from && (!ok || w < best) {
			best, ok = w, true
		}
	}
	return best, ok
}
