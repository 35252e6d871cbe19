package console_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// What somebody can do to a trigger stands beside its heading: on a screen of 1280 x 800 it needs no scrolling, however
// much evidence there is.
func TestActsAreAboveTheFold(t *testing.T) {
	s := dev(t)
	s.put("pills", daily)
	b := s.open(t, 1280, 800)
	b.visit("triggers")
	evidence := strings.TrimSuffix(strings.Repeat(`{"event_id":"e","source":"s","text":"It was so."},`, 40), ",")
	b.stub("GET", "/explain", 200, `{"code":"scheduled","sentence":"Scheduled.","evidence":[`+evidence+`]}`)
	b.await("main table", "pills")
	b.click("pills")
	b.await("#evidence", "It was so.")
	b.await("main .acts", "Cancel")
	b.await("main", "What it is")
	var low []string
	b.do(chromedp.Evaluate(`[...document.querySelectorAll('main .acts button')]
		.filter((e) => e.getBoundingClientRect().bottom > innerHeight / 4).map((e) => e.textContent)`, &low))
	if len(low) > 0 {
		t.Errorf("below the fold, or nearly, are %q", low)
	}
}

// A number leads to what it counts, where that is a list: by a click on the number itself.
func TestNumbersLead(t *testing.T) {
	s := dev(t, "channels.sends.receipts=true")
	answered("failed", "no_address")(s, "first")
	s.letters("first", "open", 1)
	s.refused("quick", `{"recurrence":"every:1s","channel":"orders"}`)
	b := s.open(t, 1280, 800)
	leads := func(number string, want ...string) {
		t.Helper()
		var to []string
		b.do(chromedp.Evaluate(fmt.Sprintf(`[...document.querySelectorAll(%q)].map((e) => {
			e.scrollIntoView({block: 'center'});
			const {x, y, width, height} = e.getBoundingClientRect();
			const a = document.elementFromPoint(x + Math.min(width, 8) / 2, y + height / 2).closest('a');
			return a ? a.href.replace(/.*console./, '') : '';
		})`, number), &to))
		if !slices.Equal(to, want) {
			t.Errorf("%s leads to %q, want %q", number, to, want)
		}
	}
	b.visit("")
	b.await("#health", "Healthy")
	b.await(".figures", "due in ten minutes")
	b.await(`[aria-label="Dead letters by code"]`, "no_address")
	b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery))
	leads(".figures b", "system", "system", "system", "system", "forecast")
	leads(`[aria-label="Dead letters by code"] td.num a`, "deliveries?code=no_address")
	b.await("main", "As a table")
	b.do(chromedp.Evaluate(`document.querySelector('main details').open = true`, nil))
	leads(`[aria-label="By channel, the last hour"] td:first-child a`, "triggers?channel=sends")
	b.visit("deliveries")
	b.await(".short", "no_address")
	b.await(".short", "period_too_short")
	leads(".short li b", "deliveries?code=no_address", "deliveries?refused=period_too_short")
}
