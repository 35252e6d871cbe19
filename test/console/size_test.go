package console_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
)

// After the first load, a page asks for at most 20 KB, each address counted once. Lists are not compressed: the size
// of what users wrote would say something of it (BREACH). So a page has as many ordinary triggers as that allows.
func TestLaterPagesAreSmall(t *testing.T) {
	const most = 20 << 10
	s := dev(t)
	for i := range 60 {
		s.call(http.MethodPut, fmt.Sprintf("/v1/triggers/pills-%03d", i), `{"channel":"push","user_id":"u_`+fmt.Sprint(i)+
			`","start":"2026-11-20T09:00","timezone":"America/New_York","recurrence":"RRULE:FREQ=WEEKLY;BYDAY=MO,WE",`+
			`"payload":{"title":"Take pills"},"tags":{"type":"pills"}}`)
	}
	b := s.open(t, 1200, 900)
	b.visit("new")
	b.await("#preview", "UTC")
	for _, p := range []struct{ link, text string }{
		{"Triggers", "pills-000"},
		{"pills-000", "Scheduled"},
		{"Forecast", "Counted as of"},
		{"Ninety days, by hour", "Counted as of"},
		{"Deliveries", "Where due events go"},
		{"System", "In force"},
		{"Runbook", "WaterclockLate"},
		{"Now", "due in ten minutes"},
	} {
		b.do(chromedp.Evaluate(`performance.clearResourceTimings()`, nil))
		b.click(p.link)
		b.await("main", p.text)
		b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery))
		var bytes int
		b.do(chromedp.Evaluate(`[...new Map(performance.getEntriesByType('resource').map((e) => [e.name,
			e.encodedBodySize])).values()].reduce((n, size) => n + size, 0)`, &bytes))
		t.Logf("%s: %d bytes", p.link, bytes)
		if bytes == 0 || bytes > most {
			t.Errorf("%s asks for %d bytes, the most is %d", p.link, bytes, most)
		}
	}
}
