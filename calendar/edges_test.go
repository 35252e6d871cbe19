package calendar

import (
	"strings"
	"testing"
)

// TestEdges are the places where others went wrong (docs/coming-from.md),
// by name. Expected instants by hand from the zones' rules.
func TestEdges(t *testing.T) {
	for _, c := range []struct {
		name, rule, start, zone string
		dst                     DST
		after                   string
		want                    string // instants, or instant=ID where the name matters
	}{
		{
			"NY gap fires shifted", "FREQ=DAILY", "2026-03-07T02:30", "America/New_York",
			DST{},
			"",
			"2026-03-07T07:30:00Z 2026-03-08T07:30:00Z=2026-03-08T02:30:00 2026-03-09T06:30:00Z",
		},
		{
			"NY gap skipped", "FREQ=DAILY", "2026-03-07T02:30", "America/New_York",
			DST{Gap: GapSkip},
			"",
			"2026-03-07T07:30:00Z 2026-03-09T06:30:00Z",
		},
		{
			"NY overlap first pass", "FREQ=DAILY", "2026-11-01T01:30", "America/New_York",
			DST{},
			"",
			"2026-11-01T05:30:00Z=2026-11-01T01:30:00 2026-11-02T06:30:00Z",
		},
		{
			"NY overlap second pass", "FREQ=DAILY", "2026-11-01T01:30", "America/New_York",
			DST{Overlap: OverlapSecond},
			"",
			"2026-11-01T06:30:00Z=2026-11-01T01:30:00+f1 2026-11-02T06:30:00Z",
		},
		{
			"NY overlap both passes", "FREQ=DAILY;BYMINUTE=0,30", "2026-11-01T01:00", "America/New_York",
			DST{Overlap: OverlapBoth},
			"",
			"2026-11-01T05:00:00Z 2026-11-01T05:30:00Z 2026-11-01T06:00:00Z=2026-11-01T01:00:00+f1 " +
				"2026-11-01T06:30:00Z=2026-11-01T01:30:00+f1 2026-11-02T06:00:00Z",
		},
		{
			"London overlap is the first pass east too", "FREQ=DAILY", "2026-10-25T01:30", "Europe/London",
			DST{},
			"",
			"2026-10-25T00:30:00Z 2026-10-26T01:30:00Z",
		},
		{
			"two wall times collapse under the later name", "FREQ=DAILY;BYHOUR=2,3", "2026-03-08T02:30",
			"America/New_York",
			DST{},
			"",
			"2026-03-08T07:30:00Z=2026-03-08T03:30:00 2026-03-09T06:30:00Z",
		},
		{
			"COUNT counts what collapses", "FREQ=DAILY;BYHOUR=2,3;COUNT=3", "2026-03-08T02:30", "America/New_York",
			DST{},
			"",
			"2026-03-08T07:30:00Z 2026-03-09T06:30:00Z end",
		},
		{
			"order around a gap", "FREQ=DAILY;BYHOUR=2,3;BYMINUTE=0,45", "2026-03-08T02:00", "America/New_York",
			DST{},
			"",
			"2026-03-08T07:00:00Z=2026-03-08T03:00:00 2026-03-08T07:45:00Z=2026-03-08T03:45:00 2026-03-09T06:00:00Z",
		},
		{
			"Lord Howe gap of half an hour", "FREQ=DAILY", "2026-10-03T02:15", "Australia/Lord_Howe",
			DST{},
			"",
			"2026-10-02T15:45:00Z 2026-10-03T15:45:00Z 2026-10-04T15:15:00Z",
		},
		{
			"Lord Howe overlap of half an hour", "FREQ=DAILY", "2026-04-05T01:45", "Australia/Lord_Howe",
			DST{Overlap: OverlapBoth},
			"",
			"2026-04-04T14:45:00Z 2026-04-04T15:15:00Z=2026-04-05T01:45:00+f1 2026-04-05T15:15:00Z",
		},
		{
			"Apia has no 30 December 2011", "FREQ=DAILY", "2011-12-29T09:00", "Pacific/Apia",
			DST{},
			"",
			"2011-12-29T19:00:00Z 2011-12-30T19:00:00Z=2011-12-31T09:00:00 2011-12-31T19:00:00Z",
		},
		{
			"Apia, skipping", "FREQ=DAILY", "2011-12-29T09:00", "Pacific/Apia",
			DST{Gap: GapSkip},
			"",
			"2011-12-29T19:00:00Z 2011-12-30T19:00:00Z=2011-12-31T09:00:00",
		},
		{
			"Havana midnight gap loses no day", "FREQ=DAILY", "2026-03-07T09:00", "America/Havana",
			DST{},
			"",
			"2026-03-07T14:00:00Z 2026-03-08T13:00:00Z 2026-03-09T13:00:00Z",
		},
		{
			"Havana midnight itself", "FREQ=DAILY", "2026-03-07T00:00", "America/Havana",
			DST{},
			"",
			"2026-03-07T05:00:00Z 2026-03-08T05:00:00Z=2026-03-08T00:00:00 2026-03-09T04:00:00Z",
		},
		{
			"Azores midnight gap", "FREQ=DAILY", "2026-03-28T09:00", "Atlantic/Azores",
			DST{},
			"",
			"2026-03-28T10:00:00Z 2026-03-29T09:00:00Z 2026-03-30T09:00:00Z",
		},
		{
			"Santiago midnight gap", "FREQ=DAILY", "2026-09-05T00:30", "America/Santiago",
			DST{},
			"",
			"2026-09-05T04:30:00Z 2026-09-06T04:30:00Z 2026-09-07T03:30:00Z",
		},
		{
			"Casablanca pauses its time in Ramadan", "FREQ=DAILY", "2026-02-14T02:30", "Africa/Casablanca",
			DST{},
			"",
			"2026-02-14T01:30:00Z 2026-02-15T01:30:00Z 2026-02-16T02:30:00Z",
		},
		{
			"Dublin has negative summer time", "FREQ=DAILY", "2026-03-28T01:30", "Europe/Dublin",
			DST{},
			"",
			"2026-03-28T01:30:00Z 2026-03-29T01:30:00Z 2026-03-30T00:30:00Z",
		},
		{
			"Troll jumps two hours", "FREQ=DAILY", "2026-03-28T02:30", "Antarctica/Troll",
			DST{},
			"",
			"2026-03-28T02:30:00Z 2026-03-29T02:30:00Z 2026-03-30T00:30:00Z",
		},
		{
			"31 December of a leap year", "FREQ=DAILY", "2028-12-30T23:30", "America/New_York",
			DST{},
			"",
			"2028-12-31T04:30:00Z 2029-01-01T04:30:00Z 2029-01-02T04:30:00Z",
		},
		{
			"hourly runs through both passes", "FREQ=HOURLY", "2026-11-01T00:30", "America/New_York",
			DST{},
			"",
			"2026-11-01T04:30:00Z 2026-11-01T05:30:00Z 2026-11-01T06:30:00Z " +
				"2026-11-01T07:30:00Z=2026-11-01T07:30:00.000Z",
		},
		{
			"hourly runs over a gap", "FREQ=HOURLY", "2026-03-08T01:30", "America/New_York",
			DST{},
			"",
			"2026-03-08T06:30:00Z 2026-03-08T07:30:00Z 2026-03-08T08:30:00Z",
		},
		{
			"six hours drift, as elapsed time does", "FREQ=HOURLY;INTERVAL=6", "2026-03-08T00:00", "America/New_York",
			DST{},
			"",
			"2026-03-08T05:00:00Z 2026-03-08T11:00:00Z 2026-03-08T17:00:00Z",
		},
		{
			"hourly with BYHOUR reads local time", "FREQ=HOURLY;BYHOUR=1", "2026-10-31T00:30", "America/New_York",
			DST{},
			"",
			"2026-10-31T05:30:00Z 2026-11-01T05:30:00Z 2026-11-01T06:30:00Z 2026-11-02T06:30:00Z",
		},
		{"Feb 29", "FREQ=YEARLY", "2096-02-29T09:00", "UTC", DST{}, "", "2096-02-29T09:00:00Z 2104-02-29T09:00:00Z"},
		{
			"the 31st skips short months", "FREQ=MONTHLY", "2026-01-31T09:00", "UTC",
			DST{},
			"",
			"2026-01-31T09:00:00Z 2026-03-31T09:00:00Z 2026-05-31T09:00:00Z",
		},
		{
			"plain beside numbered BYDAY is OR (D9)", "FREQ=MONTHLY;BYDAY=MO,1SU", "2026-11-01T09:00", "UTC",
			DST{},
			"",
			"2026-11-01T09:00:00Z 2026-11-02T09:00:00Z 2026-11-09T09:00:00Z",
		},
		{
			"BYWEEKNO takes the start's weekday (D10)", "FREQ=YEARLY;BYWEEKNO=20", "2026-05-13T09:00", "UTC",
			DST{},
			"",
			"2026-05-13T09:00:00Z 2027-05-19T09:00:00Z",
		},
		{
			"week 53 of the year before (D11)", "FREQ=YEARLY;BYWEEKNO=53;BYDAY=SA", "2020-12-01T09:00", "UTC",
			DST{},
			"",
			"2021-01-02T09:00:00Z 2027-01-02T09:00:00Z",
		},
		{
			"BYSETPOS over the whole first week (D12)", "FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=1", "2026-11-18T09:00",
			"UTC",
			DST{},
			"", "2026-11-23T09:00:00Z 2026-11-30T09:00:00Z",
		},
		{
			"duplicates do not use up COUNT (D13)", "FREQ=DAILY;BYHOUR=9,9,9;COUNT=2", "2026-11-18T09:00", "UTC",
			DST{},
			"", "2026-11-18T09:00:00Z 2026-11-19T09:00:00Z end",
		},
		{
			"start does not fire unless the rule yields it (D17)", "FREQ=DAILY;BYHOUR=10", "2026-11-18T09:00", "UTC",
			DST{},
			"", "2026-11-18T10:00:00Z",
		},
		{
			"UNTIL is inclusive", "FREQ=DAILY;UNTIL=20261119T090000", "2026-11-18T09:00", "Europe/Berlin",
			DST{},
			"",
			"2026-11-18T08:00:00Z 2026-11-19T08:00:00Z end",
		},
		{
			"UNTIL with Z is an instant", "FREQ=DAILY;UNTIL=20261119T075959Z", "2026-11-18T09:00", "Europe/Berlin",
			DST{},
			"", "2026-11-18T08:00:00Z end",
		},
		{
			"milliseconds of a start are kept", "FREQ=DAILY", "2026-11-18T09:00:00.250", "UTC",
			DST{},
			"",
			"2026-11-18T09:00:00.250Z=2026-11-18T09:00:00.250 2026-11-19T09:00:00.250Z",
		},
		{
			"a start may be an instant", "FREQ=DAILY", "2026-11-18T09:00:00+01:00", "Europe/Berlin",
			DST{},
			"",
			"2026-11-18T08:00:00Z=2026-11-18T09:00:00 2026-11-19T08:00:00Z",
		},
		{
			"a start in the second pass", "FREQ=DAILY", "2026-11-01T06:30:00Z", "America/New_York",
			DST{},
			"",
			"2026-11-02T06:30:00Z 2026-11-03T06:30:00Z",
		},
		{
			"every fires at the start", "every:15m", "2026-11-18T09:00", "Europe/Berlin",
			DST{},
			"",
			"2026-11-18T08:00:00Z=2026-11-18T08:00:00.000Z 2026-11-18T08:15:00Z",
		},
		{
			"every day is 24 hours", "every:1d", "2026-03-07T09:00", "America/New_York",
			DST{},
			"",
			"2026-03-07T14:00:00Z 2026-03-08T14:00:00Z",
		},
		{
			"cron NY gap shifted", "cron:30 2 * * *", "", "America/New_York",
			DST{},
			"2026-03-07T12:00:00Z",
			"2026-03-08T07:30:00Z=2026-03-08T02:30:00 2026-03-09T06:30:00Z",
		},
		{
			"cron NY overlap once", "cron:30 1 * * *", "", "America/New_York",
			DST{},
			"2026-10-31T12:00:00Z",
			"2026-11-01T05:30:00Z 2026-11-02T06:30:00Z",
		},
		{
			"cron London overlap first", "cron:30 1 * * *", "", "Europe/London",
			DST{},
			"2026-10-24T12:00:00Z",
			"2026-10-25T00:30:00Z 2026-10-26T01:30:00Z",
		},
		{
			"cron Santiago midnight gap", "cron:0 0 * * *", "", "America/Santiago",
			DST{},
			"2026-09-05T12:00:00Z",
			"2026-09-06T04:00:00Z 2026-09-07T03:00:00Z",
		},
		{
			"cron Beirut gap", "cron:30 0 * * *", "", "Asia/Beirut",
			DST{},
			"2026-03-28T12:00:00Z",
			"2026-03-28T22:30:00Z 2026-03-29T21:30:00Z",
		},
		{
			"cron Lord Howe gap", "cron:15 2 * * *", "", "Australia/Lord_Howe",
			DST{},
			"2026-10-03T00:00:00Z",
			"2026-10-03T15:45:00Z 2026-10-04T15:15:00Z",
		},
		{
			"cron */30 runs through both passes", "cron:*/30 * * * *", "", "America/New_York",
			DST{},
			"2026-11-01T05:00:00Z",
			"2026-11-01T05:30:00Z=2026-11-01T01:30:00 2026-11-01T06:00:00Z=2026-11-01T01:00:00+f1 " +
				"2026-11-01T06:30:00Z=2026-11-01T01:30:00+f1 2026-11-01T07:00:00Z",
		},
		{
			"cron hour with * in a gap", "cron:30 */2 * * *", "", "America/New_York",
			DST{},
			"2026-03-08T05:00:00Z",
			"2026-03-08T05:30:00Z 2026-03-08T08:30:00Z",
		},
		{
			"cron list of minutes stays fixed", "cron:0,30 2 * * *", "", "America/New_York",
			DST{},
			"2026-03-07T12:00:00Z",
			"2026-03-08T07:00:00Z 2026-03-08T07:30:00Z 2026-03-09T06:00:00Z",
		},
		{"cron Feb 29 after 2096", "cron:0 9 29 2 *", "", "UTC", DST{}, "2096-03-01T00:00:00Z", "2104-02-29T09:00:00Z"},
		{
			"cron day of month or day of week", "cron:0 9 13 * 5", "", "UTC",
			DST{},
			"2026-11-01T00:00:00Z",
			"2026-11-06T09:00:00Z 2026-11-13T09:00:00Z 2026-11-20T09:00:00Z 2026-11-27T09:00:00Z " +
				"2026-12-04T09:00:00Z 2026-12-11T09:00:00Z 2026-12-13T09:00:00Z",
		},
		{
			"cron */2 counts as *", "cron:0 9 */2 * 1", "", "UTC",
			DST{},
			"2026-11-01T00:00:00Z",
			"2026-11-09T09:00:00Z 2026-11-23T09:00:00Z",
		},
		{
			"cron 5-7 is Friday to Sunday", "cron:0 9 * * 5-7", "", "UTC",
			DST{},
			"2026-11-19T12:00:00Z",
			"2026-11-20T09:00:00Z 2026-11-21T09:00:00Z 2026-11-22T09:00:00Z 2026-11-27T09:00:00Z",
		},
		{
			"cron 7/2 is Sunday", "cron:0 9 * * 7/2", "", "UTC",
			DST{},
			"2026-11-20T00:00:00Z",
			"2026-11-22T09:00:00Z 2026-11-29T09:00:00Z",
		},
		{
			"cron L", "cron:0 9 L 2 *", "", "UTC",
			DST{},
			"2027-01-01T00:00:00Z",
			"2027-02-28T09:00:00Z 2028-02-29T09:00:00Z",
		},
		{
			"cron LW", "cron:0 9 LW * *", "", "UTC",
			DST{},
			"2026-01-01T00:00:00Z",
			"2026-01-30T09:00:00Z 2026-02-27T09:00:00Z 2026-03-31T09:00:00Z",
		},
		{
			"cron 1W on a Saturday stays in its month", "cron:0 9 1W * *", "", "UTC",
			DST{},
			"2026-07-15T00:00:00Z",
			"2026-08-03T09:00:00Z 2026-09-01T09:00:00Z",
		},
		{
			"cron 31W on a Sunday stays in its month", "cron:0 9 31W 5 *", "", "UTC",
			DST{},
			"2026-01-01T00:00:00Z",
			"2026-05-29T09:00:00Z",
		},
		{
			"cron second Friday", "cron:0 9 * * FRI#2", "", "UTC",
			DST{},
			"2026-11-01T00:00:00Z",
			"2026-11-13T09:00:00Z 2026-12-11T09:00:00Z",
		},
		{
			"cron last Sunday, as 7", "cron:0 9 * * 7L", "", "UTC",
			DST{},
			"2026-11-01T00:00:00Z",
			"2026-11-29T09:00:00Z 2026-12-27T09:00:00Z",
		},
		{
			"cron names in any case, tabs, leading zeros", "cron:\t05  09 * jan-MAR\tSat,sun ", "", "UTC",
			DST{},
			"2027-01-01T00:00:00Z", "2027-01-02T09:05:00Z 2027-01-03T09:05:00Z",
		},
		{
			"cron 6-0 is Saturday and Sunday", "cron:0 9 * * 6-0", "", "UTC",
			DST{},
			"2026-11-20T00:00:00Z",
			"2026-11-21T09:00:00Z 2026-11-22T09:00:00Z 2026-11-28T09:00:00Z",
		},
		{
			"cron 0-0 is Sunday", "cron:0 9 * * 0-0", "", "UTC",
			DST{},
			"2026-11-20T00:00:00Z",
			"2026-11-22T09:00:00Z 2026-11-29T09:00:00Z",
		},
		{
			"cron sat-sun", "cron:0 9 * * sat-sun", "", "UTC",
			DST{},
			"2026-11-20T00:00:00Z",
			"2026-11-21T09:00:00Z 2026-11-22T09:00:00Z 2026-11-28T09:00:00Z",
		},
		{
			"cron 5/15 is 5-59/15", "cron:5/15 9 * * *", "", "UTC",
			DST{},
			"2026-11-20T00:00:00Z",
			"2026-11-20T09:05:00Z 2026-11-20T09:20:00Z 2026-11-20T09:35:00Z 2026-11-20T09:50:00Z 2026-11-21T09:05:00Z",
		},
		{
			"cron step past the end", "cron:*/90 9 * * *", "", "UTC",
			DST{},
			"2026-11-20T00:00:00Z",
			"2026-11-20T09:00:00Z 2026-11-21T09:00:00Z",
		},
		{
			"cron @weekly", "cron:@weekly", "", "UTC",
			DST{},
			"2026-11-20T00:00:00Z",
			"2026-11-22T00:00:00Z 2026-11-29T00:00:00Z",
		},
		{
			"cron @hourly in an overlap", "cron:@hourly", "", "America/New_York",
			DST{},
			"2026-11-01T04:30:00Z",
			"2026-11-01T05:00:00Z 2026-11-01T06:00:00Z=2026-11-01T01:00:00+f1 2026-11-01T07:00:00Z",
		},
		{
			"a start in a gap does not take the rest of its hour", "cron:*/15 * * * *", "2026-03-08T02:30",
			"America/New_York",
			DST{},
			"",
			"2026-03-08T07:00:00Z=2026-03-08T03:00:00 2026-03-08T07:15:00Z",
		},
		{
			"until a time of the overlap includes its second pass",
			"FREQ=HOURLY;BYMINUTE=0,30,45;UNTIL=20261101T014500", "2026-11-01T00:30", "America/New_York",
			DST{},
			"2026-11-01T05:45:00Z",
			"2026-11-01T06:00:00Z 2026-11-01T06:30:00Z 2026-11-01T06:45:00Z end",
		},
		{
			"until in UTC includes its instant", "FREQ=DAILY;UNTIL=20261102T140000Z", "2026-11-01T09:00",
			"America/New_York",
			DST{},
			"",
			"2026-11-01T14:00:00Z 2026-11-02T14:00:00Z end",
		},
		{
			"last years of the calendar", "FREQ=YEARLY", "9998-12-31T23:00", "UTC",
			DST{},
			"",
			"9998-12-31T23:00:00Z 9999-12-31T23:00:00Z end",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Spec{Recurrence: c.rule, Start: c.start, Zone: c.zone, DST: c.dst, Limits: Limits{}.Preview()}
			after := int64(minInstant)
			if c.after != "" {
				after, _ = ParseInstant(c.after)
				s.Append = after
			}
			checkOccurrences(t, mustCompile(t, s), after, c.want)
		})
	}
}

// checkOccurrences compares what follows an instant with "instant", or
// "instant=ID"; "end" means that nothing follows.
func checkOccurrences(t *testing.T, r *Rule, after int64, want string) {
	t.Helper()
	for _, w := range strings.Fields(want) {
		o, ok, err := r.Next(after)
		if err != nil {
			t.Fatal(err)
		}
		at, id, named := strings.Cut(w, "=")
		switch {
		case w == "end":
			if ok {
				t.Fatalf("got %s, want the end", utcString(o.At))
			}
		case !ok:
			t.Fatalf("ended, want %s", at)
		case utcString(o.At) != at:
			t.Fatalf("got %s (%s), want %s", utcString(o.At), o.ID(), at)
		case named && o.ID() != id:
			t.Fatalf("%s is called %s, want %s", at, o.ID(), id)
		}
		after = o.At
	}
}
