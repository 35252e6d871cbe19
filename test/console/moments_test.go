package console_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// keepMoments makes a page keep each text that it had, however short.
const keepMoments = `
	window.moments = new Set();
	new MutationObserver(() => document.body && window.moments.add(document.body.textContent))
		.observe(document, {subtree: true, childList: true, characterData: true});`

// What a page does not know yet it does not say: nothing is wrong on it for a moment, before its first answers.
func TestNothingWrongForAMoment(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(keepMoments).Do(ctx)
		return err
	}))
	for _, row := range []struct{ path, selector, text, never string }{
		{"", "#facts .newest", "Nothing yet", "There is no stream"},
		{"", "#health", "Healthy", "Not known"},
		{"new", "#preview", "UTC", "Never."},
		{"triggers?channel=nobody", "main", "No trigger matches.", "so far"},
		{"user?id=nobody", "main", "The history has no notification", "No user is named"},
		{"trigger?id=nobody", "#sentence", "There is no trigger", "What it is"},
		{"search?q=nobody", "main", "Nothing is named so", "This user has no trigger"},
	} {
		b.allowed = []string{"status of 404"}
		b.visit(row.path)
		b.await(row.selector, row.text)
		var moments []string
		b.do(chromedp.Evaluate(`[...window.moments]`, &moments))
		if len(moments) == 0 {
			t.Errorf("%q: no text was kept", row.path)
		}
		for _, text := range moments {
			if strings.Contains(text, row.never) {
				t.Errorf("%q said for a moment: %s", row.path, text)
			}
		}
	}
}

// One partition does not answer: every page that counts or lists over all of them names it.
func TestOneSilentPartition(t *testing.T) {
	s := dev(t)
	s.call(http.MethodPut, "/v1/triggers/pills", daily)
	b := s.open(t, 1200, 900)
	b.visit("system")
	b.await("main table", "fires")
	b.do(chromedp.Evaluate(`(() => {
		const real = window.fetch;
		window.fetch = async (url, ...more) => {
			const answer = await real(url, ...more);
			const [, of] = /\/v1\/(triggers|forecast|lateness|search|partitions)$/.exec(new URL(url).pathname) || [];
			if (!of) return answer;
			const body = await answer.json();
			if (of === 'partitions') Object.assign(body.items[1], {ready: false, doing: ''});
			else body.silent_partitions = [1];
			return new Response(JSON.stringify(body));
		};
	})()`, nil))
	b.click("Now")
	b.await("main", "Partition 1 does not fire: no owner answers.")
	b.await("main .fault", "Not all are counted: partition 1 does not answer.")
	b.await(".figures", "at least ")
	b.click("Triggers")
	b.await("main .fault", "Not all are here: partition 1 does not answer.")
	b.await("main table", "pills")
	b.click("Forecast")
	b.await("main .fault", "Too low: partition 1 does not answer.")
	b.fill("header input", "pills"+kb.Enter)
	b.await("main .fault", "Some may be missing: partition 1 does not answer.")
	b.await("main table", "pills")
}

// A page of one trigger has nothing of the one before, no payload, no dialog, no words; and nothing of an erased one.
func TestNothingOfTheTriggerBefore(t *testing.T) {
	s := dev(t)
	for _, id := range []string{"one", "two"} {
		s.call(http.MethodPut, "/v1/triggers/"+id,
			`{"delay":"1h","channel":"orders","tags":{"of":"tag-`+id+`"},"payload":{"say":"words of `+id+`"}}`)
	}
	b := s.open(t, 1200, 900)
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(keepMoments).Do(ctx)
		return err
	}))
	b.visit("trigger?id=two")
	b.await("#sentence", "Scheduled")
	b.do(chromedp.Evaluate(`history.pushState(null, '', 'trigger?id=one');
		dispatchEvent(new PopStateEvent('popstate'))`, nil))
	b.await("h1", "one")
	b.await("main", "tag-one")
	b.click("Show the payload")
	b.await("main pre", "words of one")
	b.click("Cancel")
	b.await("dialog h2", "Cancel: one")
	b.do(chromedp.Evaluate(`window.moments.clear(); history.back()`, nil))
	b.await("h1", "two")
	b.await("main", "tag-two")
	b.await("#sentence", "Scheduled")
	var moments []string
	b.do(chromedp.Evaluate(`[...window.moments]`, &moments))
	for _, text := range moments {
		if strings.Contains(text, "words of one") || strings.Contains(text, "Cancel: one") ||
			strings.Contains(text, "tag-one") {
			t.Errorf("the page of two said: %s", text)
		}
	}
	b.click("Show the payload")
	b.await("main pre", "words of two")
	b.allowed = []string{"status of 404"}
	s.call(http.MethodPost, "/v1/triggers/two:erase", "")
	b.await("#sentence", "its content is gone")
	b.do(chromedp.WaitNotPresent("dl.facts", chromedp.ByQuery))
}

// The focus is on the heading as soon as a page is there. A moment later it would take what somebody already types into
// the page's form.
func TestFocusComesWithThePage(t *testing.T) {
	b := dev(t).open(t, 1200, 900)
	b.visit("")
	b.await("#health", "Healthy")
	var focus string
	b.do(chromedp.Evaluate(`(async () => {
		[...document.querySelectorAll('header a')].find((a) => a.textContent === 'New').click();
		for (let i = 0; i < 50; i++) await undefined; // as long as nothing else runs
		return document.querySelector('main').innerText.slice(0, 3) + ' ' + document.activeElement.tagName;
	})()`, &focus, awaitPromise))
	if focus != "New H1" {
		t.Errorf("page and focus: %q", focus)
	}
}
