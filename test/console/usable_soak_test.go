//go:build soak

package console_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/waterclock/waterclock/internal/loadtest"
)

// whenUsable keeps when the page first said how it stands, in milliseconds since its address was opened.
const whenUsable = `
	new MutationObserver(() => {
		const health = document.querySelector('#health');
		if (!window.usable && health && /Healthy|not well|Many due events|has refused records/.test(health.textContent)) window.usable = performance.now();
	}).observe(document, {subtree: true, childList: true, characterData: true});`

// TestMeasureUsable measures how long the first page takes until one can read on it whether all is well: with nothing
// in the browser's cache, with its files there, and with a slower CPU. Meanwhile a million triggers are pending, or
// WATERCLOCK_BENCH_PENDING, one in ten of them a series, and 2,000 a second fire, as in waterclock bench console.
// Nothing is asserted but that the page comes.
func TestMeasureUsable(t *testing.T) {
	s := dev(t)
	defer s.loaded(t)()
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
			usable := b.usable(30 * time.Second)
			if usable == 0 {
				t.Fatalf("%s: it was not usable within half a minute", row.name)
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
	t.Logf("%d have fired within the last minute", s.fired())
}

// loaded has triggers pending, and others fire until done is called.
func (s *server) loaded(t *testing.T) (done func()) {
	o := loadtest.ConsoleOptions{Pending: 1_000_000, Fires: 2000, Payload: 200}
	if n, err := strconv.Atoi(os.Getenv("WATERCLOCK_BENCH_PENDING")); err == nil {
		o.Pending = n
	}
	load := loadtest.NewConsoleLoad(strings.TrimPrefix(s.url, "http://"), o)
	began := time.Now()
	if err := load.Fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pending after %v", o.Pending, time.Since(began).Round(time.Second))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- load.Fire(ctx) }()
	done = func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	for began := time.Now(); s.fired() < 10*o.Fires; time.Sleep(time.Second) {
		if time.Since(began) > 15*time.Second {
			done()
			t.Fatalf("%d have fired within 15 s, want %d a second", s.fired(), o.Fires)
		}
	}
	return done
}

// fired is how many due events went out within the last minute.
func (s *server) fired() int {
	n, _ := s.call("GET", "/v1/lateness?window=1m", "")["fires"].(float64)
	return int(n)
}

// usable is when the page could be used, as whenUsable keeps it; 0: not in time.
func (b *tab) usable(within time.Duration) (ms float64) {
	for began := time.Now(); ms == 0 && time.Since(began) < within; time.Sleep(20 * time.Millisecond) {
		b.do(chromedp.Evaluate(`window.usable || 0`, &ms))
	}
	return ms
}
