package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// The values of a picture are read by keys, by the pointer and by a finger, each bucket with its time. It has axes.
// What is read stays the same bucket when the picture is read again.
func TestBarsAreRead(t *testing.T) {
	s := dev(t)
	from := time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC)
	stub := func(b *tab, first int) {
		var items []string
		for i := first; i < first+120; i++ {
			items = append(items, fmt.Sprintf(`{"at":%q,"nominal":%d,"due":%[2]d,"by":{}}`,
				from.Add(time.Duration(i)*time.Minute).Format(time.RFC3339), 10*i))
		}
		b.stub("GET", "/v1/forecast", 200, `{"as_of":"2026-01-01T09:00:00Z","silent_partitions":[],"items":[`+
			strings.Join(items, ",")+`]}`)
	}
	b := s.open(t, 1200, 900)
	b.visit("triggers")
	stub(b, 0)
	b.do(chromedp.Evaluate(`(() => { // so that it is read again soon
		const real = window.setTimeout;
		window.setTimeout = (f, ms, ...more) => real(f, ms === 30000 ? 2000 : ms, ...more);
	})()`, nil))
	b.click("Forecast")
	b.await(".reads", "Point at a bar")
	b.await(".axis", "Thu 2026-01-01 09:00:00 UTC")
	b.await(".axis", "Thu 2026-01-01 10:59:00 UTC")
	b.await(".whole", "1,190")
	b.await(".half", "595")

	reads := func(i int) {
		t.Helper()
		at := from.Add(time.Duration(i) * time.Minute).Format("Mon 2006-01-02 15:04:05 UTC")
		want := fmt.Sprintf("%s: %d due", at, 10*i)
		b.await(".reads", want)
		var said string
		b.do(chromedp.Evaluate(`document.querySelector('[role=slider]').getAttribute('aria-valuetext')`, &said))
		if said != want {
			t.Errorf("a screen reader hears %q, want %q", said, want)
		}
	}
	b.do(chromedp.Focus("[role=slider]", chromedp.ByQuery))
	for _, c := range []struct {
		key string
		at  int
	}{
		{kb.End, 119},
		{kb.Home, 0},
		{kb.ArrowRight, 1},
		{kb.ArrowUp, 2},
		{kb.ArrowLeft, 1},
		{kb.ArrowDown, 0},
		{kb.PageUp, 10},
		{kb.PageUp, 20},
		{kb.PageDown, 10},
		{kb.ArrowLeft, 9},
	} {
		b.do(chromedp.KeyEvent(c.key))
		reads(c.at)
	}

	var picture struct{ X, Y, Width, Height float64 }
	b.do(chromedp.Evaluate(`document.querySelector('svg.bars').getBoundingClientRect().toJSON()`, &picture))
	of := func(i int) (x, y float64) {
		return picture.X + picture.Width*(float64(i)+0.5)/120, picture.Y + picture.Height/2
	}
	x, y := of(30)
	b.do(chromedp.MouseEvent(input.MouseMoved, x, y))
	reads(30)
	x, y = of(60)
	b.do(input.DispatchTouchEvent(input.TouchStart, []*input.TouchPoint{{X: x, Y: y}}))
	reads(60)
	x, y = of(90)
	b.do(input.DispatchTouchEvent(input.TouchMove, []*input.TouchPoint{{X: x, Y: y}}),
		input.DispatchTouchEvent(input.TouchEnd, []*input.TouchPoint{}))
	reads(90)

	stub(b, 5)
	b.await(".axis", "Thu 2026-01-01 09:05:00 UTC")
	reads(90)
	b.do(chromedp.Evaluate(`document.querySelector('main details').open = true`, nil))
	b.await("main table", "Thu 2026-01-01 10:30:00 UTC900")
}
