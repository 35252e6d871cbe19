package console_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// raw is a time as the API has it.
var raw = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d\S*`)

// All times are drawn alike, with their zone, also those that name an occurrence: an instant, or a wall time of its
// trigger's zone.
func TestNoRawTimes(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.visit("")
	b.await("#facts .newest", "Nothing yet")
	at := time.Now().AddDate(0, -1, 0)
	text, words := at.Format("2006-01-02T15:04:05"), at.Format("Mon 2006-01-02 15:04:05")
	s.put("instant", `{"fire_at":"`+text+`Z","misfire":"fire_once","channel":"orders","user_id":"u_9"}`)
	s.put("wall", `{"fire_at":"`+text+`","timezone":"Asia/Tokyo","misfire":"fire_once",
		"channel":"orders","user_id":"u_9"}`)
	s.put("daily", `{"recurrence":"FREQ=DAILY;COUNT=9000","start":"2026-01-02T09:00","timezone":"Asia/Tokyo",
		"channel":"orders","user_id":"u_9"}`)
	s.call("POST", "/v1/triggers/daily:skip", `{}`)
	s.notified("u_9", 2)
	check := func(path string, want ...string) {
		t.Helper()
		var text string
		b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery), chromedp.Evaluate(`(() => {
			const main = document.querySelector('main').cloneNode(true);
			main.querySelectorAll('.twins').forEach((e) => e.remove());
			return main.textContent; })()`, &text))
		if got := raw.FindAllString(text, -1); len(got) > 0 {
			t.Errorf("%s has %q", path, got)
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s has no %q: %s", path, w, text)
			}
		}
	}
	b.await("#facts .newest", "daily")
	b.press("#facts button")
	b.await("#facts tbody", "wall")
	check("now")
	for _, p := range []struct{ path, want string }{
		{"trigger?id=instant", words + " UTC"},
		{"trigger?id=wall", words + " Asia/Tokyo"},
		{"trigger?id=daily", "from Fri 2026-01-02 09:00:00 Asia/Tokyo"},
		{"user?id=u_9", words},
		{"new", "UTC"},
		{"triggers", "As of "},
	} {
		b.visit(p.path)
		b.await("main", p.want)
		check(p.path, p.want)
	}
}

// A time of any year is drawn as others are. A browser has no year 0000, and counts backwards before year 1.
func TestFarYears(t *testing.T) {
	b := dev(t).open(t, 1200, 900)
	b.visit("new")
	for instant, want := range map[string]string{
		"1883-11-18T18:00:00Z": "Sun 1883-11-18 13:00:00 America/New_York",
		"0001-01-01T12:00:00Z": "Mon 0001-01-01 07:03:58 America/New_York", // local mean time
		"0001-01-01T00:00:00Z": "Sun 0000-12-31 19:03:58 America/New_York",
		"9999-12-31T23:59:59Z": "Fri 9999-12-31 18:59:59 America/New_York",
		"2026-11-30T14:00:00Z": "Mon 2026-11-30 09:00:00 America/New_York",
		"2026-11-01T04:59:59Z": "Sun 2026-11-01 00:59:59 America/New_York",
		"2026-11-01T05:30:00Z": "Sun 2026-11-01 01:30:00 America/New_York (UTC-04:00)", // clocks show it twice
		"2026-11-01T06:30:00Z": "Sun 2026-11-01 01:30:00 America/New_York (UTC-05:00)",
		"2026-11-01T07:00:00Z": "Sun 2026-11-01 02:00:00 America/New_York",
	} {
		var got string
		b.do(chromedp.Evaluate(`import(new URL('time.js', document.querySelector('script[type=module]').src).href)
			.then((m) => m.inZone('`+instant+`', 'America/New_York'))`, &got, awaitPromise))
		if got != want {
			t.Errorf("%s is drawn %q, want %q", instant, got, want)
		}
	}
}
