package console_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// From a user id somebody sees what became of each notification on its channel, and from there the event that sent it.
func TestNotificationsOfUser(t *testing.T) {
	s := dev(t, "channels.sends.receipts=true")
	answered("delivered", "")(s, "told")
	answered("suppressed", "opted_out")(s, "kept-back")
	s.notified("u_7", 2)
	b := s.open(t, 1200, 900)
	b.visit("")
	b.fill("header input", "u_7"+kb.Enter)
	b.await("h1", "Found for u_7")
	// What became of each, and why. The state of either is FIRED.
	b.await("main table", "SUPPRESSED Not sent: the sends worker decided against it: the user has opted out")
	b.await("main table", "DELIVERED Delivered: the sends worker says so")
	b.click("All triggers of user u_7")
	b.await("main tbody", "FIRED SUPPRESSED")
	b.await("main tbody", "FIRED DELIVERED")
	b.click("kept-back")
	b.await("dl.facts", "FIRED SUPPRESSED")
	b.fill("header input", "u_7"+kb.Enter)
	b.click("Notifications of user u_7")
	b.await("h1", "User u_7")
	rows := func() (all []string) {
		b.do(chromedp.Evaluate(`[...document.querySelectorAll('main tbody tr')].map((r) => r.textContent)`, &all))
		return all
	}
	b.await("main tbody tr:nth-child(1)", "sends: SUPPRESSED")
	b.await("main tbody tr:nth-child(2)", "sends: DELIVERED")
	if got := rows(); len(got) != 2 || !strings.Contains(got[0], "kept-back") || !strings.Contains(got[1], "told") {
		t.Errorf("rows %q", got)
	}
	b.do(chromedp.Click(`main tbody tr:nth-child(2) td:nth-child(3) a`, chromedp.ByQuery))
	b.await("h1", "told")
	b.await("tr:target td:nth-child(2)", "occurrence.fired")
	b.await("#sentence", "Delivered")
	b.click("u_7") // and back, from the trigger
	b.await("h1", "User u_7")

	b.visit("trigger?id=told&occurrence=2020-01-01T00:00:00Z")
	b.await("main", "None of these is of occurrence Wed 2020-01-01 00:00:00 UTC.")
	b.visit("user?id=nobody")
	b.await("main", "The history has no notification of this user.")
}

// A page has 50 notifications. A new one appears on it by itself. The next ones follow a button, each once; what was
// read so is not read again.
func TestManyNotifications(t *testing.T) {
	s := dev(t)
	const n = 60
	for i := range n - 1 {
		s.put(fmt.Sprintf("many-%d", i), `{"delay":"0s","channel":"orders","user_id":"u_60"}`)
	}
	s.notified("u_60", n-1)
	b := s.open(t, 1200, 900)
	rows := func() (distinct int) {
		b.do(chromedp.Evaluate(
			`new Set([...document.querySelectorAll('main tbody tr')].map((r) => r.textContent)).size`, &distinct))
		return distinct
	}
	b.do(chromedp.ActionFunc(func(ctx context.Context) error { // a page that reads again each second
		_, err := page.AddScriptToEvaluateOnNewDocument(`const real = setInterval;
			window.setInterval = (f, ms) => real(f, ms / 10);`).Do(ctx)
		return err
	}))
	b.visit("user?id=u_60")
	b.await("main table", "many-58")
	s.put("many-59", `{"delay":"0s","channel":"orders","user_id":"u_60"}`)
	b.await("main table", "many-59")
	if got := rows(); got != 50 {
		t.Errorf("the first page has %d", got)
	}
	b.click("More")
	b.await("main table tbody tr:nth-child(60)", "many-")
	b.do(chromedp.WaitNotPresent("main p button", chromedp.ByQuery))
	b.take(&b.asked)
	time.Sleep(3 * time.Second)
	if asked := b.take(&b.asked); len(asked) > 0 {
		t.Errorf("it reads again: %q", asked)
	}
	if got := rows(); got != n {
		t.Errorf("both pages have %d", got)
	}
}

// notified waits until the history has so many notifications of a user, with what became of them.
func (s *server) notified(user string, n int) {
	s.t.Helper()
	var items []any
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		items, _ = s.call("GET", "/v1/users/"+user+"/notifications?limit=1000", "")["items"].([]any)
		if len(items) == n {
			return
		}
	}
	s.t.Fatalf("the history has %d notifications of %s: %v", len(items), user, items)
}

// A long life shows its newest events first, and all of them if asked.
func TestLongLife(t *testing.T) {
	s := dev(t)
	s.call(http.MethodPut, "/v1/triggers/long", `{"delay":"1h","channel":"orders"}`)
	for i := range 205 {
		s.call(http.MethodPost, "/v1/triggers/long:snooze", fmt.Sprintf(`{"for":"%dm","note":"move %d"}`, 60+i, i))
	}
	b := s.open(t, 1200, 900)
	b.visit("trigger?id=long")
	b.await("main", "The newest 200 events")
	b.await("main", "move 204")
	const first = `[...document.querySelectorAll('main td')].some((c) => c.textContent === 'trigger.registered')`
	var there bool
	if b.do(chromedp.Evaluate(first, &there)); there {
		t.Error("the newest 200 of 206 events have the first")
	}
	b.click("All events, from the first")
	b.await("main", "The first 200 events")
	if b.do(chromedp.Evaluate(first, &there)); !there {
		t.Error("all events begin without the first")
	}
	b.click("More")
	b.await("main", "All events, the oldest first")
	b.await("main", "move 204")
}
