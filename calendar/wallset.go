package calendar

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

// nextPicked evaluates BYSETPOS over whole periods, also the one the start
// falls into (TIME P10). A period's members are days × times, so the kth is
// found without listing them.
func (s *wallSet) nextPicked(from int64, day, limit int) (int64, bool, error) {
	var buf [maxPeriodDays]int
	times := s.times.count()
	for day <= limit {
		d, ok, err := s.days.next(s.days.first(s.days.period(day)), limit)
		if !ok || err != nil {
			return 0, false, err
		}
		end := s.days.first(s.days.period(d)+1) - 1
		members := buf[:0]
		for ok && d <= end && len(members) < len(buf) {
			members = append(members, d)
			if d, ok, err = s.days.next(d+1, end); err != nil {
				return 0, false, err
			}
		}
		if w, ok := s.pick(members, times, from); ok {
			return w, true, nil
		}
		day = end + 1
	}
	return 0, false, nil
}

// pick returns the first picked member at or after from.
func (s *wallSet) pick(members []int, times int, from int64) (best int64, ok bool) {
	total := len(members) * times
	for _, pos := range s.pos {
		k := pos - 1
		if pos < 0 {
			k = total + pos
		}
		if k < 0 || k >= total {
			continue
		}
		w := int64(members[k/times])*secondsPerDay + int64(s.times.at(k%times))
		if w >= from && (!ok || w < best) {
			best, ok = w, true
		}
	}
	return best, ok
}
