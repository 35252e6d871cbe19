package calendar

import (
	"strings"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for _, c := range []struct {
		in   string
		want time.Duration
	}{
		{"7m", 7 * time.Minute},
		{"1h30m", 90 * time.Minute},
		{"2d", 48 * time.Hour},
		{"1w", 168 * time.Hour},
		{"500ms", 500 * time.Millisecond},
		{"1m500ms", time.Minute + 500*time.Millisecond},
		{"0", 0},
		{"0s", 0},
		{"420", 7 * time.Minute},
		{"1.5", 1500 * time.Millisecond},
		{"1.5h", 90 * time.Minute},
		{"PT7M", 7 * time.Minute},
		{"P1D", 24 * time.Hour},
		{"P1DT2H3M4S", 26*time.Hour + 3*time.Minute + 4*time.Second},
		{"P2W", 336 * time.Hour},
		{"PT0S", 0},
		{"PT1.5S", 1500 * time.Millisecond},
		{"pt7m", 7 * time.Minute},
		{"P3652D", 3652 * 24 * time.Hour},
		{"521w", 521 * 168 * time.Hour},
		{"150.5d", 3612 * time.Hour}, // whose thousandths, in ns, do not fit into 64 bits
		{"20.5w", 3444 * time.Hour},
		{"2600.5h", 2600*time.Hour + 30*time.Minute},
		{"P150.5D", 3612 * time.Hour},
		{"3652.499d", 3652*24*time.Hour + 11*time.Hour + 58*time.Minute + 33*time.Second + 600*time.Millisecond},
	} {
		if got, err := ParseDuration(c.in); err != nil || got != c.want {
			t.Errorf("%q: %v %v, want %v", c.in, got, err, c.want)
		}
	}
	for _, c := range []struct {
		in   string
		code Code
		msg  string
	}{
		{"", CodeInvalid, "empty"},
		{"-7m", CodeInvalid, "sign"},
		{"+7m", CodeInvalid, "sign"},
		{"7", "", ""},
		{"P", CodeInvalid, "length"},
		{"PT", CodeInvalid, "length"},
		{"P1DT", CodeInvalid, "ends in T"},
		{"P1Y", CodeInvalid, "years or months"},
		{"P1M", CodeInvalid, "years or months"},
		{"1y", CodeInvalid, "years or months"},
		{"2mo", CodeInvalid, "years or months"},
		{"PT1H1D", CodeInvalid, "out of order"},
		{"30m1h", CodeInvalid, "out of order"},
		{"1h1h", CodeInvalid, "out of order"},
		{"7M", CodeInvalid, "unknown"},
		{"7 m", CodeInvalid, "where a unit belongs"},
		{"m", CodeInvalid, "not a duration"},
		{"1h ", CodeInvalid, "not a duration"},
		{"PT7", CodeInvalid, "without a unit"},
		{"1us", CodeInvalid, "unknown"},
		{"P99999999999D", CodeInvalid, "292 years"},
		{"9999999999999999999w", CodeInvalid, "not a duration"},
		{"P3653D", CodeBeyondHorizon, "10 years"},
		{"99999999999", CodeInvalid, "292"},
		{"400000000", CodeBeyondHorizon, "10 years"},
	} {
		_, err := ParseDuration(c.in)
		wantError(t, c.in, err, c.code, "", c.msg)
	}
}

func wantError(t *testing.T, name string, err error, code Code, field, msg string) {
	t.Helper()
	if code == "" {
		if err != nil {
			t.Errorf("%q: %v", name, err)
		}
		return
	}
	e, ok := err.(*Error)
	if !ok || e == nil || e.Code != code || e.Field != field || !strings.Contains(e.Msg, msg) {
		t.Errorf("%q: got %v, want %s (%s) with %q", name, err, code, field, msg)
	}
}

func TestParseInstant(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"2026-11-20T14:00:00Z", "2026-11-20T14:00:00Z"},
		{"2026-11-20T14:00Z", "2026-11-20T14:00:00Z"},
		{"2026-11-20T09:00:00-05:00", "2026-11-20T14:00:00Z"},
		{"2026-11-20T09:00:00-0500", "2026-11-20T14:00:00Z"},
		{"2026-11-20t14:00:00z", "2026-11-20T14:00:00Z"},
		{"2026-11-20T14:00:00.5Z", "2026-11-20T14:00:00.500Z"},
		{"2026-11-20T14:00:00.000000001Z", "2026-11-20T14:00:00.001Z"}, // never early
		{"2026-11-20T14:00:00.9999Z", "2026-11-20T14:00:01Z"},
		{"1795183200", "2026-11-20T14:00:00Z"},
		{"1795183200123", "2026-11-20T14:00:00.123Z"},
		{"0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"},
	} {
		if got, err := ParseInstant(c.in); err != nil || utcString(got) != c.want {
			t.Errorf("%q: %s %v, want %s", c.in, utcString(got), err, c.want)
		}
	}
	for _, c := range []struct{ in, msg string }{
		{"", "not an instant"},
		{"179518320", "9 digits"},
		{"17951832001", "11 digits"},
		{"17951832001234567890", "20 digits"},
		{"2026-11-20T14:00:00", "no offset"},
		{"2026-11-20", "not an instant"},
		{"2026-13-20T14:00:00Z", "not an instant"},
		{"2026-02-29T14:00:00Z", "not an instant"},
		{"2026-11-20T24:00:00Z", "not an instant"},
		{"2026-11-20T14:00:60Z", "not an instant"},
		{"2026-11-20T14:00:00+5", "not an offset"},
		{"2026-11-20T14:00:00+25:00", "not an offset"},
		{"2026-11-20T14:00:00Z[UTC]", "not an offset"},
		{"2026-11-20 14:00:00Z", "not an instant"},
		{"2026-11-20T14:00:00.Z", "not an instant"},
		{"0000-01-01T00:00:00Z", "not an instant"},
	} {
		_, err := ParseInstant(c.in)
		wantError(t, c.in, err, CodeInvalid, "", c.msg)
	}
}

func TestParseWall(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"2026-11-20T09:00", "2026-11-20T09:00:00"},
		{"2026-11-20T09:00:07", "2026-11-20T09:00:07"},
		{"2026-11-20T09:00:07.25", "2026-11-20T09:00:07.250"},
		{"2024-02-29T23:59:59", "2024-02-29T23:59:59"},
	} {
		if got, err := ParseWall(c.in); err != nil || got.String() != c.want {
			t.Errorf("%q: %s %v, want %s", c.in, got, err, c.want)
		}
	}
	for _, in := range []string{
		"", "2026-11-20", "2026-11-20T", "2026-11-20T9:00", "2026-11-20T09", "2026-11-20T09:60", "2026-02-30T09:00",
		"2026-11-20T09:00Z", "2026-11-20T09:00:7", "20261120T090000", "x026-11-20T09:00", "2026-11-20T09:00:00+01:00",
	} {
		if w, err := ParseWall(in); err == nil {
			t.Errorf("%q: read as %s", in, w)
		}
	}
}

func TestCivil(t *testing.T) {
	for day := minDay; day <= maxDay; day += 13 {
		y, m, d := dateOf(day)
		if daysOf(y, m, d) != day {
			t.Fatalf("day %d is %d-%d-%d is %d", day, y, m, d, daysOf(y, m, d))
		}
		if at := time.Unix(int64(day)*86400, 0).UTC(); at.Year() != y || int(at.Month()) != m || at.Day() != d ||
			int(at.Weekday()) != weekdayOf(day) {
			t.Fatalf("day %d is %d-%d-%d weekday %d, package time says %s", day, y, m, d, weekdayOf(day), at)
		}
	}
}

// TestRefusals: every refusal has its code and field, and says what to write.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name string
		spec Spec
		code Code
		fld  string
		msg  string
	}{
		{"weekday name", Spec{Recurrence: "FREQ=WEEKLY;BYDAY=MON"}, CodeInvalidRule, "recurrence", "did you mean MO?"},
		{
			"part name",
			Spec{Recurrence: "FREQ=DAILY;INTERVALL=2"},
			CodeInvalidRule, "recurrence",
			"did you mean INTERVAL?",
		},
		{"position", Spec{Recurrence: "FREQ=DAILY;BYHOUR=24"}, CodeInvalidRule, "recurrence", "at character 19"},
		{"frequency", Spec{Recurrence: "FREQ=DALY"}, CodeInvalidRule, "recurrence", "did you mean DAILY?"},
		{"no frequency", Spec{Recurrence: "RRULE:COUNT=3"}, CodeInvalidRule, "recurrence", "no FREQ"},
		{"twice", Spec{Recurrence: "FREQ=DAILY;BYHOUR=1;BYHOUR=2"}, CodeInvalidRule, "recurrence", "twice"},
		{"COUNT=0", Spec{Recurrence: "FREQ=DAILY;COUNT=0"}, CodeInvalidRule, "recurrence", "from 1"},
		{"COUNT=-5", Spec{Recurrence: "FREQ=DAILY;COUNT=-5"}, CodeInvalidRule, "recurrence", "from 1"},
		{"INTERVAL=0", Spec{Recurrence: "FREQ=DAILY;INTERVAL=0"}, CodeInvalidRule, "recurrence", "from 1"},
		{
			"INTERVAL overflow",
			Spec{Recurrence: "FREQ=HOURLY;INTERVAL=9223372036854775807"},
			CodeInvalidRule,
			"recurrence", "overflows",
		},
		{
			"INTERVAL past 64 bits",
			Spec{Recurrence: "FREQ=HOURLY;INTERVAL=92233720368547758070"},
			CodeInvalidRule,
			"recurrence", "INTERVAL",
		},
		{"WKST with number", Spec{Recurrence: "FREQ=DAILY;WKST=-3MO"}, CodeInvalidRule, "recurrence", "WKST"},
		{"BYSECOND=60", Spec{Recurrence: "FREQ=DAILY;BYSECOND=60"}, CodeInvalidRule, "recurrence", "0 to 59"},
		{"empty list", Spec{Recurrence: "FREQ=DAILY;BYHOUR="}, CodeInvalidRule, "recurrence", "BYHOUR"},
		{
			"DTSTART inside",
			Spec{Recurrence: "FREQ=DAILY;DTSTART=20260101T000000Z"},
			CodeInvalidRule, "recurrence",
			"start",
		},
		{
			"DTSTART line",
			Spec{Recurrence: "RRULE:FREQ=DAILY\nEXDATE:20260101"},
			CodeInvalidRule, "recurrence",
			"exclude",
		},
		{"RSCALE", Spec{Recurrence: "RSCALE=GREGORIAN;FREQ=YEARLY"}, CodeInvalidRule, "recurrence", "RFC 7529"},
		{
			"UNTIL as date",
			Spec{Recurrence: "FREQ=DAILY;UNTIL=20261231"},
			CodeInvalidRule, "recurrence",
			"20261231T235959",
		},
		{"not ASCII", Spec{Recurrence: "FREQ=DAILY;ɐ"}, CodeInvalidRule, "recurrence", "ASCII"},
		{
			"too long",
			Spec{Recurrence: "FREQ=DAILY;BYHOUR=" + strings.Repeat("1,", 300) + "1"},
			CodeInvalidRule,
			"recurrence", "512",
		},
		{"BYSETPOS alone", Spec{Recurrence: "FREQ=DAILY;BYSETPOS=1"}, CodeInvalidRule, "recurrence", "BYSETPOS"},
		{
			"numbered weekly",
			Spec{Recurrence: "FREQ=WEEKLY;BYDAY=2MO"},
			CodeInvalidRule, "recurrence",
			"MONTHLY or YEARLY",
		},
		{
			"tenth Monday of a month",
			Spec{Recurrence: "FREQ=MONTHLY;BYDAY=-10MO"},
			CodeInvalidRule, "recurrence",
			"no more than 5",
		},
		{"BYYEARDAY monthly", Spec{Recurrence: "FREQ=MONTHLY;BYYEARDAY=5"}, CodeInvalidRule, "recurrence", "BYYEARDAY"},
		{"BYWEEKNO monthly", Spec{Recurrence: "FREQ=MONTHLY;BYWEEKNO=5"}, CodeInvalidRule, "recurrence", "BYWEEKNO"},
		{
			"BYMONTHDAY weekly",
			Spec{Recurrence: "FREQ=WEEKLY;BYMONTHDAY=5"},
			CodeInvalidRule, "recurrence",
			"BYMONTHDAY",
		},
		{
			"disputed BYMONTHDAY",
			Spec{Recurrence: "FREQ=YEARLY;BYMONTHDAY=5"},
			CodeDisputedRule, "recurrence",
			"add BYMONTH",
		},
		{
			"disputed BYWEEKNO INTERVAL",
			Spec{Recurrence: "FREQ=YEARLY;INTERVAL=2;BYWEEKNO=5"},
			CodeDisputedRule,
			"recurrence", "INTERVAL",
		},
		{
			"disputed BYWEEKNO BYMONTH",
			Spec{Recurrence: "FREQ=YEARLY;BYWEEKNO=5;BYMONTH=2"},
			CodeDisputedRule,
			"recurrence", "BYMONTH",
		},
		{"disputed BYEASTER", Spec{Recurrence: "FREQ=YEARLY;BYEASTER=1000"}, CodeDisputedRule, "recurrence", "include"},
		{
			"disputed COUNT and UNTIL",
			Spec{Recurrence: "FREQ=DAILY;COUNT=3;UNTIL=20261231T000000Z"},
			CodeDisputedRule,
			"recurrence", "leave one out",
		},
		{
			"disputed COUNT and until",
			Spec{Recurrence: "FREQ=DAILY;COUNT=3", Until: "2026-12-31T00:00:00Z"},
			CodeDisputedRule, "recurrence", "leave one out",
		},
		{"count twice", Spec{Recurrence: "FREQ=DAILY;COUNT=3", Count: 3}, CodeInvalid, "count", "once"},
		{"until as date", Spec{Recurrence: "FREQ=DAILY", Until: "2026-12-31"}, CodeInvalid, "until", "T23:59:59"},
		{"start as date", Spec{Recurrence: "FREQ=DAILY", Start: "2026-12-31"}, CodeInvalid, "start", "T09:00"},
		{"start in words", Spec{Recurrence: "FREQ=DAILY", Start: "tomorrow"}, CodeInvalid, "start", "local date-time"},
		{
			"exclude in words",
			Spec{Recurrence: "FREQ=DAILY", Exclude: []string{"noon"}},
			CodeInvalid, "exclude",
			"local date-time",
		},
		{
			"zone",
			Spec{Recurrence: "FREQ=DAILY", Zone: "America/New York"},
			CodeUnknownZone, "timezone",
			"America/New_York",
		},
		{
			"never",
			Spec{Recurrence: "FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30"},
			CodeNoOccurrences, "recurrence",
			"400 years",
		},
		{
			"never, elapsed",
			Spec{Recurrence: "FREQ=MINUTELY;INTERVAL=60;BYMINUTE=30"},
			CodeNoOccurrences, "recurrence",
			"400 years",
		},
		{
			"never, position",
			Spec{Recurrence: "FREQ=DAILY;BYDAY=TU;BYSETPOS=2"},
			CodeNoOccurrences, "recurrence",
			"BYSETPOS",
		},
		{"empty", Spec{}, CodeInvalidRule, "recurrence", "empty"},
		{"bare cron", Spec{Recurrence: "0 9 * * 1-5"}, CodeInvalidRule, "recurrence", "cron:0 9 * * 1-5"},
		{"bare macro", Spec{Recurrence: "@daily"}, CodeInvalidRule, "recurrence", "cron:@daily"},
		{"cron seconds", Spec{Recurrence: "cron:0 0 9 * * 1"}, CodeInvalidRule, "recurrence", "6 fields"},
		{"cron zone", Spec{Recurrence: "cron:CRON_TZ=UTC 0 9 * * 1"}, CodeInvalidRule, "recurrence", "timezone"},
		{"cron four fields", Spec{Recurrence: "cron:0 9 * *"}, CodeInvalidRule, "recurrence", "4 fields"},
		{"cron minute 60", Spec{Recurrence: "cron:60 9 * * *"}, CodeInvalidRule, "recurrence", "0-59"},
		{"cron weekday 8", Spec{Recurrence: "cron:0 9 * * 8"}, CodeInvalidRule, "recurrence", "0-7"},
		{"cron day 0", Spec{Recurrence: "cron:0 9 0 * *"}, CodeInvalidRule, "recurrence", "1-31"},
		{"cron step 0", Spec{Recurrence: "cron:*/0 9 * * *"}, CodeInvalidRule, "recurrence", "step"},
		{"cron backwards", Spec{Recurrence: "cron:0 22-2 * * *"}, CodeInvalidRule, "recurrence", "backwards"},
		{"cron name", Spec{Recurrence: "cron:0 9 * * monday"}, CodeInvalidRule, "recurrence", "did you mean MON?"},
		{"cron #6", Spec{Recurrence: "cron:0 9 * * 1#6"}, CodeInvalidRule, "recurrence", "1 to 5"},
		{"cron @reboot", Spec{Recurrence: "cron:@reboot"}, CodeInvalidRule, "recurrence", "instants"},
		{"cron @every", Spec{Recurrence: "cron:@every 15m"}, CodeInvalidRule, "recurrence", "every:15m"},
		{"cron macro", Spec{Recurrence: "cron:@dayly"}, CodeInvalidRule, "recurrence", "did you mean @daily?"},
		{"cron never", Spec{Recurrence: "cron:0 0 31 2 *"}, CodeNoOccurrences, "recurrence", "400 years"},
		{"every nothing", Spec{Recurrence: "every:0s"}, CodeInvalidRule, "recurrence", "no length"},
		{"every month", Spec{Recurrence: "every:1mo"}, CodeInvalidRule, "recurrence", "months"},
		{"period", Spec{Recurrence: "every:59s"}, CodePeriodTooShort, "recurrence", "1m"},
		{
			"period of cron",
			Spec{Recurrence: "cron:* * * * *", Limits: Limits{MinPeriod: 2 * time.Minute}},
			CodePeriodTooShort, "recurrence", "2m",
		},
		{"period within a day", Spec{Recurrence: "FREQ=DAILY;BYSECOND=0,30"}, CodePeriodTooShort, "recurrence", "30s"},
		{"INTERVAL limit", Spec{Recurrence: "FREQ=DAILY;INTERVAL=10001"}, CodeInvalidRule, "recurrence", "10000"},
		{"COUNT limit", Spec{Recurrence: "FREQ=DAILY;COUNT=100001"}, CodeInvalidRule, "recurrence", "100000"},
		{
			"horizon",
			Spec{Recurrence: "FREQ=DAILY", Start: "2080-01-01T00:00"},
			CodeBeyondHorizon, "recurrence",
			"100 years",
		},
		{"too many dates", Spec{Recurrence: "FREQ=DAILY", Exclude: make([]string, 513)}, CodeInvalid, "include", "512"},
		{
			"calendars on",
			Spec{Recurrence: "FREQ=DAILY", Calendars: &CalendarRule{On: "move"}},
			CodeInvalid, "calendars",
			"skip",
		},
		{
			"calendars with every",
			Spec{Recurrence: "every:15m", Calendars: &CalendarRule{On: OnNext}},
			CodeInvalid,
			"calendars", "skip",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.spec.Zone == "" {
				c.spec.Zone = "Europe/Berlin"
			}
			_, err := Compile(Embedded(), c.spec)
			wantError(t, c.name, err, c.code, c.fld, c.msg)
		})
	}
}

// TestAccepted: spellings that must be read.
func TestAccepted(t *testing.T) {
	for _, rule := range []string{
		"FREQ=DAILY", "RRULE:FREQ=DAILY", "rrule:freq=daily;interval=2", " FREQ=DAILY; INTERVAL=2 ", "FREQ=DAILY;",
		"INTERVAL=2;FREQ=DAILY",
		"FREQ=MONTHLY;BYDAY=+1MO", "FREQ=YEARLY;BYDAY=53MO", "FREQ=YEARLY;BYDAY=-53MO",
		"FREQ=DAILY;UNTIL=2056-12-31T00:00:00Z", "RRULE:FREQ=DAILY\r\n",
		"cron:@DAILY", "CRON:0 9 * * *", "cron: 0 9 ? * MON", "every:PT15M", "EVERY:15m", "every:900",
		"cron:*/5,7 * * * *", "cron:0 0 1,L * *",
		"FREQ=DAILY;INTERVAL=10000", "FREQ=DAILY;COUNT=100000", "every:1m", "cron:* * * * *", // as far as limits go
	} {
		if _, err := Compile(Embedded(), Spec{Recurrence: rule, Start: "2026-11-20T09:00"}); err != nil {
			t.Errorf("%s: %v", rule, err)
		}
	}
}
