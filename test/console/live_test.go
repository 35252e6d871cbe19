package console_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const inAnHour = `{"delay":"1h","channel":"orders"}`

// soon is the bound of a fact on its way to the screen. It comes within a second where nothing else
// runs; the test prints how long it took.
const soon = 10 * time.Second

// streams is how often a tab has begun a stream.
func (b *tab) streams() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(b.asked), func(path string) bool { return path != "/v1/live" }))
}

// show waits until all tabs say something, and prints how long the last one took.
func show(t *testing.T, tabs []*tab, what, selector, text string) {
	t.Helper()
	began := time.Now()
	for _, b := range tabs {
		b.await(selector, text)
	}
	took := time.Since(began)
	t.Logf("%s: on the screen of %d tabs after %v", what, len(tabs), took.Round(time.Millisecond))
	if took > soon {
		t.Errorf("%s took %v", what, took)
	}
}

// Eight tabs of one browser share one stream, which outlives the tab that reads it. A new fact moves
// no row: it waits until somebody takes it.
func TestEightTabs(t *testing.T) {
	s := dev(t)
	s.call("PUT", "/v1/triggers/tea", daily)
	browser := s.open(t, 1200, 900) // its first tab stays empty: it is the one that cannot be closed
	var tabs []*tab
	for len(tabs) < 8 {
		tabs = append(tabs, browser.more())
	}
	for _, b := range tabs {
		b.visit("")
		b.await("#facts .newest", "Nothing yet")
	}
	s.call("PUT", "/v1/triggers/one", inAnHour)
	show(t, tabs, "a register", "#facts .newest", "one")
	n := 0
	for _, b := range tabs {
		n += b.streams()
	}
	if n != 1 {
		t.Errorf("%d streams", n)
	}
	b := tabs[1]
	b.click("Show 1 new fact")
	b.await("#facts tbody tr td:nth-child(3)", "one")
	const row = "#facts tbody tr"
	before := b.spot(row)
	b.do(chromedp.MouseEvent("mouseMoved", before.X+9, before.Y+9))
	s.call("PUT", "/v1/triggers/two", inAnHour)
	b.await("#facts button", "Show 1 new fact")
	if after := b.spot(row); after != before || !strings.Contains(after.Text, "one") {
		t.Errorf("under the pointer was %+v, is %+v", before, after)
	}
	b.do(chromedp.Focus("#facts button", chromedp.ByQuery), chromedp.KeyEvent(kb.Enter))
	b.await(row, "two")

	b.visit("trigger?id=tea")
	b.await("#sentence", "Scheduled")
	s.call("POST", "/v1/triggers/tea:pause", `{"note":"on holiday"}`)
	show(t, tabs[1:2], "a pause on its page", "#sentence", "on holiday")
	b.await("main", "trigger.paused")
	before = b.spot(".acts")
	b.do(chromedp.MouseEvent("mouseMoved", before.X+9, before.Y+9))
	s.call("POST", "/v1/triggers/tea:resume", "")
	b.await(".news", "Something happened")
	if after := b.spot(".acts"); after != before {
		t.Errorf("under the pointer was %+v, is %+v", before, after)
	}
	b.do(chromedp.Click(".news button", chromedp.ByQuery))
	b.await("#sentence", "Scheduled")

	reads := slices.IndexFunc(tabs, func(b *tab) bool { return b.streams() > 0 })
	tabs[reads].close()
	tabs = slices.DeleteFunc(slices.Delete(tabs, reads, reads+1), func(of *tab) bool { return of == b })
	s.call("PUT", "/v1/triggers/three", inAnHour)
	show(t, tabs, "after the tab that reads was closed", "#facts .newest", "three")
}

// spot is where an element is, and what it says.
func (b *tab) spot(selector string) (at struct {
	X, Y float64
	Text string
},
) {
	b.t.Helper()
	b.do(chromedp.Evaluate(`(() => { const e = document.querySelector('`+selector+`'); const r = e.getBoundingClientRect();
		return {x: r.x, y: r.y, text: e.textContent}; })()`, &at))
	return at
}

// A tab whose page shows no stream ends it after some time, and begins it anew with the next page that shows one.
func TestStreamEnds(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.visit("")
	b.await("#facts .newest", "Nothing yet of tenant default")
	b.click("Runbook")
	const held = `navigator.locks.query().then((l) => l.held.length)`
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Second) {
		var n int
		if b.do(chromedp.Evaluate(held, &n, awaitPromise)); n == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the stream goes on, and nobody listens")
		}
	}
	b.click("Now")
	b.await("#facts .newest", "Nothing yet")
	s.put("tea", inAnHour)
	b.await("#facts .newest", "tea")
}

// Under an open page the engine is killed and started: the page says so, and then goes on by itself.
func TestEngineRestarts(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.allowed = []string{"net::ERR_", "status of 503"}
	b.visit("")
	b.await("#facts .newest", "Nothing yet")
	b.await("#health", "Healthy")
	s.end(os.Kill)
	b.await("main .fault", "does not answer")
	b.await("#health", "Not known")
	s.start()
	b.await("#health", "Healthy")
	b.await("#facts .newest", "Nothing yet")
	s.call("PUT", "/v1/triggers/one", inAnHour)
	show(t, []*tab{b}, "a register after the restart", "#facts .newest", "one")
}

// Partitions are read one by one, so an older fact may come after a newer one. The newest is still shown first. Facts
// are counted, however many wait, and none is lost without a word. The health goes on while the pointer is on a table.
func TestFactsAndThePointer(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.visit("")
	b.await("#facts .newest", "Nothing yet")
	b.await("#health", "Healthy")
	comes := func(n int, at string) {
		t.Helper()
		b.do(chromedp.Evaluate(fmt.Sprintf(`(() => {
			const channel = new BroadcastChannel('waterclock live %s/');
			for (let i = 0; i < %d; i++) channel.postMessage({kind: 'fact', data: {event_id: %[3]q + i,
				occurred_at: %[3]q, type: 'trigger.registered', tenant: 'default',
				trigger: 'of-' + %[3]q.slice(0, 4)}});
		})()`, s.url, n, at), nil))
	}
	s.put("tea", inAnHour)
	b.await("#facts .newest", "tea")
	comes(1, "2025-01-01T00:00:00Z")
	b.await("#facts button", "Show 2 new facts")
	b.await("#facts .newest", "tea")
	b.click("Show 2 new facts")
	b.await("#facts tbody tr:first-child", "tea")
	b.await("#facts tbody tr:last-child", "of-2025")
	comes(250, "2026-01-01T00:00:00Z")
	b.await("#facts button", "Show 250 new facts")
	b.await("#facts .newest", "tea")
	b.click("Show 250 new facts")
	b.await("#facts", "Some earlier facts are missing here.")
	b.await("#facts tbody tr:nth-child(1)", "tea")
	b.await("#facts tbody tr:nth-child(2)", "of-2026")

	b.stub("GET", "/v1/endpoints", http.StatusOK, `{"items":[{"origin":"http://127.0.0.1:1","tenant":"default",`+
		`"state":"open","last_code":"refused"}]}`)
	b.do(chromedp.ScrollIntoView("#facts table", chromedp.ByQuery))
	at := b.spot("#facts table")
	b.do(chromedp.MouseEvent("mouseMoved", at.X+20, at.Y+30),
		chromedp.WaitVisible("#facts .scroll:hover", chromedp.ByQuery))
	b.await("#health", "1 thing is not well")
}
