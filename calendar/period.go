package calendar

import "time"

// walked is how many occurrences or days Period looks at. Rules repeat; only
// calendar freaks have their closest pair further on.
const walked = 128

// Period is the shortest distance between two occurrences of the rule, before
// clock changes and without include; 0 if it fires at most once. Distances
// within a day are exact; those between days are the least of the first 128.
func (r *Rule) Period() time.Duration {
	switch r.kind {
	case onInterval:
		if r.untilAt-r.startAt < r.step {
			return 0
		}
		return time.Duration(r.step) * time.Millisecond
	case onGrid:
		p, _ := r.closestOnGrid()
		return p
	case onWalls:
		if r.walls.pos == nil {
			return r.closestWall()
		}
		return r.closest(r.walls.next, ceilDiv(int64(r.startWall)-r.subMs, 1000), floorDiv(int64(r.lastWall), 1000))
	}
	return 0
}

// Closest is the shortest distance between two occurrences, dates of include
// too; 0 if there is only one. It looks at the rule as Period does, and at how
// far the first 128 dates are from the rule's occurrences.
func (r *Rule) Closest() time.Duration {
	r.closestOnce.Do(func() { r.closestMs = r.closestWithDates() })
	return time.Duration(r.closestMs) * time.Millisecond
}

func (r *Rule) closestWithDates() int64 {
	best := r.Period().Milliseconds()
	consider := func(distance int64) {
		if distance > 0 && (best == 0 || distance < best) {
			best = distance
		}
	}
	for i, date := range r.include {
		if i > 0 {
			consider(date.At - r.include[i-1].At)
		}
		if i >= walked {
			continue
		}
		from := int64(minInstant)
		if best > 0 {
			from = date.At - best
		}
		for range walked {
			o, ok, err := r.nextOfRule(from)
			if !ok || err != nil {
				break
			}
			consider(max(o.At-date.At, date.At-o.At))
			if from = o.At; from > date.At {
				break
			}
		}
	}
	return best
}

// CheckPeriod refuses a rule whose occurrences are closer to each other than
// least; 0 is no bound.
func (r *Rule) CheckPeriod(least time.Duration) error {
	if least <= 0 || !r.mayBeCloser(least) {
		return nil
	}
	if p := r.Period(); p > 0 && p < least {
		return fail(CodePeriodTooShort, "recurrence", "fires every %s; the shortest period allowed is %s",
			DurationText(p), DurationText(least))
	}
	return nil
}

// mayBeCloser is a quick look at the times of day, which spares most rules
// the walk.
func (r *Rule) mayBeCloser(than time.Duration) bool {
	if r.kind != onWalls {
		return true
	}
	within, last := r.walls.times.spread()
	overnight := secondsPerDay - (last - r.walls.times.first())
	if within == 0 {
		within = overnight
	}
	return time.Duration(min(within, overnight))*time.Second < than
}

// closestOnGrid also says where the walk takes too many steps.
func (r *Rule) closestOnGrid() (p time.Duration, err error) {
	spare := effort(walkEffort)
	p = r.closest(func(t int64) (u int64, ok bool, _ error) {
		u, ok, err = r.grid.nextWithin(r.zone, t, &spare)
		return u, ok, err
	}, ceilDiv(r.startAt-r.subMs, 1000), floorDiv(r.untilAt, 1000))
	return p, err
}

// closest walks a sequence of seconds.
func (r *Rule) closest(next func(int64) (int64, bool, error), from, last int64) time.Duration {
	var best, prev int64
	for i := range walked {
		t, ok, err := next(from)
		if !ok || err != nil || t > last {
			break
		}
		if i > 0 && (best == 0 || t-prev < best) {
			best = t - prev
		}
		prev, from = t, t+1
	}
	return time.Duration(best) * time.Second
}

// closestWall compares times within a day, and the last of one day with the
// first of the next that counts.
func (r *Rule) closestWall() time.Duration {
	t := r.walls.times
	within, last := t.spread()
	days := r.closest(func(day int64) (int64, bool, error) {
		d, ok, err := r.walls.days.next(int(day), int(day)+cycleDays)
		return int64(d), ok, err
	}, int64(r.startWall.Date()), int64(min(r.lastWall, Wall(maxInstant)).Date())) / time.Second
	between := int64(days)*secondsPerDay - int64(last-t.first())
	switch {
	case r.lastWall == r.startWall:
		return 0
	case days == 0:
		return time.Duration(within) * time.Second
	case within == 0 || between < int64(within):
		return time.Duration(between) * time.Second
	}
	return time.Duration(within) * time.Second
}
