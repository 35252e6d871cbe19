package console_test

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// The tab that reads the stream for all is suspended: it says no more, and not that the stream was cut. Then Now has
// what it reads by itself, and does not keep the figures of before.
func TestSuspendedTab(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.visit("triggers") // where nothing asks for the stream yet
	b.do(chromedp.Evaluate(fmt.Sprintf(`(() => {
		const name = 'waterclock live %s/';
		navigator.locks.request(name, () => new Promise(() => {}));
		const channel = new BroadcastChannel(name);
		window.other = setInterval(() => channel.postMessage({kind: 'state', data: {at: new Date().toISOString(), fires: 0,
			silent_partitions: [], partitions: 4, ready: 4, pending: 4242, commands_lag: 0, oldest_overdue_seconds: 0}}), 200);
	})()`, s.url), nil))
	b.click("Now")
	b.await(".figures", "4,242pending")
	b.do(chromedp.Evaluate(`clearInterval(window.other)`, nil))
	b.await(".figures", "0pending")
	s.put("pills", daily)
	b.await(".figures", "1pending")
	b.await("#health", "Healthy")
}
