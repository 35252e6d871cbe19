package calendar

// Missed sums up the occurrences in after < t ≤ until, for a misfire policy:
// how many, the first and the last. It counts to max and no further; last is
// the true last even then. The work is bounded by max looks and a few dozen.
func (r *Rule) Missed(after, until int64, max int) (count int, first, last Occurrence, err error) {
	if r.kind == onInterval && r.holidays == nil && len(r.include) == 0 && r.exclude.none() {
		return r.missedOnInterval(after, until, max)
	}
	for at := after; ; {
		o, ok, err := r.Next(at)
		if err != nil || !ok || o.At > until {
			return count, first, last, err
		}
		if count == max {
			last, _, err = r.Prev(until)
			return count, first, last, err
		}
		if count == 0 {
			first = o
		}
		count, last, at = count+1, o, o.At
	}
}

// missedOnInterval counts what comes at one distance without walking there.
func (r *Rule) missedOnInterval(after, until int64, most int) (count int, first, last Occurrence, err error) {
	first, ok, err := r.Next(after)
	if err != nil || !ok || first.At > until {
		return 0, Occurrence{}, Occurrence{}, err
	}
	steps := (min(until, r.untilAt, maxInstant) - first.At) / r.step
	last = Occurrence{At: first.At + steps*r.step, Elapsed: true}
	return int(min(steps+1, int64(most))), first, last, nil
}

// Between lists the occurrences in after < t ≤ until, at most max of them.
func (r *Rule) Between(after, until int64, max int) (list []Occurrence, err error) {
	for len(list) < max {
		o, ok, err := r.Next(after)
		if err != nil || !ok || o.At > until {
			return list, err
		}
		list = append(list, o)
		after = o.At
	}
	return list, nil
}

// Prev returns the last occurrence at or before an instant. It goes back in
// doubling strides until an occurrence lies ahead, then halves the distance.
func (r *Rule) Prev(until int64) (o Occurrence, ok bool, err error) {
	until = min(max(until, minInstant), maxInstant+maxMove*msPerDay) // strides do not overflow
	lowest := min(until, r.lowest())
	for stride := int64(60_000); ; stride *= 2 {
		from := max(until-stride, lowest)
		if o, ok, err = r.Next(from); err != nil {
			return Occurrence{}, false, err
		}
		if ok && o.At <= until {
			break
		}
		if from == lowest {
			return Occurrence{}, false, nil
		}
	}
	for hi := until; ; {
		next, ok, err := r.Next(o.At)
		if err != nil || !ok || next.At > until {
			return o, true, err
		}
		o = next
		for hi > o.At { // leap over half of what is left, as long as something is there
			mid := o.At + (hi-o.At)/2
			next, ok, err := r.Next(mid)
			if err != nil {
				return o, true, err
			}
			if ok && next.At <= until {
				o = next
				break
			}
			hi = mid
		}
	}
}

// lowest is an instant before every occurrence.
func (r *Rule) lowest() int64 {
	low := max(r.startAt, int64(r.startWall)-3*msPerDay, int64(minDay)*msPerDay)
	if len(r.include) > 0 {
		low = min(low, r.include[0].At)
	}
	return max(low-r.holidays.behind()-1, r.floor)
}
