package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"
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
