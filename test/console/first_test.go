package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// A search has its answer in the page, so that it is shown at once: the page does not ask for it again.
func TestSearchIsInThePage(t *testing.T) {
	s := dev(t)
	s.put("pills", daily)
	for path, text := range map[string]string{
		"search?q=pills": "u_81", "search?q=a%20b'(c)!": "Nothing is named so",
	} {
		b := s.open(t, 1200, 900)
		b.visit(path)
		b.await("main", text)
		b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery))
		if asked := strings.Join(b.take(&b.asked), " "); strings.Contains(asked, "v1/search") {
			t.Errorf("%s asks again: %s", path, asked)
		}
	}
}
