//go:build soak

package console_test

import (
	"context"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// whenUsable keeps when the page first said how it stands, in milliseconds since its address was opened.
const whenUsable = `
	new MutationObserver(() => {
		const health = document.querySelector('#health');
		if (!window.usable && health && health.textContent.includes('Healthy')) window.usable = performance.now();
	}).observe(document, {subtree: true, childList: true, characterData: true});`

// TestMeasureUsable measures how long the first page takes until one can read on it whether all is well: with nothing
// in the browser's cache, with its files there, and with a slower CPU. Nothing is asserted but that it comes.
func TestMeasureUsable(t *testing.T) {
	s := dev(t)
	for _, row := range []struct {
		name  string
		slow  float64
		empty bool
	}{
		{"nothing cached", 1, true},
		{"files cached", 1, false},
		{"files cached, CPU four times slower", 4, false},
	} {
		b := s.open(t, 1200, 900)
		b.do(chromedp.ActionFunc(func(ctx context.Context) error {
			_, err := page.AddScriptToEvaluateOnNewDocument(whenUsable).Do(ctx)
			return err
		}), emulation.SetCPUThrottlingRate(row.slow))
		var took []float64
		for i := range 11 {
			if row.empty {
				b.do(network.ClearBrowserCache())
			}
			b.visit("")
			b.await("#health", "Healthy")
			var usable float64
			if b.do(chromedp.Evaluate(`window.usable`, &usable)); usable == 0 {
				t.Fatalf("%s: nobody saw when it was usable", row.name)
			}
			if i > 0 { // the first one warms the server
				took = append(took, usable)
			}
		}
		slices.Sort(took)
		n := len(took)
		t.Logf("%s: %.0f ms in the middle, %.0f at most, of %d", row.name, took[n/2], took[n-1], n)
		b.close()
	}
}
