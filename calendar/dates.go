package calendar

import "slices"

// readExclude sorts the exclusions by their form. A wall time also stands for
// the instants it means, since the set of occurrences is one of instants.
func (c *compiler) readExclude() error {
	x := excluded{}
	for _, s := range c.spec.Exclude {
		w, err := parseWhen(s)
		if err != nil {
			return in("exclude", err)
		}
		switch w.kind {
		case isDay:
			put(&x.days, w.wall.Date())
		case isAt:
			put(&x.instants, w.at)
		case isWall:
			put(&x.walls, w.wall)
			for _, res := range c.r.zone.Resolve(w.wall, c.r.dst) {
				put(&x.instants, res.At)
			}
		}
	}
	c.r.exclude = x
	return nil
}

func put[K comparable](m *map[K]struct{}, k K) {
	if *m == nil {
		*m = map[K]struct{}{}
	}
	(*m)[k] = struct{}{}
}

// readInclude resolves the extra dates. Wall times that a gap swallows under
// GapSkip are dropped, as the rule's own would be.
func (c *compiler) readInclude() error {
	var all []Occurrence
	for _, s := range c.spec.Include {
		w, err := parseWhen(s)
		if err != nil {
			return in("include", err)
		}
		switch w.kind {
		case isAt:
			all = append(all, Occurrence{At: w.at, Elapsed: true})
			continue
		case isDay:
			w.wall += c.timeOfDay()
		}
		for _, res := range c.r.zone.Resolve(w.wall, c.r.dst) {
			all = append(all, Occurrence{At: res.At, Local: w.wall, Fold: res.Fold, Note: res.note()})
		}
	}
	all = slices.DeleteFunc(all, func(o Occurrence) bool {
		wall := o.Local
		if o.Elapsed {
			wall = c.r.zone.Wall(o.At)
		}
		return c.r.exclude.day(wall.Date()) || c.r.exclude.has(o.At, wall)
	})
	slices.SortFunc(all, func(a, b Occurrence) int {
		switch {
		case a.before(b):
			return -1
		case b.before(a):
			return 1
		}
		return 0
	})
	c.r.include = slices.CompactFunc(all, func(a, b Occurrence) bool { return a.At == b.At })
	if c.r.kind == onDates && len(all) == 0 {
		return fail(CodeNoOccurrences, "include", "exclude leaves no date of include")
	}
	return nil
}

// timeOfDay is the time that a bare date in include takes from the start.
func (c *compiler) timeOfDay() Wall {
	wall := c.phase
	switch {
	case c.start.kind == isNothing && c.r.kind == onDates:
		return 0
	case c.start.kind == isNothing && c.r.kind == onWalls:
		wall = c.r.startWall
	case c.start.kind == isNothing:
		wall = c.r.zone.Wall(c.r.startAt)
	}
	return floorMod(wall, msPerDay)
}
