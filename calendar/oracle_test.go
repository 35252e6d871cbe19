package calendar

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// The oracle evaluates rules by definition, day by day and second by second,
// with package time for dates (in UTC, where it is right) and for offsets. It
// shares the parsers with the code under test and nothing of the evaluation.

func oracleDay(p *recurRule, d time.Time) bool {
	if p.byMonth != nil && !slices.Contains(p.byMonth, int(d.Month())) {
		return false
	}
	last := d.AddDate(0, 1, -d.Day()).Day()
	if p.byMonthDay != nil && !slices.Contains(p.byMonthDay, d.Day()) &&
		!slices.Contains(p.byMonthDay, d.Day()-last-1) {
		return false
	}
	yearLen := time.Date(d.Year(), 12, 31, 0, 0, 0, 0, time.UTC).YearDay()
	if p.byYearDay != nil && !slices.Contains(p.byYearDay, d.YearDay()) &&
		!slices.Contains(p.byYearDay, d.YearDay()-yearLen-1) {
		return false
	}
	if p.byWeekNo != nil {
		_, n, total := oracleWeek(d, time.Weekday(p.wkst))
		if !slices.Contains(p.byWeekNo, n) && !slices.Contains(p.byWeekNo, n-total-1) {
			return false
		}
	}
	if p.byDay == nil {
		return true
	}
	pos, length := d.Day(), last // numbers count in the month, or in the year
	if p.freq == yearly && p.byMonth == nil {
		pos, length = d.YearDay(), yearLen
	}
	for _, w := range p.byDay {
		if int(d.Weekday()) != w.day {
			continue
		}
		if w.n == 0 || w.n == (pos-1)/7+1 || w.n == -((length-pos)/7+1) {
			return true
		}
	}
	return false
}

// oracleWeek finds the week of a day by trying: the week belongs to the year
// that has at least four of its days.
func oracleWeek(d time.Time, wkst time.Weekday) (year, n, total int) {
	startOfWeek := func(d time.Time) time.Time {
		for d.Weekday() != wkst {
			d = d.AddDate(0, 0, -1)
		}
		return d
	}
	year = startOfWeek(d).AddDate(0, 0, 3).Year()
	first := startOfWeek(time.Date(year, 1, 4, 0, 0, 0, 0, time.UTC))
	next := startOfWeek(time.Date(year+1, 1, 4, 0, 0, 0, 0, time.UTC))
	days := func(a, b time.Time) int { return int(b.Sub(a).Hours()) / 24 }
	return year, days(first, startOfWeek(d))/7 + 1, days(first, next) / 7
}

// oraclePeriod numbers the period of a day.
func oraclePeriod(p *recurRule, d time.Time) int {
	switch p.freq {
	case daily:
		return int(d.Unix() / 86400)
	case weekly:
		for d.Weekday() != time.Weekday(p.wkst) {
			d = d.AddDate(0, 0, -1)
		}
		return int(d.Unix()/86400) / 7 // week starts differ by whole weeks
	case monthly:
		return d.Year()*12 + int(d.Month())
	}
	if p.byWeekNo != nil {
		y, _, _ := oracleWeek(d, time.Weekday(p.wkst))
		return y
	}
	return d.Year()
}

// oracleWalls lists the candidates of a rule with FREQ ≥ DAILY over some years
// from its start, which lies after 1970.
func oracleWalls(p *recurRule, start Wall, years int) (out []Wall) {
	first := time.UnixMilli(int64(start)).UTC().Truncate(24 * time.Hour)
	phase := oraclePeriod(p, first)
	var set []Wall
	period := -1 << 60
	flush := func() {
		for i, w := range set {
			picked := p.pos == nil || slices.Contains(p.pos, i+1) || slices.Contains(p.pos, i-len(set))
			if picked && w >= start {
				out = append(out, w)
			}
		}
		set = set[:0]
	}
	for d := first.AddDate(-1, 0, 0); d.Before(first.AddDate(years, 0, 0)); d = d.AddDate(0, 0, 1) {
		n := oraclePeriod(p, d)
		if n != period {
			flush()
			period = n
		}
		if ((n-phase)%p.interval+p.interval)%p.interval != 0 || !oracleDay(p, d) {
			continue
		}
		for _, h := range p.byHour {
			for _, m := range p.byMinute {
				for _, s := range p.bySecond {
					set = append(set, Wall(d.UnixMilli()+int64(h*3600+m*60+s)*1000))
				}
			}
		}
	}
	return out // without the last, partial period
}

// oracleResolve finds every instant that reads w by trying each quarter hour
// (and odd second) of offset that a zone has around it.
func oracleResolve(loc *time.Location, w Wall, d DST) []int64 {
	var hits []int64
	offsets := map[int]bool{}
	for h := -30; h <= 30; h++ {
		_, off := time.Unix(int64(w)/1000+int64(h)*3600, 0).In(loc).Zone()
		offsets[off] = true
	}
	for off := range offsets {
		at := int64(w)/1000 - int64(off)
		if _, o := time.Unix(at, 0).In(loc).Zone(); o == off {
			hits = append(hits, int64(w)-int64(off)*1000)
		}
	}
	slices.Sort(hits)
	switch {
	case len(hits) == 0 && d.Gap == GapSkip:
		return nil
	case len(hits) == 0: // shift: read with the offset before the gap
		_, off := time.Unix(int64(w)/1000-30*3600, 0).In(loc).Zone()
		return []int64{int64(w) - int64(off)*1000}
	case d.Overlap == OverlapFirst:
		return hits[:1]
	case d.Overlap == OverlapSecond:
		return hits[len(hits)-1:]
	}
	return hits
}

// oracleNext lists the occurrences of a wall-time rule after an instant.
func oracleInstants(p *recurRule, start Wall, loc *time.Location, d DST, years int) []int64 {
	walls := oracleWalls(p, start, years)
	if p.count > 0 && len(walls) > p.count {
		walls = walls[:p.count]
	}
	var out []int64
	for _, w := range walls {
		if p.until.kind == isWall && w > p.until.wall {
			continue
		}
		for _, at := range oracleResolve(loc, w, d) {
			if p.until.kind == isAt && at > p.until.at {
				continue
			}
			out = append(out, at)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

var oracleZones = []string{
	"UTC", "America/New_York", "Europe/London", "Europe/Berlin", "Atlantic/Azores",
	"America/Havana", "America/Santiago", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca",
	"Antarctica/Troll", "Asia/Kathmandu", "Europe/Dublin", "Pacific/Chatham", "Asia/Gaza", "America/St_Johns",
}

// randomRule makes rules that are legal and often dense; what check refuses
// is drawn again.
func randomRule(rnd *rand.Rand, minFreq, maxFreq frequency) string {
	pick := func(n int, f func() string) string {
		list := make([]string, 1+rnd.IntN(n))
		for i := range list {
			list[i] = f()
		}
		return strings.Join(list, ",")
	}
	num := func(lo, hi int, signed bool) func() string {
		return func() string {
			n := lo + rnd.IntN(hi-lo+1)
			if signed && rnd.IntN(3) == 0 {
				n = -n
			}
			return fmt.Sprint(n)
		}
	}
	freq := minFreq + frequency(rnd.IntN(int(maxFreq-minFreq)+1))
	parts := []string{"FREQ=" + freq.String()}
	maybe := func(odds int, name string, value func() string) {
		if rnd.IntN(odds) == 0 {
			parts = append(parts, name+"="+value())
		}
	}
	maybe(2, "INTERVAL", num(1, 5, false))
	maybe(4, "WKST", func() string { return weekdayNames[rnd.IntN(7)] })
	maybe(3, "BYMONTH", func() string { return pick(4, num(1, 12, false)) })
	maybe(3, "BYMONTHDAY", func() string { return pick(4, num(1, 31, true)) })
	maybe(6, "BYYEARDAY", func() string { return pick(5, num(1, 366, true)) })
	maybe(6, "BYWEEKNO", func() string { return pick(4, num(1, 53, true)) })
	maybe(2, "BYDAY", func() string {
		return pick(4, func() string {
			day := weekdayNames[rnd.IntN(7)]
			switch rnd.IntN(5) {
			case 0:
				return num(1, 5, true)() + day
			case 1:
				if freq == yearly {
					return num(1, 53, true)() + day
				}
			}
			return day
		})
	})
	maybe(3, "BYHOUR", func() string { return pick(3, num(0, 23, false)) })
	maybe(3, "BYMINUTE", func() string { return pick(3, num(0, 59, false)) })
	maybe(5, "BYSECOND", func() string { return pick(3, num(0, 59, false)) })
	maybe(4, "BYSETPOS", func() string { return pick(3, num(1, 12, true)) })
	switch rnd.IntN(6) {
	case 0:
		parts = append(parts, fmt.Sprint("COUNT=", 1+rnd.IntN(20)))
	case 1:
		w := Wall(time.Date(2005+rnd.IntN(8), time.Month(1+rnd.IntN(12)), 1+rnd.IntN(28), rnd.IntN(24), 0, 0, 0,
			time.UTC).UnixMilli())
		s := strings.NewReplacer("-", "", ":", "").Replace(w.String())
		if rnd.IntN(2) == 0 {
			s += "Z"
		}
		parts = append(parts, "UNTIL="+s)
	}
	return strings.Join(parts, ";")
}

func randomDST(rnd *rand.Rand) DST {
	if rnd.IntN(2) == 0 {
		return DST{}
	}
	return DST{GapPolicy(rnd.IntN(2)), OverlapPolicy(rnd.IntN(3))}
}

// nearChange picks a wall time, often close to a clock change of the zone.
func nearChange(rnd *rand.Rand, z *Zone) Wall {
	at := time.Date(2000+rnd.IntN(12), time.Month(1+rnd.IntN(12)), 1+rnd.IntN(28), 0, 0, 0, 0, time.UTC).Unix()
	if s := z.span(at); rnd.IntN(2) == 0 && s.hi < tableEnd {
		at = s.hi
	}
	at += int64(rnd.IntN(8*3600)-4*3600) / 900 * 900
	return z.Wall(at * 1000)
}

// oracleRules is how many random rules each oracle test draws. Before a
// release: go test -run Oracle -oracle.rules 20000 ./calendar
var oracleRules = flag.Int("oracle.rules", 300, "random rules per oracle test")

func TestAgainstOracle(t *testing.T) {
	const seed = 20261120
	rnd := rand.New(rand.NewPCG(seed, 1))
	ran, years := 0, 10
	for ran < *oracleRules {
		text := randomRule(rnd, daily, yearly)
		p, err := parseRRule(text)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, text, err)
		}
		if p.check() != nil {
			continue
		}
		z, _ := Embedded().Lookup(oracleZones[rnd.IntN(len(oracleZones))])
		start, dst := nearChange(rnd, z), randomDST(rnd)
		p.anchor(start)
		want := oracleInstants(p, start, z.loc, dst, years)
		r, err := Compile(Embedded(), Spec{
			Recurrence: text, Start: start.String(), Zone: z.name, DST: dst,
			Limits: Limits{}.Preview(),
		})
		if err != nil {
			if len(want) > 0 {
				t.Errorf("seed %d: %s from %s %s: %v, oracle has %s", seed, text, start, z.name, err,
					utcString(want[0]))
			}
			continue
		}
		ran++
		end := int64(start) + int64(years-2)*365*msPerDay
		compareWithOracle(t, rnd, r, want, fmt.Sprintf("seed %d: %s from %s %s %+v", seed, text, start, z.name, dst),
			end)
	}
}

// compareWithOracle asks from the beginning, and from a few later instants,
// for what is due before end.
func compareWithOracle(t *testing.T, rnd *rand.Rand, r *Rule, want []int64, name string, end int64) {
	t.Helper()
	for range 4 {
		from := 0
		if len(want) > 0 {
			from = rnd.IntN(len(want))
		}
		after := int64(minInstant)
		if from > 0 {
			after = want[from-1]
		}
		for i := from; i < min(len(want), from+12) && want[i] < end; i++ {
			o, ok, err := r.Next(after)
			if err != nil || !ok || o.At != want[i] {
				t.Errorf("%s: after %s got %s %v %v, oracle %s", name, utcString(max(after, 0)), utcString(o.At), ok,
					err, utcString(want[i]))
				return
			}
			if at := r.zone.Wall(o.At); !o.Elapsed && o.Note == "" && at != o.Local {
				t.Errorf("%s: %s reads %s but is called %s", name, utcString(o.At), at, o.Local)
			}
			after = o.At
		}
		if len(want) == 0 {
			if o, ok, _ := r.Next(after); ok && o.At < end {
				t.Errorf("%s: got %s, oracle nothing", name, utcString(o.At))
			}
			return
		}
	}
}
