package calendar

// fixStart checks that the rule yields anything at all and, where no start
// was given, makes the first candidate after the append the start.
func (c *compiler) fixStart() error {
	r := c.r
	if h := r.holidays; h != nil && h.on != OnSkip && (r.kind == onGrid || r.kind == onInterval) {
		return fail(CodeInvalid, "calendars", "%s moves whole days; with a rule that fires on elapsed time write skip",
			h.on)
	}
	switch r.kind {
	case onWalls:
		return c.fixFirstWall()
	case onGrid:
		return c.fixFirstInstant()
	case onInterval:
		if c.start.kind == isNothing {
			r.startAt = c.at + r.step
			r.start = utcString(r.startAt)
		}
		if r.startAt > maxInstant {
			return fail(CodeInvalidRule, "recurrence", "the first occurrence would be after the year 9999")
		}
	}
	return nil
}

func (c *compiler) fixFirstWall() error {
	r := c.r
	from := r.startWall
	if c.start.kind != isWall {
		from = c.phase - 2*msPerDay
	}
	for from := ceilDiv(int64(from)-r.subMs, 1000); ; {
		w, ok, err := r.walls.next(from)
		if err != nil {
			return err
		}
		if !ok {
			return c.never()
		}
		wall := Wall(w*1000 + r.subMs)
		if c.start.kind == isWall || c.lastInstant(wall) >= r.startAt {
			r.startWall = wall
			break
		}
		from = w + 1
	}
	if c.start.kind == isNothing {
		r.start = r.startWall.String()
	}
	return nil
}

// lastInstant is the latest instant a wall time means, also where DST skips it.
func (c *compiler) lastInstant(w Wall) int64 {
	var buf [2]Resolved
	n := c.r.zone.resolve(w, c.r.dst, &buf)
	if n == 0 {
		return c.r.zone.ResolveFirst(w)
	}
	return buf[n-1].At
}

func (c *compiler) fixFirstInstant() error {
	r := c.r
	u, ok, err := r.grid.next(r.zone, ceilDiv(r.startAt-r.subMs, 1000))
	if err != nil {
		return err
	}
	if !ok {
		return c.never()
	}
	r.startAt = u*1000 + r.subMs
	if c.start.kind == isNothing || c.start.kind == isWall && r.ElapsedTime() {
		r.start = utcString(r.startAt)
	}
	return nil
}

func (c *compiler) never() error {
	return fail(CodeNoOccurrences, "recurrence", "%s never fires: nothing matches in 400 years",
		clip(c.spec.Recurrence))
}

// fixCount turns COUNT into the last candidate. For wall times that is a
// function of start and rule alone: neither zone nor exclusions matter.
func (c *compiler) fixCount() error {
	if c.count == 0 {
		return nil
	}
	r := c.r
	switch r.kind {
	case onInterval:
		if steps := int64(c.count - 1); steps <= (maxInstant-r.startAt)/r.step {
			r.untilAt = r.startAt + steps*r.step
		}
	case onGrid:
		return c.countGrid()
	case onWalls:
		return c.countWalls()
	}
	return nil
}

func (c *compiler) countWalls() error {
	last, n, err := c.r.walls.count(ceilDiv(int64(c.r.startWall)-c.r.subMs, 1000), min(c.count, countSteps))
	if err != nil {
		return err
	}
	wall := Wall(last*1000 + c.r.subMs)
	switch {
	case n < min(c.count, countSteps): // ends by itself before the count does
	case c.count > countSteps:
		c.r.countedTo = c.r.zone.ResolveFirst(wall)
	default:
		c.r.lastWall = wall
	}
	return nil
}

// countGrid walks. A rule that takes too many steps is refused; a preview, which
// may be asked for any count, says how far it came (countedTo).
func (c *compiler) countGrid() error {
	t, last := ceilDiv(c.r.startAt-c.r.subMs, 1000), int64(0)
	spare := effort(countEffort)
	for range min(c.count, countSteps) {
		u, ok, err := c.r.grid.nextWithin(c.r.zone, t, &spare)
		if err != nil && c.limits.MaxCount > countSteps {
			c.r.countedTo = last*1000 + c.r.subMs
			return nil
		}
		if err != nil {
			return err
		}
		if !ok {
			return nil
		}
		t, last = u+1, u
	}
	if c.count > countSteps {
		c.r.countedTo = last*1000 + c.r.subMs
		return nil
	}
	c.r.untilAt = last*1000 + c.r.subMs
	return nil
}
