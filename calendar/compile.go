package calendar

import (
	"errors"
	"math"
	"slices"
	"strings"
	"time"
)

// Compile checks a Spec and prepares its evaluation, under a step budget
// (effort): a few milliseconds for all but the oddest rules, and a tenth of a
// second for the worst that fits the limits. The error is an *Error.
func Compile(zs *Zones, s Spec) (*Rule, error) {
	c := compiler{spec: s, limits: s.Limits.withDefaults()}
	for _, step := range []func() error{
		func() error { return c.lookup(zs) },
		c.checkSizes,
		c.readStart,
		c.readRule,
		c.readEnd,
		c.readExclude,
		c.fixStart,
		c.fixCount,
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

func (c *compiler) lookup(zs *Zones) error {
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
		return fail(CodeInvalidRule, "recurrence",
			"is empty; write FREQ=DAILY, cron:0 9 * * *, every:15m, or give dates in include")
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
		return fail(CodeInvalid, "start", "%s is a date without a time; write %sT09:00", clip(c.spec.Start),
			c.spec.Start)
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
		return c.readCron(rest, strings.Index(c.spec.Recurrence, ":")+1)
	case strings.EqualFold(scheme, "every"):
		return c.readEvery(strings.TrimSpace(rest))
	case text[0] == '@' || strings.IndexByte("*0123456789", text[0]) >= 0 && len(strings.Fields(text)) >= 5:
		if _, err := parseCron(text, strings.Index(c.spec.Recurrence, text)); err != nil {
			return err
		}
		return fail(CodeInvalidRule, "recurrence", "%s looks like cron; write cron:%s", clip(text), text)
	case strings.EqualFold(scheme, "RRULE") || strings.Contains(text, "="):
		return c.readRRule(c.spec.Recurrence)
	case strings.HasPrefix(text, "cron(") || strings.HasPrefix(text, "rate("): // EventBridge
		return failAt(CodeInvalidRule, "recurrence", 0,
			"%s is not a recurrence; write cron: and 5 fields, without year, or every:5m", clip(text))
	}
	return fail(CodeInvalidRule, "recurrence",
		"%s is not a recurrence; write FREQ=DAILY, cron:0 9 * * 1-5 or every:15m",
		clip(text))
}

func (c *compiler) readEvery(text string) error {
	d, err := parseDuration(text)
	if err != nil {
		if e, ok := errors.AsType[*Error](err); ok {
			e.Code = CodeInvalidRule
		}
		return in("recurrence", err)
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
	if c.start.kind == isWall { // what it means in another zone, or by another release, would be another phase
		c.r.start = utcString(c.at)
	}
	return nil
}

func (c *compiler) readCron(text string, base int) error {
	e, err := parseCron(text, base)
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
	c.r.startAt = max(c.r.startAt, c.startBound())
	return nil
}

// startBound is startInstant of a rule without a phase: a start that clocks
// skip does not take the rest of its hour with it.
func (c *compiler) startBound() int64 {
	if c.start.kind == isWall && c.r.zone.Wall(c.at) > c.start.wall {
		return c.r.zone.Reach(c.start.wall)
	}
	return c.startInstant()
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
	p.at = nil
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
	c.r.grid = grid{
		base: base - floorMod(base+int64(c.r.zone.Offset(c.at)), window), step: step, window: window,
		walls: walls, pos: pos,
	}
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
		return failAt(CodeInvalidRule, "recurrence", p.at["INTERVAL"],
			"INTERVAL=%d overflows: %s reaches past the year 9999", p.interval, p.freq)
	}
	if p.interval > c.limits.MaxInterval {
		return failAt(CodeInvalidRule, "recurrence", p.at["INTERVAL"], "INTERVAL=%d; at most %d is allowed", p.interval,
			c.limits.MaxInterval)
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
			return fail(CodeInvalid, "until", "%s is a bare date; write %sT23:59:59 for all of that day",
				clip(c.spec.Until), c.spec.Until)
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
		return fail(CodeDisputedRule, "recurrence",
			"both a count and an until: RFC 5545 allows one of them; leave one out")
	}
	c.applyUntil()
	return nil
}

// applyUntil bounds wall times by a local UNTIL and instants by one with Z.
// An engine without wall times takes the last instant that reads the time. If
// clocks skip it, that is shifted as a start is; cron, which matches readings,
// ends at the gap.
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
		if buf[0].Shift != 0 && c.r.source.cron != nil {
			c.r.untilAt = c.r.zone.Reach(c.until.wall) - 1
		}
	}
}

func (c *compiler) checkLimits() error {
	if err := c.r.CheckPeriod(c.limits.MinPeriod); err != nil {
		return err
	}
	if c.r.kind == onGrid && c.limits.MaxCount <= countSteps { // no preview: somebody will ask for hundreds
		if _, err := c.r.closestOnGrid(); err != nil {
			return err
		}
	}
	if c.limits.HorizonYears < 1<<30 {
		o, ok, err := c.r.First()
		if err != nil {
			return err
		}
		if ok && o.At > c.spec.Append+int64(c.limits.HorizonYears)*31_557_600_000 {
			return fail(CodeBeyondHorizon, "recurrence", "first fires in %s, over %d years ahead", utcString(o.At),
				c.limits.HorizonYears)
		}
	}
	return nil
}
