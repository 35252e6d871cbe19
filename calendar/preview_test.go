package calendar

import (
	"encoding/json"
	"testing"
)

func TestPreview(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{
			"the contract's example", `{"fire_at":"2026-03-08T02:30","timezone":"America/New_York"}`,
			`{"occurrences":[{"at":"2026-03-08T07:30:00Z","local":"2026-03-08T03:30:00-04:00","note":"gap: shifted 1h"}]}`,
		},
		{
			"id comes back as it was", `{"id":{"x":1},"fire_at":1795183200}`,
			`{"id":{"x":1},"occurrences":[{"at":"2026-11-20T14:00:00Z","local":"2026-11-20T14:00:00Z"}]}`,
		},
		{
			"past times are fine", `{"fire_at":"1999-01-01T00:00:00Z"}`,
			`{"occurrences":[{"at":"1999-01-01T00:00:00Z","local":"1999-01-01T00:00:00Z"}]}`,
		},
		{
			"after is exclusive", `{"fire_at":"1999-01-01T00:00:00Z","after":"1999-01-01T00:00:00Z"}`,
			`{"occurrences":[]}`,
		},
		{
			"13 digits", `{"fire_at":1795183200123}`,
			`{"occurrences":[{"at":"2026-11-20T14:00:00.123Z","local":"2026-11-20T14:00:00.123Z"}]}`,
		},
		{
			"delay from after", `{"delay":"7m","after":"2026-11-20T14:00:00Z"}`,
			`{"occurrences":[{"at":"2026-11-20T14:07:00Z","local":"2026-11-20T14:07:00Z"}]}`,
		},
		{
			"delay as a number with an exponent", `{"delay":4.2e2,"after":"2026-11-20T14:00:00Z"}`,
			`{"occurrences":[{"at":"2026-11-20T14:07:00Z","local":"2026-11-20T14:07:00Z"}]}`,
		},
		{
			"delay as a number", `{"delay":420,"after":"2026-11-20T14:00:00Z","timezone":"Asia/Tokyo"}`,
			`{"occurrences":[{"at":"2026-11-20T14:07:00Z","local":"2026-11-20T23:07:00+09:00"}]}`,
		},
		{
			"every from after", `{"recurrence":"every:15m","after":"2026-11-20T14:00:00Z","n":2}`,
			`{"occurrences":[{"at":"2026-11-20T14:15:00Z","local":"2026-11-20T14:15:00Z"},{"at":"2026-11-20T14:30:00Z","local":"2026-11-20T14:30:00Z"}]}`,
		},
		{
			"no shortest period, INTERVAL or horizon",
			`{"recurrence":"FREQ=SECONDLY;INTERVAL=90061","start":"2500-01-01T00:00","n":1}`,
			`{"occurrences":[{"at":"2500-01-01T00:00:00Z","local":"2500-01-01T00:00:00Z"}]}`,
		},
		{
			"no bound on COUNT", `{"recurrence":"FREQ=DAILY;COUNT=2147483648","start":"2027-01-01T00:00","n":1}`,
			`{"occurrences":[{"at":"2027-01-01T00:00:00Z","local":"2027-01-01T00:00:00Z"}]}`,
		},
		{
			"no bound on COUNT, elapsed",
			`{"recurrence":"FREQ=MINUTELY;BYHOUR=9;COUNT=999999","start":"2027-01-01T09:00","n":1}`,
			`{"occurrences":[{"at":"2027-01-01T09:00:00Z","local":"2027-01-01T09:00:00Z"}]}`,
		},
		{"has ended", `{"recurrence":"FREQ=DAILY;COUNT=3","start":"2020-01-01T09:00"}`, `{"occurrences":[]}`},
		{
			"fire_at beside recurrence is the start",
			`{"recurrence":"FREQ=DAILY","fire_at":"2027-01-01T09:00","timezone":"Europe/Berlin","n":1}`,
			`{"occurrences":[{"at":"2027-01-01T08:00:00Z","local":"2027-01-01T09:00:00+01:00"}]}`,
		},
		{
			"dst", `{"recurrence":"FREQ=DAILY","start":"2026-11-01T01:30","timezone":"America/New_York","dst":{"overlap":"both"},"after":"2026-10-31T23:00","n":2}`,
			`{"occurrences":[{"at":"2026-11-01T05:30:00Z","local":"2026-11-01T01:30:00-04:00","note":"overlap: first pass"},{"at":"2026-11-01T06:30:00Z","local":"2026-11-01T01:30:00-05:00","note":"overlap: second pass"}]}`,
		},
		{
			"include alone", `{"include":["2027-01-01T09:00"],"timezone":"Europe/Berlin"}`,
			`{"occurrences":[{"at":"2027-01-01T08:00:00Z","local":"2027-01-01T09:00:00+01:00"}]}`,
		},
		{
			"count and until as fields", `{"recurrence":"FREQ=DAILY","start":"2027-01-01T09:00","count":1}`,
			`{"occurrences":[{"at":"2027-01-01T09:00:00Z","local":"2027-01-01T09:00:00Z"}]}`,
		},
		{
			"null is absent", `{"recurrence":"FREQ=DAILY","start":"2027-01-01T09:00","timezone":null,"n":1}`,
			`{"occurrences":[{"at":"2027-01-01T09:00:00Z","local":"2027-01-01T09:00:00Z"}]}`,
		},
		{"default n", `{"recurrence":"FREQ=DAILY;COUNT=11","start":"2027-01-01T09:00","until":null}`, "10"},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, e := Preview(Embedded(), []byte(c.body), now)
			if e != nil {
				t.Fatal(e)
			}
			got, err := json.Marshal(resp)
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "10" {
				if len(resp.Occurrences) != 10 {
					t.Errorf("%d occurrences", len(resp.Occurrences))
				}
			} else if string(got) != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestPreviewRefusals(t *testing.T) {
	for _, c := range []struct {
		name, body string
		code       Code
		field, msg string
	}{
		{"not JSON", `{`, CodeInvalid, "", "JSON"},
		{"microseconds by name", `{"fire_at":1900000000000000}`, CodeInvalid, "fire_at", "microseconds"},
		{"nanoseconds by name", `{"fire_at":"1900000000000000000"}`, CodeInvalid, "fire_at", "nanoseconds"},
		{"not an object", `[]`, CodeInvalid, "", "object"},
		{"two objects", `{"delay":"7m"}{}`, CodeInvalid, "", "text after"},
		{"unknown field", `{"recurence":"FREQ=DAILY"}`, CodeUnknownField, "recurence", "did you mean recurrence?"},
		{"case counts", `{"Delay":"7m"}`, CodeUnknownField, "Delay", "did you mean delay?"},
		{"twice", `{"delay":"7m","delay":"8m"}`, CodeInvalid, "delay", "twice"},
		{"nothing", `{"id":"x"}`, CodeConflictingTime, "recurrence", "the time is missing"},
		{"two wishes", `{"delay":"7m","fire_at":"2027-01-01T00:00:00Z"}`, CodeConflictingTime, "delay", "does not go with"},
		{"empty zone", `{"recurrence":"FREQ=DAILY","timezone":""}`, CodeUnknownZone, "timezone", "empty"},
		{"local without zone", `{"fire_at":"2027-01-01T09:00"}`, CodeInvalid, "timezone", "needs a timezone"},
		{"fire_at date", `{"fire_at":"2027-01-01","timezone":"UTC"}`, CodeInvalid, "fire_at", "T09:00"},
		{"9 digits", `{"fire_at":179518320}`, CodeInvalid, "fire_at", "9 digits"},
		{
			"gap skipped", `{"fire_at":"2026-03-08T02:30","timezone":"America/New_York","dst":{"gap":"skip"}}`,
			CodeNoOccurrences, "fire_at", "skipped",
		},
		{"dst word", `{"recurrence":"FREQ=DAILY","dst":{"gap":"jump"}}`, CodeInvalid, "dst", "shift or skip"},
		{"dst field", `{"recurrence":"FREQ=DAILY","dst":{"gab":"skip"}}`, CodeInvalid, "dst", "gab"},
		{"number for text", `{"recurrence":7}`, CodeInvalid, "recurrence", "not a string"},
		{"n", `{"delay":"7m","n":0}`, CodeInvalid, "n", "from 1"},
		{"n too large", `{"delay":"7m","n":10001}`, CodeInvalid, "n", "10000"},
		{"count of a one-shot", `{"delay":"7m","count":2}`, CodeConflictingTime, "count", "recurrence"},
		{"delay in months", `{"delay":"P1M"}`, CodeInvalid, "delay", "months"},
		{"after", `{"delay":"7m","after":"soon"}`, CodeInvalid, "after", "local date-time"},
		{"disputed", `{"recurrence":"FREQ=YEARLY;BYEASTER=0"}`, CodeDisputedRule, "recurrence", "include"},
		{
			"calendar", `{"recurrence":"FREQ=DAILY","calendars":{"names":["x"],"on":"skip"}}`, CodeUnsupported,
			"calendars", "not available",
		},
		{
			"past what is counted",
			`{"recurrence":"FREQ=DAILY;BYHOUR=1,2,3,4,5,6,7,8;COUNT=999999","start":"1900-01-01T00:00","after":"2500-01-01T00:00"}`, CodeInvalidRule, "recurrence", "earlier after",
		},
		{"empty recurrence", `{"recurrence":""}`, CodeInvalidRule, "recurrence", "write FREQ=DAILY"},
		{"id survives", `{"x":1,"id":7}`, CodeUnknownField, "x", "not a field"},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, e := Preview(Embedded(), []byte(c.body), now)
			if e == nil {
				t.Fatalf("accepted: %+v", resp)
			}
			wantError(t, c.body, e, c.code, c.field, c.msg)
			if c.name == "id survives" && string(resp.ID) != "7" {
				t.Errorf("id %s", resp.ID)
			}
		})
	}
	source := func(name string) (DateSet, bool) { return DateSet{Date(daysOf(2027, 1, 1))}, name == "x" }
	resp, e := PreviewWith(Embedded(), source,
		[]byte(`{"recurrence":"FREQ=DAILY","start":"2027-01-01T09:00","calendars":{"names":["x"],"on":"skip"},"n":1}`),
		now)
	if e != nil || resp.Occurrences[0].At != "2027-01-02T09:00:00Z" {
		t.Errorf("with a calendar: %+v %v", resp, e)
	}
}

// Calendars without on are skipped, in a preview as in a register. An on that is written has to be one.
func TestPreviewCalendarsWithoutOn(t *testing.T) {
	source := func(string) (DateSet, bool) { return DateSet{Date(daysOf(2027, 1, 1))}, true }
	for on, refused := range map[string]bool{"": false, `,"on":"skip"`: false, `,"on":""`: true} {
		resp, e := PreviewWith(Embedded(), source, []byte(`{"recurrence":"FREQ=DAILY","start":"2027-01-01T09:00",`+
			`"after":"2026-12-31T00:00:00Z","n":1,"calendars":{"names":["x"]`+on+"}}"), 0)
		if (e != nil) != refused || e == nil && resp.Occurrences[0].At != "2027-01-02T09:00:00Z" {
			t.Errorf("%q: %+v, %v", on, resp, e)
		}
	}
}

func TestPreviewCalendarsWithoutNames(t *testing.T) {
	for _, names := range []string{"", `"names":null`, `"names":[]`} {
		_, e := PreviewWith(Embedded(), nil, []byte(`{"recurrence":"FREQ=DAILY","calendars":{`+names+`}}`), 0)
		if e == nil || e.Field != "calendars" {
			t.Errorf("%q: %v", names, e)
		}
	}
}
