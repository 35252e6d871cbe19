package calendar

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// now is when the commands of these tests are appended: a Friday.
const now = int64(1_795_183_203_250) // 2026-11-20T14:00:03.250Z, 09:00:03 in New York

// TestWithoutStart: strictly after the append, phased on it, and the start to
// store keeps phase and count.
func TestWithoutStart(t *testing.T) {
	for _, c := range []struct{ name, rule, zone, start, want string }{
		{"every", "every:15m", "UTC", "2026-11-20T14:15:03.250Z", "2026-11-20T14:15:03.250Z 2026-11-20T14:30:03.250Z"},
		{
			"daily at the append's time", "FREQ=DAILY", "America/New_York", "2026-11-21T09:00:03",
			"2026-11-21T14:00:03Z 2026-11-22T14:00:03Z",
		},
		{
			"daily later today", "FREQ=DAILY;BYHOUR=18;BYMINUTE=0;BYSECOND=0", "America/New_York",
			"2026-11-20T18:00:00",
			"2026-11-20T23:00:00Z",
		},
		{
			"every second day", "FREQ=DAILY;INTERVAL=2", "UTC", "2026-11-22T14:00:03",
			"2026-11-22T14:00:03Z 2026-11-24T14:00:03Z",
		},
		{
			"every second week", "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO", "UTC", "2026-11-30T14:00:03",
			"2026-11-30T14:00:03Z 2026-12-14T14:00:03Z",
		},
		{
			"three times", "FREQ=DAILY;COUNT=3", "UTC", "2026-11-21T14:00:03",
			"2026-11-21T14:00:03Z 2026-11-22T14:00:03Z 2026-11-23T14:00:03Z end",
		},
		{"every, three times", "every:1h", "UTC", "2026-11-20T15:00:03.250Z", "2026-11-20T15:00:03.250Z"},
		{"hourly", "FREQ=HOURLY", "UTC", "2026-11-20T15:00:03Z", "2026-11-20T15:00:03Z 2026-11-20T16:00:03Z"},
		{
			"hourly by minutes", "FREQ=HOURLY;INTERVAL=3;BYMINUTE=0,30;BYSECOND=0", "UTC", "2026-11-20T14:30:00Z",
			"2026-11-20T14:30:00Z 2026-11-20T17:00:00Z 2026-11-20T17:30:00Z",
		},
		{"cron", "cron:0 9 * * 1-5", "America/New_York", "2026-11-23T09:00:00", "2026-11-23T14:00:00Z"},
		{
			"cron on the real timeline", "cron:*/15 * * * *", "UTC", "2026-11-20T14:15:00Z",
			"2026-11-20T14:15:00Z 2026-11-20T14:30:00Z",
		},
		{"has ended", "FREQ=DAILY;UNTIL=20200101T000000Z", "UTC", "2026-11-21T14:00:03", "end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := mustCompile(t, Spec{Recurrence: c.rule, Zone: c.zone, Append: now})
			checkOccurrences(t, r, minInstant, c.want)
			if r.Start() != c.start {
				t.Errorf("start %s, want %s", r.Start(), c.start)
			}
			second := mustCompile(t, Spec{Recurrence: c.rule, Zone: c.zone, Append: now + 5*msPerDay, Start: r.Start()})
			checkOccurrences(t, second, minInstant, c.want)
			if second.Start() != c.start {
				t.Errorf("start of the edit %s, want %s", second.Start(), c.start)
			}
		})
	}
}

func TestIncludeExclude(t *testing.T) {
	for _, c := range []struct {
		name             string
		rule, start      string
		include, exclude []string
		want             string
	}{
		{
			"bare date removes the day", "FREQ=DAILY;BYHOUR=9,18", "2026-12-24T09:00", nil,
			[]string{"2026-12-25"},
			"2026-12-24T14:00:00Z 2026-12-24T23:00:00Z 2026-12-26T14:00:00Z",
		},
		{
			"local time removes one", "FREQ=DAILY;BYHOUR=9,18", "2026-12-25T09:00", nil,
			[]string{"2026-12-25T18:00"},
			"2026-12-25T14:00:00Z 2026-12-26T14:00:00Z",
		},
		{
			"instant removes one", "FREQ=DAILY", "2026-12-24T09:00", nil,
			[]string{"2026-12-25T14:00:00Z"},
			"2026-12-24T14:00:00Z 2026-12-26T14:00:00Z",
		},
		{
			"COUNT is not refilled", "FREQ=DAILY;COUNT=3", "2026-12-24T09:00", nil,
			[]string{"2026-12-25"},
			"2026-12-24T14:00:00Z 2026-12-26T14:00:00Z end",
		},
		{
			"a shifted one by its scheduled time", "FREQ=DAILY", "2026-03-08T02:30", nil,
			[]string{"2026-03-08T02:30"},
			"2026-03-09T06:30:00Z",
		},
		{
			"a shifted one by the time it has", "FREQ=DAILY", "2026-03-08T02:30", nil,
			[]string{"2026-03-08T03:30"},
			"2026-03-09T06:30:00Z",
		},
		{
			"elapsed, by local time", "every:1h", "2026-12-24T09:00", nil,
			[]string{"2026-12-24T10:00"},
			"2026-12-24T14:00:00Z 2026-12-24T16:00:00Z",
		},
		{
			"elapsed, a whole day", "every:1h", "2026-12-24T22:00", nil,
			[]string{"2026-12-25"},
			"2026-12-25T03:00:00Z 2026-12-25T04:00:00Z 2026-12-26T05:00:00Z",
		},
		{"every second, 365 days", "every:1s", "2026-01-01T00:00", nil, allOf2026(), "2027-01-01T05:00:00Z"},
		{
			"include adds", "FREQ=WEEKLY", "2026-12-21T09:00",
			[]string{"2026-12-24T12:00", "2026-12-23T12:00:00Z"},
			nil,
			"2026-12-21T14:00:00Z 2026-12-23T12:00:00Z=2026-12-23T12:00:00.000Z " +
				"2026-12-24T17:00:00Z=2026-12-24T12:00:00 2026-12-28T14:00:00Z",
		},
		{
			"include by bare date takes the start's time", "FREQ=WEEKLY", "2026-12-21T09:00",
			[]string{"2026-12-24"},
			nil,
			"2026-12-21T14:00:00Z 2026-12-24T14:00:00Z",
		},
		{
			"... even where the rule has another time", "FREQ=WEEKLY;BYHOUR=18", "2026-12-21T14:00:00Z",
			[]string{"2026-12-24"},
			nil,
			"2026-12-21T23:00:00Z 2026-12-24T14:00:00Z 2026-12-28T23:00:00Z",
		},
		{
			"without start, the time of the rule's first", "FREQ=WEEKLY;BYDAY=MO;BYHOUR=18", "",
			[]string{"2026-11-24"},
			nil,
			"2026-11-23T23:00:03Z 2026-11-24T23:00:03Z 2026-11-30T23:00:03Z",
		},
		{
			"without start, of a rule of instants", "cron:*/30 * * * *", "",
			[]string{"2026-11-19", "2026-11-20"},
			[]string{"2026-11-20T10:00"},
			"2026-11-20T14:30:00Z 2026-11-20T15:30:00Z",
		},
		{
			"include of what fires anyway", "FREQ=DAILY", "2026-12-24T09:00",
			[]string{"2026-12-25T14:00:00Z", "2026-12-25T09:00"},
			nil,
			"2026-12-24T14:00:00Z 2026-12-25T14:00:00Z=2026-12-25T09:00:00 2026-12-26T14:00:00Z",
		},
		{
			"exclude beats include", "FREQ=WEEKLY", "2026-12-21T09:00",
			[]string{"2026-12-24T12:00"},
			[]string{"2026-12-24"},
			"2026-12-21T14:00:00Z 2026-12-28T14:00:00Z",
		},
		{
			"include survives COUNT", "FREQ=DAILY;COUNT=1", "2026-12-21T09:00",
			[]string{"2027-01-01T12:00"},
			nil,
			"2026-12-21T14:00:00Z 2027-01-01T17:00:00Z end",
		},
		{
			"dates alone", "", "",
			[]string{"2026-12-24T12:00", "2026-12-23", "2026-12-24T12:00"},
			nil,
			"2026-12-23T05:00:00Z 2026-12-24T17:00:00Z end",
		},
		{
			"dates alone, with a start", "", "2026-12-21T09:00",
			[]string{"2026-12-23"},
			nil,
			"2026-12-23T14:00:00Z end",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := mustCompile(t, Spec{
				Recurrence: c.rule, Start: c.start, Zone: "America/New_York", Include: c.include,
				Exclude: c.exclude, Append: now, Limits: Limits{}.Preview(),
			})
			checkOccurrences(t, r, minInstant, c.want)
		})
	}
}

func allOf2026() (days []string) {
	for d := daysOf(2026, 1, 1); d <= daysOf(2026, 12, 31); d++ {
		days = append(days, Date(d).String())
	}
	return days
}

func TestHolidays(t *testing.T) {
	set, err := NewDateSet([]string{"2027-01-01", "2026-12-25", "2026-12-24"}) // Friday, Friday, Thursday
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, rule, on, want string }{
		{"skip", "FREQ=DAILY", OnSkip, "2026-12-23T14:00:00Z 2026-12-26T14:00:00Z 2026-12-27T14:00:00Z"},
		{
			"next", "FREQ=WEEKLY;BYDAY=TH", OnNext,
			"2026-12-28T14:00:00Z=2026-12-24T09:00:00 2026-12-31T14:00:00Z 2027-01-07T14:00:00Z",
		},
		{
			"previous", "FREQ=WEEKLY;BYDAY=FR", OnPrevious,
			"2026-12-23T14:00:00Z=2026-12-25T09:00:00 2026-12-31T14:00:00Z=2027-01-01T09:00:00 2027-01-08T14:00:00Z",
		},
		{
			"next, all on one Monday", "FREQ=DAILY", OnNext,
			"2026-12-23T14:00:00Z 2026-12-28T14:00:00Z=2026-12-28T09:00:00 2026-12-29T14:00:00Z",
		},
		{
			"weekends move too", "FREQ=MONTHLY;BYMONTHDAY=16", OnNext,
			"2027-01-18T14:00:00Z=2027-01-16T09:00:00 2027-02-16T14:00:00Z",
		},
		{"moves count once", "FREQ=WEEKLY;BYDAY=TH;COUNT=2", OnNext, "2026-12-28T14:00:00Z 2026-12-31T14:00:00Z end"},
		{"cron", "cron:0 9 24 12 *", OnPrevious, "2026-12-23T14:00:00Z=2026-12-24T09:00:00 2027-12-24T14:00:00Z"},
		{"cron on the real timeline skips", "cron:0 */12 * * *", OnSkip, "2026-12-23T17:00:00Z 2026-12-26T05:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := mustCompile(t, Spec{
				Recurrence: c.rule, Start: "2026-12-23T09:00", Zone: "America/New_York",
				Calendars: &CalendarRule{Names: []string{"x"}, On: c.on, Sets: []DateSet{set}}, Append: now,
			})
			checkOccurrences(t, r, minInstant, c.want)
		})
	}
}

// An occurrence that a holiday moves stays in place of one that include names, on the day that was
// asked for: it does not fire twice. Dates that include names beside it change nothing.
func TestHolidayOfADateThatIsIncluded(t *testing.T) {
	set, err := NewDateSet([]string{"2026-12-24"}) // a Thursday
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ include, want string }{
		{"2026-12-24T09:00", "2026-12-17T14:00:00Z 2026-12-24T14:00:00Z 2026-12-31T14:00:00Z"},
		{
			"2026-12-22T09:00",
			"2026-12-17T14:00:00Z 2026-12-22T14:00:00Z 2026-12-25T14:00:00Z=2026-12-24T09:00:00 2026-12-31T14:00:00Z",
		},
	} {
		r := mustCompile(t, Spec{
			Recurrence: "FREQ=WEEKLY;BYDAY=TH", Start: "2026-12-17T09:00", Zone: "America/New_York",
			Include: []string{c.include}, Append: now,
			Calendars: &CalendarRule{Names: []string{"x"}, On: OnNext, Sets: []DateSet{set}},
		})
		checkOccurrences(t, r, minInstant, c.want)
	}
}

func TestMissedAndPrev(t *testing.T) {
	for _, c := range []struct {
		name, rule, after, until string
		max, count               int
		first, last              string
	}{
		{"none", "FREQ=DAILY", "2026-12-01T14:00:00Z", "2026-12-02T13:59:59Z", 10, 0, "", ""},
		{
			"three days", "FREQ=DAILY", "2026-12-01T14:00:00Z", "2026-12-04T14:00:00Z", 10, 3, "2026-12-02T14:00:00Z",
			"2026-12-04T14:00:00Z",
		},
		{
			"over the bound", "FREQ=MINUTELY", "2026-12-01T14:00:00Z", "2027-12-01T14:00:30Z", 10, 10,
			"2026-12-01T14:01:00Z", "2027-12-01T14:00:00Z",
		},
		{
			"sparse", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "2026-12-01T14:00:00Z", "2060-12-01T14:00:30Z", 3, 3,
			"2028-02-29T14:00:00Z", "2060-02-29T14:00:00Z",
		},
		{
			"dense", "cron:* * * * *", "2026-12-01T14:00:00Z", "2026-12-01T14:30:00Z", 3, 3,
			"2026-12-01T14:01:00Z", "2026-12-01T14:30:00Z",
		},
		{
			"the last is 35 seconds ahead", "FREQ=MINUTELY;BYSECOND=0,35", "2026-12-01T14:00:00Z",
			"2026-12-01T14:30:35Z", 3, 3,
			"2026-12-01T14:00:35Z", "2026-12-01T14:30:35Z",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := mustCompile(t, Spec{
				Recurrence: c.rule, Start: "2026-01-01T09:00", Zone: "America/New_York", Limits: Limits{}.Preview(),
			})
			after, _ := ParseInstant(c.after)
			until, _ := ParseInstant(c.until)
			n, first, last, err := r.Missed(after, until, c.max)
			if err != nil || n != c.count || n > 0 && (utcString(first.At) != c.first || utcString(last.At) != c.last) {
				t.Errorf("got %d %s %s %v", n, utcString(first.At), utcString(last.At), err)
			}
		})
	}
	r := mustCompile(t, Spec{Recurrence: "FREQ=DAILY", Start: "2026-01-01T09:00"})
	if o, ok, err := r.Prev(0); ok || err != nil {
		t.Errorf("before the start: %v %v", o, err)
	}
}

func TestPeriod(t *testing.T) {
	for _, c := range []struct {
		rule string
		want time.Duration
	}{
		{"every:15m", 15 * time.Minute},
		{"FREQ=HOURLY;INTERVAL=3", 3 * time.Hour},
		{"FREQ=DAILY", 24 * time.Hour},
		{"FREQ=DAILY;BYHOUR=9,17", 8 * time.Hour},
		{"FREQ=DAILY;BYHOUR=1,23", 2 * time.Hour},
		{"FREQ=WEEKLY;BYDAY=MO,WE", 48 * time.Hour},
		{"FREQ=WEEKLY;BYDAY=MO;BYHOUR=0,23", 23 * time.Hour},
		{"FREQ=DAILY;COUNT=1", 0},
		{"cron:*/7 * * * *", 4 * time.Minute},
		{"cron:0 9 * * 1-5", 24 * time.Hour},
		{"FREQ=MINUTELY;BYSECOND=0,50", 10 * time.Second},
		{"FREQ=MONTHLY;BYMONTHDAY=1,-1", 24 * time.Hour},
		{"FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=1,2", 24 * time.Hour},
	} {
		r := mustCompile(t, Spec{Recurrence: c.rule, Start: "2026-01-05T00:00", Limits: Limits{}.Preview()})
		if got := r.Period(); got != c.want {
			t.Errorf("%s: %s, want %s", c.rule, got, c.want)
		}
		if err := r.CheckPeriod(c.want); err != nil {
			t.Errorf("%s: its own period: %v", c.rule, err)
		}
		if err := r.CheckPeriod(c.want + 1); (err != nil) != (c.want > 0) {
			t.Errorf("%s: a period longer than its own: %v", c.rule, err)
		}
	}
}

func TestClosest(t *testing.T) {
	for _, c := range []struct {
		name, rule string
		include    []string
		want       time.Duration
	}{
		{"a rule alone", "every:1h", nil, time.Hour},
		{
			"dates alone", "",
			[]string{"2026-03-02T11:00:00Z", "2026-03-02T10:00:00Z", "2026-03-02T10:30:00Z"},
			30 * time.Minute,
		},
		{"one date", "", []string{"2026-03-02T10:00:00Z"}, 0},
		{"a date behind an occurrence", "every:1h", []string{"2026-03-02T10:05:00Z"}, 5 * time.Minute},
		{"a date before an occurrence", "FREQ=DAILY;BYHOUR=9", []string{"2026-03-02T08:50:00"}, 10 * time.Minute},
		{"a date on an occurrence", "every:1h", []string{"2026-03-02T10:00:00Z"}, time.Hour},
		{
			"a date after the last occurrence", "FREQ=HOURLY;UNTIL=20260105T030000Z",
			[]string{"2026-03-05T10:05:00Z"},
			time.Hour,
		},
		{"a date near the only occurrence", "FREQ=DAILY;COUNT=1", []string{"2026-01-04T22:00"}, 2 * time.Hour},
		{
			"dates closer than the rule", "every:1h",
			[]string{"2026-01-01T00:00:00Z", "2026-01-01T00:00:30Z"},
			30 * time.Second,
		},
	} {
		r := mustCompile(t, Spec{
			Recurrence: c.rule, Start: "2026-01-05T00:00:00", Include: c.include, Limits: Limits{}.Preview(),
		})
		for range 2 { // the second answer is kept from the first
			if got := r.Closest(); got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		}
	}
}

func TestDescribe(t *testing.T) {
	for _, c := range []struct{ rule, zone, want string }{
		{"FREQ=DAILY", "UTC", "every day at 09:00, UTC"},
		{
			"FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "America/New_York",
			"every month on the last weekday at 09:00, New York time",
		},
		{
			"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE", "Europe/Berlin",
			"every 2 weeks on Monday and Wednesday at 09:00, Berlin time",
		},
		{"FREQ=MONTHLY;BYMONTHDAY=-1", "UTC", "every month on the last day of the month at 09:00, UTC"},
		{"FREQ=YEARLY", "UTC", "every year on the 5th in January at 09:00, UTC"},
		{"FREQ=MONTHLY;BYDAY=2TU;COUNT=3", "UTC", "every month on the 2nd Tuesday at 09:00, 3 times, UTC"},
		{"every:90m", "UTC", "every 90 minutes"},
		{
			"cron:0 9 * * 1-5", "Europe/Berlin",
			"at 09:00 on Monday, Tuesday, Wednesday, Thursday and Friday, Berlin time",
		},
		{"cron:*/15 * * * *", "UTC", "every hour at minute 0, 15, 30 and 45, UTC"},
		{"cron:0 9 LW * *", "UTC", "at 09:00 on the last weekday of the month, UTC"},
		{"cron:0 9 13 * 5", "UTC", "at 09:00 on the 13th or Friday, UTC"},
	} {
		r := mustCompile(t, Spec{
			Recurrence: c.rule, Start: "2026-01-05T09:00", Zone: c.zone,
			Limits: Limits{}.Preview(),
		})
		if got := r.Describe(); got != c.want {
			t.Errorf("%s: %q, want %q", c.rule, got, c.want)
		}
	}
}

func TestResolveAt(t *testing.T) {
	o, err := ResolveAt(Embedded(), "2026-03-08T02:30", "America/New_York", DST{})
	if err != nil || utcString(o.At) != "2026-03-08T07:30:00Z" || o.ID() != "2026-03-08T02:30:00" ||
		o.Note != "gap: shifted 1h" {
		t.Errorf("gap: %+v %v", o, err)
	}
	_, err = ResolveAt(Embedded(), "2026-03-08T02:30", "America/New_York", DST{Gap: GapSkip})
	wantError(t, "gap skipped", err, CodeNoOccurrences, "fire_at", "skip")
	_, err = ResolveAt(Embedded(), "2026-03-08", "America/New_York", DST{})
	wantError(t, "bare date", err, CodeInvalid, "fire_at", "T09:00")
	_, err = ResolveAt(Embedded(), "2026-03-08T02:30", "EST/Foo", DST{})
	wantError(t, "zone", err, CodeUnknownZone, "timezone", "EST/Foo")
}

func TestLocalTime(t *testing.T) {
	r := mustCompile(t, Spec{Recurrence: "FREQ=DAILY", Start: "2026-03-08T02:30", Zone: "America/New_York"})
	o, _, _ := r.First()
	if got := r.LocalTime(o) + " " +
		r.LocalOffset(o); got != "2026-03-08T03:30:00[America/New_York] 2026-03-08T03:30:00-04:00" {
		t.Error(got)
	}
}

// TestJitter pins the hash: a change would move every jittered trigger.
func TestJitter(t *testing.T) {
	for _, c := range []struct {
		key, occurrence string
		window, want    time.Duration
	}{
		{"hold-8c4", "2026-11-20T09:00:00", time.Minute, 8918 * time.Millisecond},
		{"hold-8c5", "2026-11-20T09:00:00", time.Minute, 8706 * time.Millisecond},
		{"acme/rent", "2026-11-20T14:00:00.000Z", time.Hour, 360192 * time.Millisecond},
		{"a", "b", 0, 0},
		{"a", "b", time.Microsecond, 0},
	} {
		if got := Jitter(c.key, c.occurrence, c.window); got != c.want {
			t.Errorf("%s %s %s: %d, want %d", c.key, c.occurrence, c.window, got, c.want)
		}
	}
	var slots [10]int
	for i := range 100_000 {
		d := Jitter("key-"+Date(i).String(), "2026-11-20T09:00:00", 10*time.Second)
		if d < 0 || d >= 10*time.Second {
			t.Fatalf("%s outside the window", d)
		}
		slots[d/time.Second]++
	}
	for i, n := range slots {
		if n < 9_500 || n > 10_500 {
			t.Errorf("second %d holds %d of 100,000", i, n)
		}
	}
}

// TestSharedRule: one rule, many goroutines (run with -race).
func TestSharedRule(t *testing.T) {
	r := mustCompile(t, Spec{
		Recurrence: "FREQ=YEARLY;BYDAY=-1FR", Start: "2020-01-01T09:00", Zone: "America/New_York",
		Exclude: []string{"2026-12-25"},
	})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			at := int64(g) * 400 * msPerDay * 10
			for range 60 {
				o, ok, err := r.Next(at)
				if !ok || err != nil || !strings.HasSuffix(o.ID(), "T09:00:00") {
					t.Errorf("%v %v %v", o, ok, err)
				}
				at = o.At
			}
		})
	}
	wg.Wait()
}

// TestHolidaysAtTheEnds: a move changes neither which occurrence is the first nor which is the
// last, however start and UNTIL are spelled.
func TestHolidaysAtTheEnds(t *testing.T) {
	closed, err := NewDateSet([]string{"2026-12-25"})
	if err != nil {
		t.Fatal(err)
	}
	list := func(on, rule, start string) (out []int64) {
		t.Helper()
		r, err := Compile(Embedded(), Spec{
			Recurrence: rule, Start: start, Zone: "America/New_York",
			Calendars: &CalendarRule{Names: []string{"closed"}, On: on, Sets: []DateSet{closed}},
		})
		if err != nil {
			t.Fatal(err)
		}
		for at := int64(minInstant); ; {
			o, ok, err := r.Next(at)
			if err != nil {
				t.Fatal(err)
			}
			if !ok || len(out) == 9 {
				return out
			}
			at = o.At
			out = append(out, at)
		}
	}
	const days = "FREQ=DAILY;BYHOUR=9,17;BYMINUTE=0;UNTIL="
	local := list(OnNext, days+"20261225T235959", "2026-12-24T09:00")
	instant := list(OnNext, days+"20261226T045959Z", "2026-12-24T14:00:00Z")
	if len(local) != 4 || !slices.Equal(local, instant) {
		t.Errorf("until as a wall time %v, as an instant %v", local, instant)
	}
	const first = "FREQ=MONTHLY;BYMONTHDAY=25;COUNT=2"
	local, instant = list(OnPrevious, first, "2026-12-25T09:00"), list(OnPrevious, first, "2026-12-25T14:00:00Z")
	if len(local) != 2 || !slices.Equal(local, instant) {
		t.Errorf("start as a wall time %v, as an instant %v", local, instant)
	}
}

// A local until in a gap: elapsed time ends where a start of that time would begin; cron that matches
// readings ends with the last reading before it.
func TestUntilInAGap(t *testing.T) {
	for rule, want := range map[string]string{
		"cron:*/30 * * * *": "2026-03-08T06:00:00Z 2026-03-08T06:30:00Z",
		"every:30m":         "2026-03-08T06:00:00Z 2026-03-08T06:30:00Z 2026-03-08T07:00:00Z 2026-03-08T07:30:00Z",
		"cron:0,30 * * * *": "2026-03-08T06:00:00Z 2026-03-08T06:30:00Z",
	} {
		r := mustCompile(t, Spec{
			Recurrence: rule, Start: "2026-03-08T01:00", Until: "2026-03-08T02:30", Zone: "America/New_York",
		})
		list, err := r.Between(minInstant, maxInstant, 10)
		var got []string
		for _, o := range list {
			got = append(got, utcString(o.At))
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %s %v, want %s", rule, strings.Join(got, " "), err, want)
		}
	}
}

// LastBy is the last of all days that come to a day or to one before it.
func TestLastBy(t *testing.T) {
	first := Date(20_700)
	for _, on := range []string{OnSkip, OnNext, OnPrevious} {
		for closed := range 1 << 8 {
			var dates DateSet
			for i := range Date(8) {
				if closed>>i&1 == 1 {
					dates = append(dates, first+10+i)
				}
			}
			h, err := newHolidays(&CalendarRule{On: on, Sets: []DateSet{dates}})
			if err != nil {
				t.Fatal(err)
			}
			for day := first + 8; day < first+20; day++ {
				last := first
				for d := first; d < first+40; d++ {
					if to, _ := h.apply(d); to <= day {
						last = max(last, d)
					}
				}
				if got := h.lastBy(day); got != last {
					t.Errorf("%s, closed %v: the last by %v is %v, want %v", on, dates, day, got, last)
				}
			}
		}
	}
}
