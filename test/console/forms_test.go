package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// The labels of a form stand in line, as do its fields: no kind of field is higher than another.
func TestFormsStandInLine(t *testing.T) {
	s := dev(t)
	for _, width := range []int{1200, 390} {
		b := s.open(t, width, 900)
		for _, page := range []string{"new", "triggers"} {
			b.visit(page)
			b.do(chromedp.WaitVisible("main form label", chromedp.ByQuery))
			var rows [][]float64 // of each row, the tops of its labels
			b.do(chromedp.Evaluate(`(() => {
				const rows = new Map();
				for (const l of document.querySelectorAll('main form label')) {
					const {top, bottom} = l.getBoundingClientRect();
					rows.set(Math.round(bottom), [...(rows.get(Math.round(bottom)) || []), top]);
				}
				return [...rows.values()]; })()`, &rows))
			if len(rows) == 0 {
				t.Fatalf("%s has no row", page)
			}
			for _, tops := range rows {
				for _, top := range tops {
					if top != tops[0] {
						t.Errorf("%s, %d px wide: labels begin at %v", page, width, tops)
						break
					}
				}
			}
		}
	}
}

// What somebody types into the filters of Triggers stays there while the page reads its list. Another address changes
// the fields that it has another value of, and leaves the others.
func TestTypedFiltersStay(t *testing.T) {
	s := dev(t)
	s.put("pills", inAnHour)
	b := s.open(t, 1200, 900)
	has := func(want string) {
		t.Helper()
		var got string
		b.do(chromedp.Evaluate(`[...document.querySelectorAll('main form select, main form input')]
			.map((e) => e.value).join()`, &got))
		if got != want {
			t.Errorf("the fields have %q, want %q", got, want)
		}
	}
	b.visit("runbook")
	b.slowly("/v1/triggers?", 2000, "")
	b.click("Triggers")
	b.fill("main input[name=key_prefix]", "pil")
	b.await("main table", "pills") // the list has come, and the page is drawn with it
	has(",pil,,,,,")
	b.fill("main input[name=channel]", "orders"+kb.Enter)
	b.await("main .twins", "--channel orders")
	b.await("main table", "pills")
	has(",pil,,orders,,,")
	b.fill("main input[name=tag]", "a=b")
	b.do(chromedp.SetValue("select[name=state]", "PAUSED", chromedp.ByQuery), chromedp.Evaluate(
		`document.querySelector('select[name=state]').dispatchEvent(new Event('change')); history.back()`, nil))
	b.do(chromedp.Poll(`location.search === ''`, nil))
	b.await("main table", "pills")
	has("PAUSED,,,,a=b,,")
}
