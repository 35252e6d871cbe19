package calendar

import (
	"fmt"
	"testing"
	"time"
)

// The dimension is the age of the series: a rule must not cost more to go on
// with after 50 years than after one.
func BenchmarkNext(b *testing.B) {
	for _, c := range []struct{ name, rule string }{
		{"yearly", "FREQ=YEARLY"},
		{"monthly_last_weekday", "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1"},
		{"monthly_last_day", "FREQ=MONTHLY;BYMONTHDAY=-1"},
		{"weekly", "FREQ=WEEKLY;BYDAY=MO,WE,FR"},
		{"daily", "FREQ=DAILY"},
		{"daily_count", "FREQ=DAILY;COUNT=100000"},
		{"hourly", "FREQ=HOURLY"},
		{"minutely_business_hours", "FREQ=MINUTELY;INTERVAL=15;BYHOUR=9,10,11,12,13,14,15,16;BYDAY=MO,TU,WE,TH,FR"},
		{"every", "every:15m"},
		{"cron_fixed", "cron:30 9 * * 1-5"},
		{"cron_star", "cron:*/5 9-17 * * 1-5"},
	} {
		for _, years := range []int{1, 10, 50} {
			b.Run(fmt.Sprintf("rule=%s/years=%d", c.name, years), func(b *testing.B) {
				start := time.Date(2026-years, 1, 15, 9, 0, 0, 0, time.UTC)
				r := mustCompile(b, Spec{
					Recurrence: c.rule, Start: utcString(start.UnixMilli()),
					Zone: "America/New_York", Limits: Limits{}.Preview(),
				})
				after := time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC).UnixMilli()
				b.ReportAllocs()
				for b.Loop() {
					if o, ok, err := r.Next(after); !ok || err != nil || o.At <= after {
						b.Fatal(o, ok, err)
					}
				}
			})
		}
	}
}

// BenchmarkNextAtChange is Next where clocks change, the slow path.
func BenchmarkNextAtChange(b *testing.B) {
	for _, rule := range []string{
		"FREQ=DAILY", "FREQ=DAILY;BYHOUR=0,1,2,3,4;BYMINUTE=0,10,20,30,40,50",
		"cron:*/5 * * * *",
	} {
		b.Run("rule="+rule, func(b *testing.B) {
			r := mustCompile(b, Spec{
				Recurrence: rule, Start: "2020-01-01T02:30", Zone: "America/New_York",
				Limits: Limits{}.Preview(),
			})
			after, _ := ParseInstant("2026-03-08T06:59:00Z")
			b.ReportAllocs()
			for b.Loop() {
				r.Next(after)
			}
		})
	}
}

func BenchmarkResolve(b *testing.B) {
	z, _ := Embedded().Lookup("America/New_York")
	for _, c := range []struct{ name, wall string }{
		{"plain", "2026-06-15T09:00"},
		{"gap", "2026-03-08T02:30"},
		{"overlap", "2026-11-01T01:30"},
		{"year2400", "2400-06-15T09:00"},
	} {
		b.Run("wall="+c.name, func(b *testing.B) {
			w, _ := ParseWall(c.wall)
			b.ReportAllocs()
			for b.Loop() {
				z.ResolveFirst(w)
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, rule := range []string{
		"FREQ=DAILY", "FREQ=WEEKLY;BYDAY=MO,WE,FR", "FREQ=MONTHLY;BYMONTHDAY=-1",
		"FREQ=YEARLY", "cron:0 9 * * 1-5", "cron:0 9 L * *", "every:15m", "FREQ=DAILY;COUNT=100000",
	} {
		b.Run("rule="+rule, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				mustCompile(b, Spec{
					Recurrence: rule, Start: "2026-01-15T09:00", Zone: "America/New_York",
					Append: 1_780_000_000_000,
				})
			}
		})
	}
}

func BenchmarkDiff(b *testing.B) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	for b.Loop() {
		Diff(Embedded(), Embedded(), from, from+10*366*msPerDay)
	}
}

// hostileRules are made to be slow, or to fire never, hardly ever, or all the
// time. Compiling one and asking it five times must stay under 10 ms.
var hostileRules = []string{
	"FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30",
	"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
	"FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
	"FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
	"FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30;BYHOUR=5",
	"FREQ=HOURLY;INTERVAL=24;BYHOUR=1",
	"FREQ=MINUTELY;INTERVAL=60;BYMINUTE=30",
	"FREQ=SECONDLY;INTERVAL=60;BYSECOND=30",
	"FREQ=SECONDLY;INTERVAL=2;BYSECOND=1,3,5,7",
	"FREQ=SECONDLY;INTERVAL=86399;BYHOUR=5;BYMINUTE=5;BYSECOND=5",
	"FREQ=SECONDLY;INTERVAL=9973;BYHOUR=5;BYMINUTE=5;BYSECOND=5;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
	"FREQ=HOURLY;INTERVAL=9999;BYHOUR=5;BYDAY=MO;BYMONTH=2;BYMONTHDAY=29",
	"FREQ=MINUTELY;INTERVAL=1440;BYHOUR=1",
	"FREQ=DAILY;BYDAY=TU,TH;BYSETPOS=2",
	"FREQ=DAILY;BYHOUR=0,1,2;BYMINUTE=0,1,2;BYSECOND=0,1,2;BYSETPOS=366",
	"FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6",
	"FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYHOUR=1,2,3,4;BYMINUTE=1,2,3,4;BYSETPOS=366,-366",
	"FREQ=YEARLY;BYWEEKNO=53;BYMONTHDAY=5",
	"FREQ=YEARLY;BYWEEKNO=1;BYYEARDAY=200",
	"FREQ=YEARLY;BYWEEKNO=1,2,3,4,5,6,7,8,9,10;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYSETPOS=366",
	"FREQ=YEARLY;INTERVAL=400;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
	"FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;COUNT=100000",
	"FREQ=DAILY;COUNT=100000",
	"FREQ=YEARLY;COUNT=100000",
	"FREQ=DAILY;INTERVAL=2;BYMONTH=2;BYMONTHDAY=29;COUNT=100000",
	"FREQ=SECONDLY;BYHOUR=6;COUNT=100000",
	"FREQ=MINUTELY;BYSECOND=0,30;BYSETPOS=-1;COUNT=100000",
	"FREQ=SECONDLY;BYSECOND=0,1,2,3,4,5,6,7,8,9;BYDAY=MO;COUNT=100000",
	"FREQ=HOURLY;BYMINUTE=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15;" +
		"BYSECOND=0,1,2,3,4,5,6,7,8,9,10,11,12;BYSETPOS=208;COUNT=100000",
	"FREQ=WEEKLY;BYMONTH=2;BYDAY=MO;BYSETPOS=2",
	"cron:0 0 31 2 *",
	"cron:* * 31 2,4,6,9,11 *",
	"cron:0 0 31W 2 *",
	"cron:* * 29 2 *",
	"every:1ms",
}

func BenchmarkHostile(b *testing.B) {
	for _, rule := range hostileRules {
		b.Run("rule="+rule, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				runHostile(rule)
			}
		})
	}
}

// runHostile compiles as preview does, then goes on for a few occurrences.
func runHostile(rule string) (fired int) {
	r, err := Compile(Embedded(), Spec{
		Recurrence: rule, Start: "2026-01-15T09:00", Zone: "America/New_York",
		Limits: Limits{}.Preview(),
	})
	if err != nil {
		return 0
	}
	list, _ := r.Between(minInstant, maxInstant, 5)
	return len(list)
}

func mustCompile(tb testing.TB, s Spec) *Rule {
	tb.Helper()
	r, err := Compile(Embedded(), s)
	if err != nil {
		tb.Fatalf("%+v: %v", s, err)
	}
	return r
}
