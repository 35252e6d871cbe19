package calendar

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// gridOracle evaluates a rule below DAILY by looking at every second.
type gridOracle struct {
	p     *recurRule // as written
	loc   *time.Location
	start int64 // unix seconds
}

// instants lists what fires from the start up to an instant. Periods are
// hours, minutes or seconds of elapsed time from the local hour, minute or
// second that the start is in.
func (o gridOracle) instants(to int64) (out []int64) {
	local := time.Unix(o.start, 0).In(o.loc)
	unit, into := int64(1), 0
	switch o.p.freq {
	case hourly:
		unit, into = 3600, local.Minute()*60+local.Second()
	case minutely:
		unit, into = 60, local.Second()
	}
	for period := o.start - int64(into); period < to; period += unit * int64(o.p.interval) {
		var set []int64
		for sec := range unit {
			if o.has(period+sec, int(sec), into) {
				set = append(set, period+sec)
			}
		}
		for i, t := range set {
			if t >= o.start && t < to && (o.p.pos == nil || slices.Contains(o.p.pos, i+1) ||
				slices.Contains(o.p.pos, i-len(set))) {
				out = append(out, t*1000)
			}
		}
	}
	return out
}

// has tests the second that is sec seconds into its period. A part that
// expands and is given is read locally; one that is not given is as far into
// the period as the start was.
func (o gridOracle) has(t int64, sec, into int) bool {
	local := time.Unix(t, 0).In(o.loc)
	day := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC)
	in := func(list []int, v int) bool { return list == nil || slices.Contains(list, v) }
	if !in(o.p.byHour, local.Hour()) || !in(o.p.byMinute, local.Minute()) || !in(o.p.bySecond, local.Second()) {
		return false
	}
	switch {
	case o.p.freq == hourly && o.p.byMinute == nil && o.p.bySecond == nil && sec != into,
		o.p.freq == hourly && o.p.byMinute == nil && sec/60 != into/60,
		o.p.freq == hourly && o.p.bySecond == nil && sec%60 != into%60,
		o.p.freq == minutely && o.p.bySecond == nil && sec != into:
		return false
	}
	return oracleDay(o.p, day)
}

func TestGridAgainstOracle(t *testing.T) {
	const seed, days = 20261121, 3
	rnd := rand.New(rand.NewPCG(seed, 2))
	for ran := 0; ran < *oracleRules/4; { // a second at a time is slow
		text := randomRule(rnd, secondly, hourly)
		p, err := parseRRule(text)
		if err != nil || p.check() != nil || p.count > 0 || p.until.kind != isNothing || p.byYearDay != nil ||
			p.byMonthDay != nil && rnd.IntN(4) > 0 {
			continue
		}
		ran++
		z, _ := Embedded().Lookup(oracleZones[rnd.IntN(len(oracleZones))])
		start := z.ResolveFirst(nearChange(rnd, z)) - int64(rnd.IntN(2*86400))*1000
		end := start/1000 + days*86400
		want := gridOracle{p, z.loc, start / 1000}.instants(end)
		r, err := Compile(Embedded(), Spec{
			Recurrence: text, Start: utcString(start), Zone: z.name,
			Limits: Limits{}.Preview(),
		})
		if err != nil {
			if len(want) > 0 {
				t.Errorf("seed %d: %s from %s %s: %v, oracle has %s", seed, text, utcString(start), z.name, err,
					utcString(want[0]))
			}
			continue
		}
		compareWithOracle(t, rnd, r, want, fmt.Sprintf("seed %d: %s from %s %s", seed, text, utcString(start), z.name),
			end*1000)
	}
}

// TestCronAgainstOracle matches every minute of a few days on the real
// timeline, or every wall minute where hour and minute are fixed.
func TestCronAgainstOracle(t *testing.T) {
	const seed, days = 20261122, 40
	rnd := rand.New(rand.NewPCG(seed, 3))
	for range *oracleRules {
		text := randomCron(rnd)
		c, err := parseCron(text, 0)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, text, err)
		}
		z, _ := Embedded().Lookup(oracleZones[rnd.IntN(len(oracleZones))])
		from := z.ResolveFirst(nearChange(rnd, z)) - int64(rnd.IntN(days))*msPerDay
		dst := randomDST(rnd)
		want := cronOracle(c, z.loc, dst, from, from+days*msPerDay)
		r, err := Compile(Embedded(), Spec{
			Recurrence: "cron:" + text, Zone: z.name, DST: dst, Append: from,
			Limits: Limits{}.Preview(),
		})
		if err != nil {
			if len(want) > 0 {
				t.Errorf("seed %d: %s %s: %v, oracle has %s", seed, text, z.name, err, utcString(want[0]))
			}
			continue
		}
		compareWithOracle(t, rnd, r, want, fmt.Sprintf("seed %d: cron:%s after %s %s %+v", seed, text, utcString(from),
			z.name, dst), from+(days-2)*msPerDay)
	}
}

func cronOracle(c *cronExpr, loc *time.Location, dst DST, from, to int64) (out []int64) {
	matches := func(local time.Time) bool {
		return c.times.minutes>>local.Minute()&1 != 0 && c.times.hours>>local.Hour()&1 != 0 && cronOracleDay(c, local)
	}
	if c.real {
		for at := from - from%60_000 + 60_000; at < to; at += 60_000 {
			if matches(time.UnixMilli(at).In(loc)) {
				out = append(out, at)
			}
		}
		return out
	}
	for w := from - from%60_000 - 2*msPerDay; w < to; w += 60_000 {
		if !matches(time.UnixMilli(w).UTC()) {
			continue
		}
		for _, at := range oracleResolve(loc, Wall(w), dst) {
			if at > from {
				out = append(out, at)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func cronOracleDay(c *cronExpr, d time.Time) bool {
	last := time.Date(d.Year(), d.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	weekday := func(day int) time.Weekday { return time.Date(d.Year(), d.Month(), day, 0, 0, 0, 0, time.UTC).Weekday() }
	working := func(day int) bool { return weekday(day) != time.Saturday && weekday(day) != time.Sunday }
	dom := c.dom.days>>d.Day()&1 != 0 || c.dom.last && d.Day() == last
	if c.dom.lastWeekday {
		day := last
		for !working(day) {
			day--
		}
		dom = dom || d.Day() == day
	}
	for n := 1; n <= last; n++ {
		if c.dom.nearest>>n&1 == 0 {
			continue
		}
		for _, day := range []int{n, n - 1, n + 1, n - 2, n + 2} { // nearest first; Saturday before Sunday
			if day >= 1 && day <= last && working(day) {
				dom = dom || d.Day() == day
				break
			}
		}
	}
	wd := int(d.Weekday())
	dow := c.dow.days>>wd&1 != 0 || c.dow.nth[wd]>>((d.Day()-1)/7+1)&1 != 0 || c.dow.last>>wd&1 != 0 && d.Day() > last-7
	inMonth := c.months>>int(d.Month())&1 != 0
	if c.domStar || c.dowStar {
		return inMonth && dom && dow
	}
	return inMonth && (dom || dow)
}

func randomCron(rnd *rand.Rand) string {
	item := func(lo, hi int) string {
		a := lo + rnd.IntN(hi-lo+1)
		b := a + rnd.IntN(hi-a+1)
		switch rnd.IntN(5) {
		case 0:
			return fmt.Sprintf("%d-%d", a, b)
		case 1:
			return fmt.Sprintf("%d-%d/%d", a, b, 1+rnd.IntN(9))
		case 2:
			return fmt.Sprintf("*/%d", 1+rnd.IntN(20))
		}
		return fmt.Sprint(a)
	}
	field := func(lo, hi, stars int) string {
		if rnd.IntN(stars) == 0 {
			return "*"
		}
		s := item(lo, hi)
		for rnd.IntN(3) == 0 {
			s += "," + item(lo, hi)
		}
		return s
	}
	dom, dow := field(1, 31, 2), field(0, 7, 2)
	switch rnd.IntN(8) {
	case 0:
		dom = "L"
	case 1:
		dom = "LW"
	case 2:
		dom = fmt.Sprintf("%dW", 1+rnd.IntN(31))
	case 3:
		dow = fmt.Sprintf("%d#%d", rnd.IntN(8), 1+rnd.IntN(5))
	case 4:
		dow = fmt.Sprintf("%dL", rnd.IntN(8))
	}
	month := "*"
	if rnd.IntN(4) == 0 {
		month = field(1, 12, 3)
	}
	return field(0, 59, 5) + " " + field(0, 23, 3) + " " + dom + " " + month + " " + dow
}
