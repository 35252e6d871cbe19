package console_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// slowly makes reads whose address has a text take so many milliseconds, and be answered so; "" by the server.
func (b *tab) slowly(has string, ms int, body string) {
	b.t.Helper()
	b.do(chromedp.Evaluate(fmt.Sprintf(`(() => {
		const real = window.fetch;
		window.fetch = async (url, ...more) => {
			const [has, ms, body] = [%q, %d, %q];
			if (!String(url).includes(has)) return real(url, ...more);
			await new Promise((done) => setTimeout(done, ms));
			return body ? new Response(body) : real(url, ...more);
		};
	})()`, has, ms, body), nil))
}

// states gives all pages of the browser a state of the stream with these fields, five times a second.
func (b *tab) states(fields string) {
	b.t.Helper()
	b.do(chromedp.Evaluate(fmt.Sprintf(`(() => {
		const channel = new BroadcastChannel('waterclock live %s/');
		setInterval(() => channel.postMessage({kind: 'state', data: {at: new Date().toISOString(), fires: 0,
			silent_partitions: [], pending: 0, commands_lag: 0, ...%s}}), 200);
	})()`, b.server.url, fields), nil))
}

// While a tenant is busy, each second says that facts were left out. An explanation that takes longer than that comes
// all the same, and so does the next one.
func TestSlowReadOfABusyTenant(t *testing.T) {
	s := dev(t)
	s.put("pills", daily)
	b := s.open(t, 1200, 900)
	b.visit("triggers")
	b.await("main table", "pills")
	b.slowly("/explain", 1500, "")
	b.states(`{partitions: 4, ready: 4, oldest_overdue_seconds: 0, omitted: 30}`)
	b.click("pills")
	b.await("#sentence", "Scheduled")
	s.call("POST", "/v1/triggers/pills:pause", `{"note":"on holiday"}`)
	b.await("#sentence", "on holiday")
}

// In an outage the partitions answer slowly, while each second says that something is overdue. Now is not healthy, at
// once, and then says which partition it is.
func TestSlowReadInAnOutage(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.visit("")
	b.await("#health", "Healthy")
	b.slowly("/v1/partitions", 4000, `{"items":[{"partition":3,"owner":"a","ready":true,"oldest_overdue_seconds":30}]}`)
	b.states(`{partitions: 4, ready: 4, oldest_overdue_seconds: 30}`)
	b.await("#health", "1 thing is not well.")
	b.await("main ul", "The oldest has waited 30 s.")
	b.await("main ul", "Partition 3 is late: the oldest has waited 30 s.")
}

// A history that does not answer is not one that knows nothing, and is not absent.
func TestSilentHistory(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.visit("triggers")
	b.slowly("/v1/search", 0, `{"items":[],"silent_partitions":[],"history_silent":true}`)
	b.slowly("/explain", 0, `{"code":"scheduled","sentence":"Scheduled: it fires.","evidence":[],"history":false}`)
	b.fill("header input", "forgotten"+kb.Enter)
	b.await("main .fault", "Some may be missing: the history does not answer.")
	b.await("main", "Nothing was found.")
	s.put("tea", inAnHour)
	b.click("Triggers")
	b.click("tea")
	b.await("main", "The history does not answer: this is what its owner knows.")
}

// A preview that had no answer can be asked for once more. One that was refused would be refused once more.
func TestPreviewIsAskedForOnceMore(t *testing.T) {
	b := dev(t).open(t, 1200, 900)
	b.allowed = []string{"status of 422", "status of 400"}
	b.visit("triggers")
	b.do(chromedp.Evaluate(`window.real = window.fetch`, nil))
	b.stub("POST", "/v1/preview", 0, "")
	b.click("New")
	b.await("#preview .fault", "The server does not answer. ")
	b.do(chromedp.Evaluate(`window.fetch = window.real`, nil))
	b.click("Try again")
	b.await("#preview", "The next ten")
	b.do(chromedp.WaitNotPresent("#preview .fault", chromedp.ByQuery))
	b.fill("input[name=delay]", "soon")
	b.await("#preview .fault", "soon")
	b.do(chromedp.WaitNotPresent("#preview button", chromedp.ByQuery))
}

// A runbook that does not come is given up after some time, as any read is, and can be asked for once more.
func TestSlowRunbook(t *testing.T) {
	b := dev(t).open(t, 1200, 900)
	b.visit("triggers")
	b.stub("GET", "/runbook.md", http.StatusBadGateway, "<h1>Bad gateway</h1>")
	b.do(chromedp.Evaluate(`(() => {
		const other = window.fetch;
		window.fetch = (url, how = {}, ...more) => {
			if (!String(url).includes('/runbook.md')) return other(url, how, ...more);
			window.fetch = other;
			return new Promise((_, fail) => { // an answer that never comes
				if (how.signal) how.signal.addEventListener('abort', () => fail(how.signal.reason));
			});
		};
	})()`, nil))
	b.click("Runbook")
	b.await("main .fault", "The server does not answer.")
	b.click("Try again")
	b.await("main .fault", "The runbook cannot be read.")
	b.stub("GET", "/runbook.md", http.StatusOK, "# Runbook\n\n## By symptom\n\nAll is well.\n")
	b.click("Try again")
	b.await("main", "All is well.")
	b.do(chromedp.WaitNotPresent("main .fault", chromedp.ByQuery))
	b.click("Triggers")
	b.stub("GET", "/runbook.md", http.StatusBadGateway, "nobody asks any more")
	b.click("Runbook")
	b.await("main", "All is well.")
}

// A page that another version has served says so on its first visit of the runbook, which it does not have.
func TestRunbookOfAnotherVersion(t *testing.T) {
	b := dev(t).open(t, 1200, 900)
	b.visit("triggers")
	b.stub("GET", "/runbook.md", http.StatusNotFound, "no such file")
	b.click("Runbook")
	b.await("main .fault", "This page is of another version of Waterclock. Load it anew.")
}
