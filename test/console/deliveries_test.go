package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// A screen reader lists the regions of a page by their names, so no two have the same.
func TestRegionsOfDeliveries(t *testing.T) {
	s := dev(t, "channels.sends.receipts=true")
	answered("failed", "no_address")(s, "first")
	s.letters("first", "open", 1)
	s.refused("quick", `{"recurrence":"every:1s","channel":"orders"}`)
	b := s.open(t, 1200, 900)
	b.visit("deliveries")
	b.await("main", "no_address")
	b.await("main", "period_too_short")
	var names []string
	b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery),
		chromedp.Evaluate(`[...document.querySelectorAll('[role=region]')].map((e) => e.ariaLabel)`, &names))
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			t.Errorf("two regions are named %q, of %q", name, names)
		}
		seen[name] = true
	}
	if len(names) < 4 {
		t.Errorf("the page has the regions %q", names)
	}
}
