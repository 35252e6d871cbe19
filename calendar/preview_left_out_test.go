package calendar

import (
	"fmt"
	"slices"
	"testing"
)

// What dst.gap "skip" leaves out stands in its place among what fires.
func TestPreviewRows(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       []string
	}{
		{
			"a daily rule",
			`{"recurrence":"FREQ=DAILY","start":"2026-03-07T02:30","timezone":"America/New_York","dst":{"gap":"skip"},"after":"2026-03-06T00:00","n":2}`,
			[]string{
				"2026-03-07T02:30:00 -05:00 2026-03-07T07:30:00Z ",
				"2026-03-08T02:30:00   gap: skipped, clocks jump from 02:00 to 03:00",
				"2026-03-09T02:30:00 -04:00 2026-03-09T06:30:00Z ",
			},
		},
		{
			"shifted by default",
			`{"recurrence":"FREQ=DAILY","start":"2026-03-08T02:30","timezone":"America/New_York","after":"2026-03-07T00:00","n":1}`,
			[]string{
				"2026-03-08T03:30:00 -04:00 2026-03-08T07:30:00Z gap: shifted 1h",
			},
		},
		{
			"one that another hides when shifted",
			`{"recurrence":"cron:30 2,3 * * *","timezone":"America/New_York","dst":{"gap":"skip"},"after":"2026-03-08T00:00","n":1}`,
			[]string{
				"2026-03-08T02:30:00   gap: skipped, clocks jump from 02:00 to 03:00",
				"2026-03-08T03:30:00 -04:00 2026-03-08T07:30:00Z ",
			},
		},
		{
			"a year apart",
			`{"recurrence":"FREQ=YEARLY;COUNT=3","start":"2025-03-08T02:30","timezone":"America/New_York","dst":{"gap":"skip"},"after":"2025-01-01T00:00"}`,
			[]string{
				"2025-03-08T02:30:00 -05:00 2025-03-08T07:30:00Z ",
				"2026-03-08T02:30:00   gap: skipped, clocks jump from 02:00 to 03:00",
				"2027-03-08T02:30:00 -05:00 2027-03-08T07:30:00Z ",
			},
		},
		{
			"the last one",
			`{"recurrence":"FREQ=DAILY;COUNT=2","start":"2026-03-07T02:30","timezone":"America/New_York","dst":{"gap":"skip"},"after":"2026-03-06T00:00"}`,
			[]string{
				"2026-03-07T02:30:00 -05:00 2026-03-07T07:30:00Z ",
				"2026-03-08T02:30:00   gap: skipped, clocks jump from 02:00 to 03:00",
			},
		},
		{
			"a lost day",
			`{"recurrence":"FREQ=DAILY;COUNT=3","start":"2011-12-29T09:00","timezone":"Pacific/Apia","dst":{"gap":"skip"},"after":"2011-12-01T00:00"}`,
			[]string{
				"2011-12-29T09:00:00 -10:00 2011-12-29T19:00:00Z ",
				"2011-12-30T09:00:00   gap: skipped, clocks jump from 2011-12-30T00:00 to 2011-12-31T00:00",
				"2011-12-31T09:00:00 +14:00 2011-12-30T19:00:00Z ",
			},
		},
		{
			"excluded, so nobody misses it",
			`{"recurrence":"FREQ=DAILY;COUNT=3","start":"2026-03-07T02:30","exclude":["2026-03-08"],"timezone":"America/New_York","dst":{"gap":"skip"},"after":"2026-03-06T00:00"}`,
			[]string{
				"2026-03-07T02:30:00 -05:00 2026-03-07T07:30:00Z ",
				"2026-03-09T02:30:00 -04:00 2026-03-09T06:30:00Z ",
			},
		},
		{
			"elapsed time knows no gap",
			`{"recurrence":"every:24h","start":"2026-03-07T02:30","timezone":"America/New_York","dst":{"gap":"skip"},"after":"2026-03-06T00:00","n":2}`,
			[]string{
				"2026-03-07T02:30:00 -05:00 2026-03-07T07:30:00Z ",
				"2026-03-08T03:30:00 -04:00 2026-03-08T07:30:00Z ",
			},
		},
		{
			"UTC", `{"fire_at":"2026-11-20T14:00:00.123Z"}`,
			[]string{"2026-11-20T14:00:00.123 +00:00 2026-11-20T14:00:00.123Z "},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, e := Preview(Embedded(), []byte(c.body), now)
			if e != nil {
				t.Fatal(e)
			}
			rows, err := resp.Rows()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range rows {
				got = append(got, fmt.Sprintf("%s %s %s %s", r.Local, r.Offset, r.UTC, r.Note))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("\n got %q\nwant %q", got, c.want)
			}
		})
	}
}

// Looking for gaps up to the year 9999 ends, whatever zone it is.
func TestLeftOutEnds(t *testing.T) {
	for _, zone := range []string{"America/New_York", "Asia/Tokyo", "UTC", "Africa/Casablanca", "Australia/Lord_Howe"} {
		resp, e := Preview(Embedded(),
			[]byte(`{"recurrence":"FREQ=YEARLY;UNTIL=20300101T000000Z","start":"2026-03-08T02:30","timezone":"`+zone+`","dst":{"gap":"skip"}}`), now)
		if e != nil {
			t.Fatal(e)
		}
		if _, err := resp.Rows(); err != nil {
			t.Error(zone, err)
		}
	}
}
