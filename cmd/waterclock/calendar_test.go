package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const holidays = `BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//holidays//EN
BEGIN:VEVENT
UID:1
SUMMARY:Christmas
DTSTART;VALUE=DATE:20261224
DTEND;VALUE=DATE:20261227
RRULE:FREQ=YEARLY;UNTIL=20271231
END:VEVENT
BEGIN:VEVENT
UID:2
SUMMARY:Party
DTSTART:20261223T180000Z
END:VEVENT
BEGIN:VEVENT
UID:3
SUMMARY:Called off
STATUS:CANCELLED
DTSTART;VALUE=DATE:20260501
END:VEVENT
BEGIN:VEVENT
UID:4
SUMMARY:Labour day
DTSTART;VALUE=DATE:20260501
RRULE:FREQ=YEARLY
EXDATE;VALUE=DATE:20270501
END:VEVENT
END:VCALENDAR
`

// A file without dates is more likely a failed download than a calendar.
func TestCalendarOfNothing(t *testing.T) {
	for _, row := range []struct{ name, text string }{
		{"nothing", ""},
		{"a line end", "\n"},
		{"a comment", "# none\n"},
		{"an object without dates", "{}"},
		{"iCalendar without days", "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nEND:VCALENDAR\r\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			cli(t, nil, row.text, "calendar", "put", "us").want(t, exitUsage, "calendar us: the input has no dates",
				"write []")
		})
	}
	brokers := cluster(t)
	for _, text := range []string{"[]", `{"dates":[]}`} {
		cli(t, nil, text, "calendar", "put", "us", "--brokers", brokers).want(t, exitOK, "dates     0")
	}
}

// Years without a meaning would put a calendar that lacks the recurring days.
func TestCalendarYears(t *testing.T) {
	for _, years := range []string{"300", "101", "0", "-1"} {
		cli(t, nil, holidays, "calendar", "put", "us", "--years", years).want(t, exitUsage,
			"--years "+years+": write 1 to 100")
	}
	brokers := cluster(t)
	yearly := event("DTSTART;VALUE=DATE:20261225", "RRULE:FREQ=YEARLY")
	cli(t, nil, yearly, "calendar", "put", "us", "--years", "100", "--brokers", brokers).want(t, exitOK,
		"result    put")
}

// event is a calendar of one event with these lines.
func event(lines ...string) string {
	return "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\n" + strings.Join(lines, "\n") + "\nEND:VEVENT\nEND:VCALENDAR\n"
}

func TestCalendarFiles(t *testing.T) {
	until := time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	for _, row := range []struct{ name, content, want string }{
		{"lines", "2026-12-25  Christmas\n\n# comment\n2027-01-01\t# New year\r\n", "2026-12-25 2027-01-01"},
		{"csv", "2026-12-25,Christmas\n", "2026-12-25"},
		{"mark of a byte order", "\ufeff2026-12-25\n", "2026-12-25"},
		{"list", `["2026-12-25"]`, "2026-12-25"},
		{"object", ` {"name":"x","dates":["2026-12-25"]}`, "2026-12-25"},
		{"nothing", "", ""},
		{
			"iCalendar", holidays,
			"2026-12-24 2026-12-25 2026-12-26 2027-12-24 2027-12-25 2027-12-26 2026-05-01 2028-05-01",
		},
		{
			"iCalendar with the line ends of its RFC", strings.ReplaceAll(holidays, "\n", "\r\n"),
			"2026-12-24 2026-12-25 2026-12-26 2027-12-24 2027-12-25 2027-12-26 2026-05-01 2028-05-01",
		},
		{"no date", "2026-12-25\n25.12.2026\n", `error: line 2: "25.12.2026" is not a date`},
		{"no such day", "2026-02-30\n", `error: line 1: "2026-02-30" is not a date`},
		{"another object", `{"days":[]}`, "error: write a list of dates"},
		{
			"rule without meaning", strings.ReplaceAll(holidays, "FREQ=YEARLY\nEXDATE", "FREQ=NEVER\nEXDATE"),
			"error: event Labour day: recurrence:",
		},
		{
			"every second", strings.ReplaceAll(holidays, "FREQ=YEARLY\nEXDATE", "FREQ=SECONDLY\nEXDATE"),
			"error: event Labour day: it recurs within a day",
		},
		{
			"every day for ever",
			"BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\nDTSTART;VALUE=DATE:19000101\n" +
				"RRULE:FREQ=DAILY\nEND:VEVENT\nEND:VCALENDAR\n",
			"error: event 1: over 10000 days",
		},
		{
			"length as a duration", event("DTSTART;VALUE=DATE:20261224", "DURATION:P3D"),
			"2026-12-24 2026-12-25 2026-12-26",
		},
		{
			"length in weeks", event("DTSTART;VALUE=DATE:20261225", "DURATION:+P1W"),
			"2026-12-25 2026-12-26 2026-12-27 2026-12-28 2026-12-29 2026-12-30 2026-12-31",
		},
		{
			"dates of its own", event("DTSTART;VALUE=DATE:20260101", "RDATE;VALUE=DATE:20270101,20280101"),
			"2026-01-01 2027-01-01 2028-01-01",
		},
		{
			"dates beside a rule", event("DTSTART;VALUE=DATE:20260501", "RRULE:FREQ=YEARLY;COUNT=2",
				"RDATE;VALUE=DATE:20261003,20270501", "RDATE;VALUE=DATE:20281003", "EXDATE;VALUE=DATE:20281003"),
			"2026-05-01 2026-10-03 2027-05-01",
		},
		{
			"a length in hours", event("DTSTART;VALUE=DATE:20261224", "DURATION:PT48H"),
			`error: event 1: DURATION "PT48H"`,
		},
		{
			"a period", event("DTSTART;VALUE=DATE:20260101", "RDATE;VALUE=PERIOD:20270101T000000Z/P1D"),
			"error: event 1: RDATE",
		},
		{
			"one day called off", event("DTSTART;VALUE=DATE:20260101", "RRULE:FREQ=YEARLY;COUNT=2", "END:VEVENT",
				"BEGIN:VEVENT", "UID:1", "RECURRENCE-ID;VALUE=DATE:20270101", "STATUS:CANCELLED",
				"DTSTART;VALUE=DATE:20270101"),
			"error: event 1: RECURRENCE-ID",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := newApp(stdio{in: strings.NewReader(""), out: io.Discard, err: io.Discard})
			dates, err := a.readDates([]byte(row.content), until)
			got := strings.Join(dates, " ")
			if err != nil {
				got = "error: " + err.Error()
			}
			if got != row.want && (err == nil || !strings.HasPrefix(got, row.want)) {
				t.Errorf("got %s\nwant %s", got, row.want)
			}
		})
	}
}

func FuzzCalendarFile(f *testing.F) {
	f.Add([]byte(holidays))
	f.Add([]byte("2026-12-25\n"))
	f.Add([]byte(`{"dates":["2026-12-25"]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		a := newApp(stdio{out: io.Discard, err: io.Discard})
		dates, err := a.readDates(content, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
		if err != nil && dates != nil {
			t.Errorf("dates beside an error: %v, %v", dates, err)
		}
	})
}

func TestCalendars(t *testing.T) {
	brokers := cluster(t)
	run := func(stdin string, args ...string) result {
		return cli(t, nil, stdin, append(args, "--brokers", brokers)...)
	}
	run("", "calendar", "list", "-o", "json").want(t, exitOK, "[]")
	run("", "calendar", "get", "office").want(t, exitNotFound, "there is no calendar office")
	run("2027-01-01\n2026-12-25\n2026-12-25\n", "calendar", "put", "office").want(t, exitOK, "put", "2")
	run("2026-12-25\n2027-01-01\n", "calendar", "put", "office").want(t, exitOK, "unchanged")
	if r := run("", "calendar", "get", "office"); r.out != "2026-12-25\n2027-01-01\n" {
		t.Errorf("got %q", r.out)
	}
	run("", "calendar", "get", "office", "-o", "ndjson").want(t, exitOK,
		`{"dates":["2026-12-25","2027-01-01"],"name":"office"}`)
	run(`["2028-01-01"]`, "calendar", "put", "office").want(t, exitOK, "put")
	run(holidays, "calendar", "put", "us").want(t, exitOK, "1 event with a time of day ignored")
	run("", "calendar", "list", "-o", "ndjson", "--jq", `.name+" "+.first`).want(t, exitOK,
		"office 2028-01-01\nus 2026-05-01\n")
	run("x\n", "calendar", "put", "office").want(t, exitUsage, "line 1")
	run("", "calendar", "put", "Office").want(t, exitUsage, "a calendar's name is")
	run("", "calendar", "put").want(t, exitUsage, "calendar put NAME [FILE]")
}

// With --url alone, a verb must not ask the brokers of this machine, because nobody named them.
func TestCalendarsOverHTTP(t *testing.T) {
	kafka, url := startDev(t)
	run := func(stdin string, args ...string) result {
		return cli(t, nil, stdin, append(args, "--url", url)...)
	}
	run("", "calendar", "get", "office").want(t, exitNotFound, "there is no calendar office")
	run("2027-01-01\n2026-12-25\n2026-12-25\n", "calendar", "put", "office").want(t, exitOK, "put", "2")
	run("2026-12-25\n2027-01-01\n", "calendar", "put", "office").want(t, exitOK, "unchanged")
	run("", "calendar", "get", "office", "-o", "ndjson").want(t, exitOK,
		`{"dates":["2026-12-25","2027-01-01"],"name":"office"}`)
	cli(t, nil, "", "calendar", "get", "office", "--brokers", kafka, "--url", url).want(t, exitOK,
		"2026-12-25\n2027-01-01\n")
	run("", "calendar", "put", "Office").want(t, exitUsage, "a calendar's name is")
	run("", "calendar", "list", "-o", "ndjson").want(t, exitOK,
		`{"name":"office","dates":2,"first":"2026-12-25","last":"2027-01-01"}`)
	run("", "preview", "--every", "FREQ=DAILY", "--start", "2026-12-24T09:00", "--tz", "UTC", "--calendars", "office",
		"-n", "2", "--after", "2026-12-24T00:00:00Z").
		want(t, exitOK, "2026-12-24", "2026-12-26")
	picture := run("", "preview", "--every", "FREQ=DAILY", "--start", "2026-12-24T09:00", "--tz", "UTC", "--calendars",
		"office", "--month", "2026-12", "-o", "ndjson")
	if picture.want(t, exitOK, "2026-12-24", "2026-12-26"); strings.Contains(picture.out, "2026-12-25") {
		t.Errorf("a holiday fires: %s", picture.out)
	}
	run("", "preview", "--every", "FREQ=DAILY", "--calendars", "offices").want(t, exitUsage, "offices")
	run("", "preview", "--every", "FREQ=DAILY", "--on-holiday", "skip").want(t, exitUsage, "--calendars")
	run("", "schedule", "k", "--every", "FREQ=DAILY", "--start", "2026-12-24T09:00", "--tz", "UTC", "--calendars",
		"office", "--on-holiday", "next_business_day").want(t, exitOK, "PENDING")
	run("", "get", "k", "-o", "json").want(t, exitOK, "next_business_day")
	run("", "tzdata", "status").want(t, exitOK, "none applied")
	run("", "tzdata", "apply", "embedded").want(t, exitUsage, "name the brokers with --brokers")
}

func TestPictureOfAMonth(t *testing.T) {
	r := cli(t, nil, "", "preview", "--every", "cron:30 2 * * SUN", "--start", "2026-01-01T00:00", "--tz",
		"America/New_York", "--month", "2026-03")
	r.want(t, exitOK)
	want := `at 02:30 on Sunday, New York time

         March 2026
 Mo  Tu  We  Th  Fr  Sa  Su
                        [ 1]
  2   3   4   5   6   7 [ 8!
  9  10  11  12  13  14 [15]
 16  17  18  19  20  21 [22]
 23  24  25  26  27  28 [29]
 30  31

Su 2026-03-01  02:30-05:00
Su 2026-03-08  03:30-04:00 (gap: shifted 1h)
Su 2026-03-15  02:30-04:00
Su 2026-03-22  02:30-04:00
Su 2026-03-29  02:30-04:00
`
	if r.out != want {
		t.Errorf("got\n%s\nwant\n%s", r.out, want)
	}
}

func TestPictures(t *testing.T) {
	for _, row := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{
			"a year",
			[]string{"--every", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "--start", "2024-02-29T09:00", "--year", "2028"},
			exitOK,
			[]string{
				"[29]", "January 2028                  February 2028", "December 2028",
				"it fires on 1 day of 2028",
			},
		},
		{"every minute of a leap year", []string{
			"--every", "cron:* * * * *", "--start", "2000-01-01T00:00", "--year",
			"2028",
		}, exitOK, []string{"it fires on 366 days of 2028"}},
		{
			"both passes of an overlap",
			[]string{
				"--every", "cron:*/30 * * * *", "--start", "2000-01-01T00:00", "--tz", "Europe/Berlin", "--month",
				"2026-10",
			},
			exitOK,
			[]string{
				"Su 2026-10-25  00:00+02:00",
				"02:30+02:00 (overlap: first pass)  02:00+01:00 (overlap: second pass)", "…",
			},
		},
		{"a day that is not", []string{
			"--every", "FREQ=DAILY", "--start", "2011-12-28T09:00", "--tz", "Pacific/Apia",
			"--month", "2011-12",
		}, exitOK, []string{"Th 2011-12-29", "Sa 2011-12-31"}},
		{
			"nothing",
			[]string{"--every", "FREQ=DAILY", "--start", "2030-01-01T09:00", "--month", "2026-12"},
			exitOK,
			[]string{"does not fire in this month"},
		},
		{"JSON", []string{
			"--every", "FREQ=MONTHLY", "--start", "2026-01-31T09:00", "--year", "2026", "-o", "json", "--jq",
			".[].day",
		}, exitOK, []string{"2026-01-31\n2026-03-31\n2026-05-31\n"}},
		{
			"no rule",
			[]string{"--at", "2026-01-01T00:00Z", "--month", "2026-12"},
			exitUsage,
			[]string{"give it with --every"},
		},
		{"bad month", []string{"--every", "1h", "--month", "2026-13"}, exitUsage, []string{"write 2026-11"}},
		{"bad year", []string{"--every", "1h", "--year", "26"}, exitUsage, []string{"write 2026"}},
		{"both", []string{"--every", "1h", "--year", "2026", "--month", "2026-12"}, exitUsage, []string{"not both"}},
		{
			"bad rule",
			[]string{"--every", "FREQ=DAILY;BYDAY=MON", "--month", "2026-12"},
			exitUsage,
			[]string{"recurrence"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			cli(t, nil, "", append([]string{"preview"}, row.args...)...).want(t, row.code, row.want...)
		})
	}
}

// A month always has eight lines of 28 characters, so that three fit side by side.
func TestMonthIsARectangle(t *testing.T) {
	p := &picture{}
	for year := 1900; year <= 2100; year++ {
		for m := 1; m <= 12; m++ {
			lines := p.month(firstOf(year, m), false)
			if len(lines) != 8 {
				t.Fatalf("%d-%02d has %d lines", year, m, len(lines))
			}
			for _, line := range lines {
				if len(line) != 28 {
					t.Fatalf("%d-%02d has the line %q", year, m, line)
				}
			}
			first := time.Date(year, time.Month(m), 1, 0, 0, 0, 0, time.UTC)
			days := first.AddDate(0, 1, -1).Day()
			if got := len(strings.Fields(strings.Join(lines[2:], " "))); got != days {
				t.Fatalf("%d-%02d shows %d days, not %d", year, m, got, days)
			}
			if at := strings.Index(lines[2], " 1"); at/cellWidth != (int(first.Weekday())+6)%7 {
				t.Fatalf("%d-%02d begins in the wrong column: %q", year, m, lines[2])
			}
		}
	}
}

func TestNoBarWithoutATerminal(t *testing.T) {
	var errs bytes.Buffer
	a := newApp(stdio{out: io.Discard, err: &errs})
	b := a.progress("counting", 3)
	b.done(2)
	b.end()
	if errs.Len() > 0 {
		t.Errorf("it wrote %q", errs.String())
	}
}

// A calendar is deleted only if no trigger names it, and stays deleted after a restart.
func TestCalendarDelete(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dev")
	start := func() (url string, stop func()) {
		w := devInProcess(t, nil, "--data-dir", dir)
		return w.http, w.end
	}
	url, stop := start()
	run := func(stdin string, args ...string) result {
		t.Helper()
		return cli(t, nil, stdin, append(args, "--url", url)...)
	}
	series := `{"id":"k","recurrence":"FREQ=DAILY","start":"2030-01-01T09:00","calendars":{"names":["us"],"on":"skip"}}`
	file := filepath.Join(t.TempDir(), "list.json")
	if err := os.WriteFile(file, []byte(series), 0o600); err != nil {
		t.Fatal(err)
	}
	run("", "calendar", "delete", "us").want(t, exitNotFound, "no such calendar")
	run("2030-01-01\n", "calendar", "put", "us").want(t, exitOK)
	run("", "apply", "-f", file).want(t, exitOK)
	run("", "calendar", "delete", "us").want(t, exitConflict, "conflict (name): 1 trigger names the calendar: k")
	run("", "cancel", "k").want(t, exitOK)
	r := run("", "calendar", "delete", "us", "-o", "ndjson")
	if r.want(t, exitOK); r.out != `{"dates":["2030-01-01"],"name":"us"}`+"\n" {
		t.Errorf("printed %q", r.out)
	}
	for range 2 {
		run("", "calendar", "get", "us").want(t, exitNotFound)
		run("", "apply", "-f", file).want(t, exitUsage, `there is no calendar "us"`)
		stop()
		url, stop = start()
	}
	run("2030-01-01\n", "calendar", "put", "us").want(t, exitOK)
	run("", "apply", "-f", file).want(t, exitOK)
	run("", "cancel", "k").want(t, exitOK)
	run("", "calendar", "delete", "us").want(t, exitOK, "2030-01-01\n", "calendar us is deleted; it had 1 date")
	cli(t, nil, "", "calendar", "delete", "us", "--brokers", "127.0.0.1:1").want(t, exitUsage, "name it with --url")
}
