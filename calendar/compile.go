package calendar

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Compile checks a Spec and prepares its evaluation, under a step budget: at
// most a few milliseconds for the worst rule that fits the limits. The error
// is an *Error.
func Compile(zs *Zones, s Spec) (*Rule, error) {
	c := compiler{spec: s, limits: s.Limits.withDefaults()}
	for _, step := range []func() error{
		func() error { return c.lookUp(zs) },
		c.checkSizes,
		c.readStart,
		c.readRule,
		c.readEnd,
		c.readExclude,
		c.settleStart,
		c.settleCount,
		c.readInclude,
		c.checkLimits,
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return c.r, nil
}

// compiler is a Rule in the making; its methods run in the order above.
type compiler struct {
	spec   Spec
	limits Limits
	r      *Rule

	start when  // as the caller gave it, or isNothing
	phase Wall  // what the rule is phased on, given or not
	at    int64 // the same as an instant
	count int   // COUNT, from the rule or the field
	until when
}

func (c *compiler) lookUp(zs *Zones) error {
	name := c.spec.Zone
	if name == "" {
		name = "UTC"
	}
	z, err := zs.Lookup(name)
	if err != nil {
		return err
	}
	h, err := newHolidays(c.spec.Calendars)
	if err != nil {
		return err
	}
	c.r = &Rule{
		zone: z, dst: c.spec.DST, holidays: h,
		startWall: minInstant, startAt: minInstant, floor: minInstant,
		lastWall: math.MaxInt64, untilAt: math.MaxInt64,
	}
	return nil
}

func (c *compiler) checkSizes() error {
	text := c.spec.Recurrence
	if len(text) > c.limits.RuleBytes {
		return fail(CodeInvalidRule, "recurrence", "has %d bytes; %d are allowed", len(text), c.limits.RuleBytes)
	}
	for i := range len(text) {
		if text[i] >= 0x80 {
			return failAt(CodeInvalidRule, "recurrence", i, "has a character outside ASCII")
		}
	}
	if n := len(c.spec.Include) + len(c.spec.Exclude); n > c.limits.MaxDates {
		return fail(CodeInvalid, "include", "include and exclude have %d entries; %d are allowed", n, c.limits.MaxDates)
	}
	if strings.TrimSpace(text) == "" && len(c.spec.Include) == 0 {
		return fail(CodeInvalidRule, "recurrence", "is empty; write FREQ=DAILY, cron:0 9 * * *, every:15m, or give dates in include")
	}
	return nil
}

// readStart finds the phase. A start in a gap or an overlap is read under
// DST, except that a skipped one still has to phase the rule.
func (c *compiler) readStart() error {
	if c.spec.Start == "" {
		c.at = floorDiv(c.spec.Append, 1000) * 1000
		c.phase = c.r.zone.Wall(c.at)
		c.r.startAt = c.spec.Append + 1
		c.r.floor = c.spec.Append
		return nil
	}
	w, err := parseWhen(c.spec.Start)
	if err != nil {
		return in("start", err)
	}
	c.start = w
	switch w.kind {
	case isDay:
		return fail(CodeInvalid, "start", "%s is a date without a time; write %sT09:00", clip(c.spec.Start), c.spec.Start)
	case isAt:
		if w.at < -62_135_596_800_000 || w.at > maxInstant {
			return fail(CodeInvalid, "start", "%s is outside the years 1 to 9999", clip(c.spec.Start))
		}
		c.at, c.phase = w.at, c.r.zone.Wall(w.at)
		c.r.startAt = w.at
		c.r.start = utcString(w.at)
	default:
		c.at, c.phase = c.instantOf(w.wall), w.wall
		c.r.startWall = w.wall
		c.r.start = w.wall.String()
	}
	c.r.subMs = floorMod(int64(c.phase), 1000)
	return nil
}

func (c *compiler) instantOf(w Wall) int64 {
	var buf [2]Resolved
	if c.r.zone.resolve(w, c.r.dst, &buf) > 0 {
		return buf[0].At
	}
	return c.r.zone.ResolveFirst(w)
}

// readRule reads the recurrence and chooses the engine.
func (c *compiler) readRule() error {
	text := strings.TrimSpace(c.spec.Recurrence)
	scheme, rest, _ := strings.Cut(text, ":")
	switch {
	case text == "":
		c.r.kind = onDates
		return nil
	case strings.EqualFold(scheme, "cron"):
		return c.readCron(rest)
	case strings.EqualFold(scheme, "every"):
		return c.readEvery(strings.TrimSpace(rest))
	case strings.EqualFold(scheme, "RRULE") || strings.Contains(text, "="):
		return c.readRRule(c.spec.Recurrence)
	case strings.HasPrefix(text, "@") || len(strings.Fields(text)) == 5:
		return fail(CodeInvalidRule, "recurrence", "%s looks like cron; write cron:%s", clip(text), text)
	}
	return fail(CodeInvalidRule, "recurrence", "%s is no recurrence; write FREQ=DAILY, cron:0 9 * * 1-5 or every:15m", clip(text))
}

func (c *compiler) readEvery(text string) error {
	d, err := parseDuration(text)
	if err != nil {
		e := in("recurrence", err).(*Error)
		e.Code = CodeInvalidRule
		return e
	}
	if d < time.Millisecond {
		return fail(CodeInvalidRule, "recurrence", "every:%s has no length", text)
	}
	if c.start.kind == isNothing { // every: keeps the append's milliseconds
		c.at = c.spec.Append
	}
	return c.elapsed(d.Milliseconds())
}

// elapsed sets up the engine of plain elapsed time.
func (c *compiler) elapsed(stepMs int64) error {
	c.r.kind, c.r.step = onInterval, stepMs
	c.r.startWall = minInstant
	c.r.startAt = c.at
	return nil
}

func (c *compiler) readCron(text string) error {
	e, err := parseCron(text)
	if err != nil {
		return err
	}
	c.r.source.cron = e
	c.r.subMs = 0 // cron fires on whole minutes, whatever the start
	walls := &wallSet{days: e.daySet(), times: e.times}
	if !e.real {
		c.r.kind, c.r.walls = onWalls, walls
		return nil
	}
	c.r.kind, c.r.grid = onGrid, grid{base: minInstant / 1000, walls: walls}
	c.r.startAt = max(c.r.startAt, c.startInstant())
	return nil
}

// startInstant is a local start as an instant, for engines without wall times.
func (c *compiler) startInstant() int64 {
	if c.start.kind == isWall {
		return c.at
	}
	return minInstant
}

func (c *compiler) readRRule(text string) error {
	p, err := parseRRule(text)
	if err != nil {
		return err
	}
	if err := c.takeCountAndUntil(p); err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	if err := c.checkInterval(p); err != nil {
		return err
	}
	asWritten := *p
	c.r.source.rule = &asWritten
	p.anchor(c.phase)
	if p.freq < daily {
		return c.subDaily(&asWritten, p)
	}
	c.r.kind = onWalls
	c.r.walls = &wallSet{
		days:  newDaySet(p, c.phase),
		times: timesOf(p),
	}
	periodDays := [...]int{daily: 1, weekly: 7, monthly: 31, yearly: maxPeriodDays}[p.freq]
	if p.byWeekNo != nil {
		periodDays = min(periodDays, 7*len(p.byWeekNo))
	}
	c.r.walls.pos, err = reachable(p.pos, periodDays*c.r.walls.times.count())
	return err
}

func timesOf(p *recurRule) timeSet {
	return timeSet{maskOf(p.byHour, anyHour), maskOf(p.byMinute, anyMinute), maskOf(p.bySecond, anyMinute)}
}

// reachable drops positions past what a period can hold; a rule with no
// position left would otherwise be searched for 400 years in vain.
func reachable(pos []int, size int) ([]int, error) {
	if pos == nil {
		return nil, nil
	}
	kept := slices.DeleteFunc(slices.Clone(pos), func(p int) bool { return max(p, -p) > size })
	if len(kept) == 0 {
		return nil, fail(CodeNoOccurrences, "recurrence", "BYSETPOS asks for more than the %d a period has", size)
	}
	return kept, nil
}

// subDaily sets up HOURLY, MINUTELY and SECONDLY: elapsed time, whose windows
// are as long as the BY parts that expand within a period need.
func (c *compiler) subDaily(written, p *recurRule) error {
	unit := p.freq.unit()
	step := int64(p.interval) * unit
	if !written.hasSet() {
		return c.elapsed(step * 1000)
	}
	window, size := int64(1), 1
	if p.freq >= minutely && p.bySecond != nil {
		window, size = 60, len(p.bySecond)
	}
	if p.freq == hourly && written.byMinute != nil {
		window, size = 3600, size*len(p.byMinute)
	}
	pos, err := reachable(p.pos, size)
	if err != nil {
		return err
	}
	if size == 1 { // the first and the last of one
		pos = nil
	}
	base := floorDiv(c.at, 1000)
	walls := &wallSet{days: newDaySet(p, c.phase), times: timesOf(p)}
	c.r.kind = onGrid
	c.r.grid = grid{base: base - floorMod(base+int64(c.r.zone.Offset(c.at)), window), step: step, window: window, walls: walls, pos: pos}
	c.r.startAt = max(c.r.startAt, c.startInstant())
	c.r.startWall = minInstant
	return nil
}

// takeCountAndUntil joins the rule's COUNT and UNTIL with the fields.
func (c *compiler) takeCountAndUntil(p *recurRule) error {
	if p.count > 0 && c.spec.Count != 0 {
		return fail(CodeInvalid, "count", "is also COUNT in the rule; write it once")
	}
	if p.until.kind != isNothing && c.spec.Until != "" {
		return fail(CodeInvalid, "until", "is also UNTIL in the rule; write it once")
	}
	c.count, c.until = p.count, p.until
	return nil
}

// checkInterval refuses what no calendar of four-digit years can repeat, and
// what the tenant may not ask for.
func (c *compiler) checkInterval(p *recurRule) error {
	if int64(p.interval) > maxYear*366*secondsPerDay/p.freq.unit() {
		return fail(CodeInvalidRule, "recurrence", "INTERVAL=%d overflows: %s reaches past the year 9999", p.interval, p.freq)
	}
	if p.interval > c.limits.MaxInterval {
		return fail(CodeInvalidRule, "recurrence", "INTERVAL=%d; at most %d is allowed", p.interval, c.limits.MaxInterval)
	}
	return nil
}

// readEnd applies UNTIL and takes COUNT from the field where the rule has none.
func (c *compiler) readEnd() error {
	if c.spec.Until != "" {
		w, err := parseWhen(c.spec.Until)
		if err != nil {
			return in("until", err)
		}
		if w.kind == isDay {
			return fail(CodeInvalid, "until", "%s is a bare date; write %sT23:59:59 for all of that day", clip(c.spec.Until), c.spec.Until)
		}
		c.until = w
	}
	if c.spec.Count < 0 {
		return fail(CodeInvalid, "count", "is %d; write a whole number from 1", c.spec.Count)
	}
	c.count = max(c.count, c.spec.Count)
	if c.count > c.limits.MaxCount {
		return fail(CodeInvalidRule, "recurrence", "COUNT=%d; at most %d is allowed", c.count, c.limits.MaxCount)
	}
	if c.count > 0 && c.until.kind != isNothing {
		return fail(CodeDisputedRule, "recurrence", "both a count and an until: RFC 5545 allows one of them; leave one out")
	}
	c.applyUntil()
	return nil
}

// applyUntil bounds wall times by a local UNTIL and instants by one with Z.
// An engine without wall times takes the last instant that reads the time.
func (c *compiler) applyUntil() {
	switch c.until.kind {
	case isAt:
		c.r.untilAt = c.until.at
		c.r.lastWall = c.r.zone.Wall(c.until.at) + Wall(26*time.Hour/time.Millisecond)
	case isWall:
		if c.r.kind == onWalls {
			c.r.lastWall = c.until.wall
			return
		}
		var buf [2]Resolved
		c.r.zone.resolve(c.until.wall, DST{Overlap: OverlapSecond}, &buf)
		c.r.untilAt = buf[0].At
	}
}

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

// settleStart checks that the rule yields anything at all and, where no start
// was given, makes the first candidate after the append the start.
func (c *compiler) settleStart() error {
	r := c.r
	if h := r.holidays; h != nil && h.on != OnSkip && (r.kind == onGrid || r.kind == onInterval) {
		return fail(CodeInvalid, "calendars", "%s moves whole days; with a rule that fires on elapsed time write skip", h.on)
	}
	switch r.kind {
	case onWalls:
		return c.settleWalls()
	case onGrid:
		return c.settleGrid()
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

func (c *compiler) settleWalls() error {
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

func (c *compiler) settleGrid() error {
	r := c.r
	u, ok, err := r.grid.next(r.zone, ceilDiv(r.startAt-r.subMs, 1000))
	if err != nil {
		return err
	}
	if !ok {
		return c.never()
	}
	r.startAt = u*1000 + r.subMs
	if c.start.kind == isNothing {
		r.start = utcString(r.startAt)
	}
	return nil
}

func (c *compiler) never() error {
	return fail(CodeNoOccurrences, "recurrence", "%s never fires: nothing matches in 400 years", clip(c.spec.Recurrence))
}

// settleCount turns COUNT into the last candidate. For wall times that is a
// function of start and rule alone: neither zone nor exclusions matter.
func (c *compiler) settleCount() error {
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
	from, last := ceilDiv(int64(c.r.startWall)-c.r.subMs, 1000), int64(0)
	for range c.count {
		w, ok, err := c.r.walls.next(from)
		if err != nil {
			return err
		}
		if !ok {
			return nil // ends by itself before the count does
		}
		from, last = w+1, w
	}
	c.r.lastWall = Wall(last*1000 + c.r.subMs)
	return nil
}

func (c *compiler) countGrid() error {
	t, last := ceilDiv(c.r.startAt-c.r.subMs, 1000), int64(0)
	for range c.count {
		u, ok, err := c.r.grid.next(c.r.zone, t)
		if err != nil {
			return err
		}
		if !ok {
			return nil
		}
		t, last = u+1, u
	}
	c.r.untilAt = last*1000 + c.r.subMs
	return nil
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
		return fail(CodeNoOccurrences, "include", "nothing is left of include after exclude")
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

func (c *compiler) checkLimits() error {
	if c.limits.MinPeriod > 0 && c.r.mayBeCloser(c.limits.MinPeriod) {
		if p := c.r.Period(); p > 0 && p < c.limits.MinPeriod {
			return fail(CodePeriodTooShort, "recurrence", "fires every %s; the shortest period allowed is %s", shortDuration(p), shortDuration(c.limits.MinPeriod))
		}
	}
	if c.limits.HorizonYears < 1<<30 {
		o, ok, err := c.r.First()
		if err != nil {
			return err
		}
		if ok && o.At > c.spec.Append+int64(c.limits.HorizonYears)*31_557_600_000 {
			return fail(CodeBeyondHorizon, "recurrence", "first fires in %s, over %d years ahead", utcString(o.At), c.limits.HorizonYears)
		}
	}
	return nil
}
