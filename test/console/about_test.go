package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// What a trigger is has every field that decides when it fires, and why it has its zone.
func TestWhatATriggerIs(t *testing.T) {
	s := dev(t)
	s.call("PUT", "/v1/calendars/us", `{"dates":["2060-07-04"]}`)
	s.put("rule", `{"recurrence":"FREQ=DAILY","start":"2060-07-01T02:30","timezone":"America/New_York","until":`+
		`"2060-12-31T00:00","exclude":["2060-07-02"],"dst":{"gap":"skip","overlap":"both"},"headers":{"x-shop":"42"},`+
		`"calendars":{"names":["us"],"on":"next_business_day"},"follow_user":true,"user_id":"u_7"}`)
	s.call("POST", "/v1/triggers/rule:skip", "")
	s.put("count", `{"recurrence":"FREQ=DAILY","start":"2060-07-01T02:30","count":5}`)
	s.put("delay", `{"delay":"90m"}`)
	s.put("instant", `{"fire_at":"2060-07-01T02:30:00Z"}`)
	s.put("local", `{"fire_at":"2060-07-01T02:30","timezone":"Asia/Tokyo"}`)
	b := s.open(t, 1200, 900)
	for _, c := range []struct {
		id   string
		want [][2]string
	}{
		{"rule", [][2]string{
			{"But not", "2060-07-02"},
			{"Until", "Fri 2060-12-31 00:00:00 America/New_York"},
			{"Calendars", "us: on their days it fires on the next business day"},
			{"Skipped", "Thu 2060-07-01 02:30:00 America/New_York"},
			{"Zone", "America/New_York, that of its user (tz database "},
			{"Clock changes", "in a gap: skip, in an overlap: both"},
			{"Headers", "x-shop: 42"},
		}},
		{"count", [][2]string{
			{"At most", "5 times"}, {"Zone", "UTC: registered so, or the default"},
		}},
		{"delay", [][2]string{{"Given as", "a delay of 90m"}, {"Zone", "UTC: a delay names no zone"}}},
		{"instant", [][2]string{{"Given as", "an instant"}, {"Zone", "UTC: an instant names no zone"}}},
		{"local", [][2]string{
			{"Given as", "a local time: Thu 2060-07-01 02:30:00 Asia/Tokyo"},
			{"Zone", "Asia/Tokyo, as it was registered or rezoned"},
		}},
	} {
		b.visit("trigger?id=" + c.id)
		b.await("dl.facts", "Revision")
		var rows map[string]string
		b.do(chromedp.Evaluate(`Object.fromEntries([...document.querySelectorAll('dl.facts dt')].map((e) =>
			[e.textContent, e.nextElementSibling.textContent.replace(/\s+/g, ' ').trim()]))`, &rows))
		for _, want := range c.want {
			if got := rows[want[0]]; len(got) < len(want[1]) || got[:len(want[1])] != want[1] {
				t.Errorf("%s, %s: %q, want %q", c.id, want[0], got, want[1])
			}
		}
		if given := rows["Given as"]; (c.id == "rule" || c.id == "count") != (given == "") {
			t.Errorf("%s is given as %q", c.id, given)
		}
	}
}
