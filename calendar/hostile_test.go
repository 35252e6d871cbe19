package calendar

import (
	"archive/zip"
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func codeOf(err error) Code {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return ""
	}
	return e.Code
}

// A number that no int holds is refused like any other: it once became a
// negative shift, which ended the process, and every one after it.
func TestCronNumberOutOfInt(t *testing.T) {
	for _, n := range []string{
		"9223372036854775808", "18446744073709551615", "18446744073709551617",
		strings.Repeat("9", 400),
	} {
		for _, rule := range []string{
			"N 0 * * *", "0 N * * *", "0 0 N * *", "0 0 NW * *", "0 0 * N *", "0 0 * * N",
			"0 0 * * NL", "0 0 * * N#1", "0 0 * * 1#N", "0 0 1-N * *", "*/N 0 * * *",
		} {
			rule = "cron:" + strings.ReplaceAll(rule, "N", n)
			if _, err := Compile(Embedded(), Spec{Recurrence: rule}); codeOf(err) != CodeInvalidRule {
				t.Errorf("%.60s: %v", rule, err)
			}
		}
	}
}

// costly are rules whose interval comes by their times of day once in thousands of
// times, and then on a wrong day: each search leaps for a long time.
var costly = []string{
	"FREQ=SECONDLY;INTERVAL=9973;BYMONTHDAY=-27,17,-29,10,-14;BYHOUR=2,20,10,23,15,12,15,5,10;" +
		"BYMINUTE=6,58,52,49;BYSECOND=49,6,59,45,30;BYDAY=MO",
	"FREQ=SECONDLY;INTERVAL=9973;BYMONTH=7,2;BYMONTHDAY=-17,16;BYHOUR=3,16,13,10;BYSECOND=52;BYDAY=TU",
	"FREQ=SECONDLY;INTERVAL=9973;BYHOUR=3,4,5,6,7;BYMINUTE=1,2,3,4,5,6,7,8,9,10;BYSECOND=1,2,3,4,5;COUNT=100000",
	"FREQ=SECONDLY;INTERVAL=9973;BYMONTHDAY=1;BYHOUR=3,4,5,6,7;" +
		"BYMINUTE=1,2,3,4,5,6,7,8,9,10;BYSECOND=1,2,3,4,5;COUNT=100000",
	"FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;COUNT=100000;BYSETPOS=" + downTo(-90),
	"FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYHOUR=1,2,3,4,5,6;COUNT=100000;BYSETPOS=" + downTo(-90),
	"FREQ=MINUTELY;BYMONTH=4,12;BYYEARDAY=-145,299,305,-70",
}

func downTo(n int) string {
	s := "-1"
	for i := -2; i >= n; i-- {
		s += "," + strconv.Itoa(i)
	}
	return s
}

// Whatever a rule says, deciding about it takes a bounded part of a turn: it once
// took seconds, in which the partition's other triggers waited. Most of the
// bounds are far below what is allowed here, for slow machines.
func TestCostlyRulesAreBounded(t *testing.T) {
	runtime.LockOSThread() // cpuTime is of one thread
	defer runtime.UnlockOSThread()
	for _, zone := range []string{"UTC", "Australia/Lord_Howe"} {
		for _, text := range costly {
			begin := cpuTime()
			step := func(what string, most time.Duration) {
				if took := cpuTime() - begin; took > most {
					t.Errorf("%s %.70s…: %s took %s of CPU", zone, text, what, took)
				}
				begin = cpuTime()
			}
			r, err := Compile(Embedded(), Spec{Recurrence: text, Zone: zone, Append: now})
			step("compiling", 500*time.Millisecond)
			if err != nil {
				if c := codeOf(err); c != CodeInvalidRule && c != CodeNoOccurrences {
					t.Errorf("%s: %v", text, err)
				}
				continue
			}
			r.Period()
			step("the period", 200*time.Millisecond)
			_, _ = r.Between(now, maxInstant, 128)
			step("128 occurrences", 500*time.Millisecond)
		}
	}
}

// The bound on steps is for freaks: what people count to 100,000 passes.
func TestPlainRulesCountFar(t *testing.T) {
	for _, text := range []string{
		"FREQ=HOURLY;BYHOUR=9", "FREQ=HOURLY;BYHOUR=9,10,11,12,13,14,15,16,17;BYDAY=MO,TU,WE,TH,FR",
		"FREQ=MINUTELY;INTERVAL=15;BYHOUR=9,10,11",
		"FREQ=HOURLY;BYMINUTE=0,20,40;BYSETPOS=1,-1", "FREQ=MINUTELY;INTERVAL=7;BYDAY=SA,SU",
		"FREQ=SECONDLY;INTERVAL=90;BYHOUR=6",
		"FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "FREQ=DAILY",
		"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,FR;BYHOUR=7,19;BYSETPOS=1,3,-1",
	} {
		for _, zone := range []string{"UTC", "America/New_York"} {
			r, err := Compile(Embedded(), Spec{Recurrence: text + ";COUNT=100000", Zone: zone, Append: now})
			if err != nil {
				t.Errorf("%s %s: %v", zone, text, err)
				continue
			}
			// The last one is the last there is, and some before it are not.
			last, ok, err := r.Prev(maxInstant)
			if err != nil || !ok {
				t.Fatal(text, ok, err)
			}
			if o, more, _ := r.Next(last.At); more {
				t.Errorf("%s: %s comes after the last, %s", text, o.ID(), last.ID())
			}
		}
	}
}

// Counting by period gives what counting one by one gives.
func TestCountOfPicks(t *testing.T) {
	for _, rule := range []string{
		"FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=1,2,-1,9", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29,28;BYHOUR=1,5;BYSETPOS=3,-1",
		"FREQ=WEEKLY;INTERVAL=3;BYDAY=MO,WE;BYSETPOS=-2,1", "FREQ=DAILY;BYHOUR=1,2,3;BYSETPOS=2,-2,3",
		"FREQ=MONTHLY;BYMONTHDAY=31;BYSETPOS=1",
	} {
		all, err := Compile(Embedded(), Spec{Recurrence: rule, Start: "2026-01-15T09:00"})
		if err != nil {
			t.Fatal(err)
		}
		list, err := all.Between(minInstant, maxInstant, 60)
		if err != nil {
			t.Fatal(err)
		}
		for n := 1; n <= 60; n++ {
			r, err := Compile(Embedded(), Spec{Recurrence: rule, Start: "2026-01-15T09:00", Count: n})
			if err != nil {
				t.Fatal(err)
			}
			if last, _, _ := r.Prev(maxInstant); last != list[n-1] {
				t.Fatalf("%s: of %d the last is %s, want %s", rule, n, last.ID(), list[n-1].ID())
			}
		}
	}
}

// Sixteen calendars of 10,000 dates are what a trigger may name: deciding by them
// takes milliseconds, also where no day is a business day for centuries.
func TestLongCalendarsAreBounded(t *testing.T) {
	var sets []DateSet
	day := Date(daysOf(2026, 1, 1))
	for range 16 {
		set := make(DateSet, 10_000)
		for i := range set {
			set[i], day = day, day+1
		}
		sets = append(sets, set)
	}
	for _, on := range []string{OnNext, OnPrevious, OnSkip} {
		begin := time.Now()
		r, err := Compile(Embedded(), Spec{
			Recurrence: "FREQ=DAILY", Append: now, Start: "2026-01-05T09:00",
			Calendars: &CalendarRule{On: on, Sets: sets}, Limits: Limits{HorizonYears: -1},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.Next(now); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 500*time.Millisecond {
			t.Errorf("%s: %s", on, took)
		}
	}
}

// applyPlainly looks at one day after the other.
func applyPlainly(on string, sets []DateSet, d Date) (Date, bool) {
	step := Date(1)
	if on == OnPrevious {
		step = -1
	}
	for n := range Date(maxMove) {
		to := d + n*step
		if !weekend(to) && !slices.ContainsFunc(sets, func(s DateSet) bool { return s.Has(to) }) {
			return to, true
		}
	}
	return 0, false
}

// A Saturday before a week off moves by nine days, though none of the listed dates
// moves by more than seven: it was lost to who asked for it after eight.
func TestWeekendBeforeAWeekOff(t *testing.T) {
	set, err := NewDateSet([]string{"2026-10-05", "2026-10-06", "2026-10-07", "2026-10-08", "2026-10-09"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Compile(Embedded(), Spec{
		Recurrence: "FREQ=MONTHLY;BYMONTHDAY=3", Start: "2026-09-03T09:00",
		Calendars: &CalendarRule{On: OnNext, Sets: []DateSet{set}},
	})
	if err != nil {
		t.Fatal(err)
	}
	after, _ := ParseInstant("2026-10-11T12:00:00Z")
	if o, _, _ := r.Next(after); utcString(o.At) != "2026-10-12T09:00:00Z" || o.ID() != "2026-10-03T09:00:00" {
		t.Error(utcString(o.At), o.ID())
	}
}

// The move of a calendar is that of its worst date, listed or not.
func TestMoveOfCalendars(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var sets []DateSet
		for range 1 + rnd.IntN(3) {
			set := DateSet{}
			for range rnd.IntN(60) {
				for at, n := Date(rnd.IntN(900)), rnd.IntN(8); n > 0; n-- {
					set = append(set, at+Date(n))
				}
			}
			if rnd.IntN(20) == 0 { // more than a year without a business day
				for i := range 400 + rnd.IntN(200) {
					set = append(set, Date(1000+i))
				}
			}
			slices.Sort(set)
			sets = append(sets, slices.Compact(set))
		}
		for _, on := range []string{OnNext, OnPrevious} {
			h, err := newHolidays(&CalendarRule{On: on, Sets: sets})
			if err != nil {
				t.Fatal(err)
			}
			want := 2
			for d := Date(-400); d < 2200; d++ {
				to, ok := h.apply(d)
				if plain, fires := applyPlainly(on, sets, d); ok != fires || ok && to != plain {
					t.Fatalf("%s: %s goes to %s (%t), want %s (%t)", on, d, to, ok, plain, fires)
				}
				if ok {
					want = max(want, int(max(to-d, d-to)))
				}
			}
			if h.move != want {
				t.Fatalf("%s: %d, want %d", on, h.move, want)
			}
		}
	}
}

// A zip of a few hundred kilobytes may unpack to gigabytes, and every partition
// reads what stands on topic control.
func TestZipBombIsNoRelease(t *testing.T) {
	var blob bytes.Buffer
	w := zip.NewWriter(&blob)
	add := func(name string, data []byte) {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	add("UTC", Embedded().raw["UTC"])
	for i := range 3000 {
		add("Zone/"+strconv.Itoa(i), make([]byte, maxZoneBytes))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := LoadZones(blob.Bytes(), "bomb")
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; err == nil || took > 100 {
		t.Errorf("%d KiB took %d MiB: %v", blob.Len()>>10, took, err)
	}
	if _, err := LoadZones(EmbeddedZip(), "2025c"); err != nil {
		t.Error(err)
	}
}

// No instant is too far for a look back.
func TestPrevOfAnyInstant(t *testing.T) {
	r, err := Compile(Embedded(), Spec{Recurrence: "FREQ=DAILY;COUNT=3", Start: "2026-01-15T09:00"})
	if err != nil {
		t.Fatal(err)
	}
	if o, ok, err := r.Prev(math.MaxInt64); !ok || err != nil || o.ID() != "2026-01-17T09:00:00" {
		t.Error(o.ID(), ok, err)
	}
	if _, ok, err := r.Prev(math.MinInt64); ok || err != nil {
		t.Error(ok, err)
	}
}
