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
	} {
		b.visit(p.path)
		b.await("main", p.want)
		check(p.path, p.want)
	}
}
