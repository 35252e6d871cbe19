package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/test/services"
)

// An operator sees the dead letters of all tenants. The button of a row redrives that one, and no trigger of the
// operator's own tenant that has the same id. Nothing of another tenant is a link to a trigger of one's own.
func TestOthersTriggers(t *testing.T) {
	s := dev(t, "channels.sends.receipts=true")
	cl := s.client()
	defer cl.Close()
	write := func(topic, key, value string) {
		t.Helper()
		if err := cl.ProduceSync(t.Context(), &kgo.Record{
			Topic: s.prefix + topic, Key: []byte(key), Value: []byte(value),
		}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	write("commands", "acme/pills", `{"op":"register","delay":"0s","channel":"sends"}`)
	write("commands", "acme/bad", `{"op":"register","recurrence":"every:1s","channel":"orders"}`)
	answered("failed", "no_address")(s, "pills")
	s.explains("pills", "failed")
	write("receipts", "acme/pills", fmt.Sprintf(`{"due_id":%q,"channel":"sends","outcome":"failed","code":"no_user"}`,
		s.ceID("sends", "acme/pills")))
	b := s.open(t, 1200, 900)
	b.visit("deliveries?code=no_user")
	const row = `[aria-label="The newest first"] tbody tr`
	for deadline := time.Now().Add(30 * time.Second); ; b.visit("deliveries?code=no_user") { // until it is there
		var there bool
		b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery),
			chromedp.Evaluate(`!!document.querySelector('button[aria-label^=Redrive]')`, &there))
		if there {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("there is no dead letter of acme")
		}
	}
	b.await(row+" td:nth-child(2)", "acme")
	b.press(`button[aria-label^="Redrive pills of tenant acme, "]`)
	b.await("dialog h2", "Redrive: pills of tenant acme")
	b.await("dialog .twins", "--tenant acme")
	b.fill("dialog input[name=note]", "has moved")
	b.press("dialog button.act")
	b.await(".said", "Redrive: done, pills of tenant acme")
	s.happened("acme/pills", "delivery.redriven", "has moved")
	if state := s.call("GET", "/v1/triggers/pills", "")["state"]; state != "FAILED" {
		t.Errorf("pills of the operator's own tenant is %v", state)
	}
	links := func(text string) (all []string) {
		b.do(chromedp.Evaluate(fmt.Sprintf(`[...document.querySelectorAll('main tbody tr')].filter((r) =>
			r.textContent.includes(%q)).flatMap((r) => [...r.querySelectorAll('a.key')].map((a) => a.href))`, text),
			&all))
		return all
	}
	b.visit("deliveries?refused=period_too_short")
	b.await("main", "bad")
	if got := links("acme"); len(got) != 0 {
		t.Errorf("a command of acme leads to %s", got)
	}
	b.visit("system")
	b.await("main", "has moved")
	if got := links("acme"); len(got) != 0 {
		t.Errorf("an act on a trigger of acme leads to %s", got)
	}
}

// ceID is that of the first due event of a key on a channel.
func (s *server) ceID(channel, key string) string {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		for _, r := range services.ReadTopic(s.t, strings.Split(s.kafka, ","), s.prefix+"due."+channel,
			kgo.ReadCommitted()) {
			for _, h := range r.Headers {
				if string(r.Key) == key && h.Key == "ce_id" {
					return string(h.Value)
				}
			}
		}
	}
	s.t.Fatalf("there is no due event of %s", key)
	return ""
}

// A dialog keeps the trigger as it was when somebody opened it: the page reads on below it, and says that something
// happened, and the act still names the revision that they saw.
func TestDialogKeepsWhatWasSeen(t *testing.T) {
	s := dev(t)
	s.put("pills", inAnHour)
	b := s.open(t, 1200, 900)
	b.allowed = []string{"status of 412"}
	b.visit("trigger?id=pills")
	b.await("#sentence", "Scheduled")
	b.click("Cancel")
	b.await("dialog h2", "Cancel: pills")
	s.call("PATCH", "/v1/triggers/pills", `{"delay":"5h"}`, "Content-Type", "application/merge-patch+json")
	b.await(note, "Something happened to it.")
	b.do(chromedp.Click(`dialog button.act`, chromedp.ByQuery))
	b.await("dialog .fault", "It has changed meanwhile")
	if state := s.call("GET", "/v1/triggers/pills", "")["state"]; state != "PENDING" {
		t.Errorf("it is %v", state)
	}
}

// A firing changes no revision. So a skip names the occurrence that its dialog names, and a snooze reads the trigger
// once more: one that has fired while the dialog was open is not left out as the next one, and does not fire a second
// time.
func TestFiresWhileDialogIsOpen(t *testing.T) {
	s := dev(t)
	for _, c := range []struct{ act, body, says, refusal string }{
		{"Skip", `{"include":[%q,"2060-01-01T09:00:00Z"],"channel":"orders"}`, "is left out", "has fired, or was removed"},
		{"Snooze", `{"fire_at":%q,"channel":"orders","user_id":"u_7"}`, "It fires later", "It has fired meanwhile"},
	} {
		id := "open-" + c.act
		at := time.Now().Add(20 * time.Second).UTC().Truncate(time.Second)
		s.put(id, fmt.Sprintf(c.body, at.Format(time.RFC3339)))
		b := s.open(t, 1200, 900)
		b.allowed = []string{"status of 404"}
		b.visit("trigger?id=" + id)
		b.await("#sentence", "Scheduled")
		b.click(c.act)
		b.await("dialog p", c.says)
		if c.act == "Skip" {
			b.await("dialog p", at.Format("Mon 2006-01-02 15:04:05 UTC"))
			b.await("dialog .twins", "--occurrence "+at.Format("2006-01-02T15:04:05.000Z"))
		}
		for deadline := time.Now().Add(time.Minute); s.call("GET", "/v1/triggers/"+id, "")["last_fired_at"] == nil; {
			if time.Now().After(deadline) {
				t.Fatalf("%s does not fire", id)
			}
			time.Sleep(100 * time.Millisecond)
		}
		before := s.call("GET", "/v1/triggers/"+id, "")
		b.press("dialog button.act")
		b.await("dialog .fault", c.refusal)
		after := s.call("GET", "/v1/triggers/"+id, "")
		if after["next_fire_at"] != before["next_fire_at"] || after["state"] != before["state"] {
			t.Errorf("%s: it was %v, and is %v", c.act, before, after)
		}
	}
}

// stub makes requests of a method whose address has a text be answered so, without the server; "" loses the answer.
func (b *tab) stub(method, has string, status int, body string) {
	b.t.Helper()
	b.do(chromedp.Evaluate(fmt.Sprintf(`(() => {
		const real = window.fetch;
		window.fetch = (url, how = {}, ...more) => {
			const [method, has, status, body] = [%q, %q, %d, %q];
			if ((how.method || 'GET') !== method || !String(url).includes(has)) return real(url, how, ...more);
			return body ? Promise.resolve(new Response(body, {status})) : Promise.reject(new TypeError('cut'));
		};
	})()`, method, has, status, body), nil))
}

// What was not done is not called done: a redrive that sent nothing, an act that is not decided yet. Of a run whose
// answer is lost nobody knows, and its revision guards nothing, so the dialog does not repeat it.
func TestNotDone(t *testing.T) {
	s := dev(t, "channels.sends.receipts=true")
	s.openLetters("pills", 1)
	b := s.open(t, 1200, 900)
	b.visit("trigger?id=pills")
	b.await("main .acts", "Redrive")
	b.stub("POST", "/v1/dead-letters:redrive", 200, `{"redriven":0,"duplicate":0,"expired":1,"done":false}`+"\n"+
		`{"redriven":0,"duplicate":1,"expired":1,"done":true}`+"\n")
	b.click("Redrive")
	b.press("dialog button.act")
	b.await("dialog .fault", "Nothing was sent again: 1 expired, 1 redriven or delivered before.")
	b.dismiss()
	b.stub("POST", "/v1/dead-letters:redrive", 200, `{"redriven":0,"done":false}`+"\n"+
		`{"status":503,"code":"unavailable","detail":"Kafka is away"}`+"\n")
	b.click("Redrive")
	b.press("dialog button.act")
	b.await("dialog .fault", "Kafka is away")
	var fault string
	if b.do(chromedp.Text("dialog .fault", &fault, chromedp.ByQuery)); !strings.HasPrefix(fault, "Kafka is away") {
		t.Errorf("the dialog says %s", fault)
	}
	b.dismiss()
	b.stub("POST", "pills:run", 0, "")
	b.click("Run now")
	b.press("dialog button.act")
	b.await("dialog .fault", "A repeat may fire it twice")
	b.do(chromedp.WaitVisible("dialog button.act[disabled]", chromedp.ByQuery))
	b.dismiss()
	b.stub("DELETE", "/v1/triggers/pills", 202, `{"trigger_id":"pills"}`)
	b.click("Cancel")
	b.press("dialog button.act")
	b.await(".said", "Cancel: written, not decided yet, pills")
	b.do(chromedp.WaitNotPresent("dialog", chromedp.ByQuery))
	var focus string // where somebody goes on who works by keyboard
	if b.do(chromedp.Evaluate(`document.activeElement.textContent`, &focus)); focus != "Cancel" {
		t.Errorf("the focus is on %q", focus)
	}
	if state := s.call("GET", "/v1/triggers/pills", "")["state"]; state != "PENDING" {
		t.Errorf("it is %v", state)
	}
}

// Whoever closes the dialog of an act before its answer still learns that it failed: below the page, as they would
// learn that it is done.
func TestFailsBehindAClosedDialog(t *testing.T) {
	s := dev(t)
	s.put("pills", daily)
	b := s.open(t, 1200, 900)
	b.visit("trigger?id=pills")
	b.await("#sentence", "Scheduled")
	for _, c := range []struct {
		act, method, has string
		status           int
		body, says       string
	}{
		{"Cancel", "DELETE", "/v1/triggers/pills", 412, `{"status":412,"detail":"is 2"}`, "It has changed meanwhile."},
		{"Pause", "POST", "pills:pause", 503, `{"status":503,"detail":"Kafka is away"}`, "Kafka is away"},
		{
			"Run now", "POST", "pills:run", 0, "", "The server does not answer: it may have happened, or not. " +
				"Read it again before you repeat it. A repeat may fire it twice: read what happened.",
		},
	} {
		b.stub(c.method, c.has, c.status, c.body)
		b.do(chromedp.Evaluate(`(() => {
			const stub = window.fetch;
			window.fetch = async (url, how = {}, ...more) => {
				if ((how.method || 'GET') !== 'GET') await new Promise((done) => { window.answer = done; });
				return stub(url, how, ...more);
			};
		})()`, nil))
		b.click(c.act)
		b.press("dialog button.act")
		b.do(chromedp.WaitVisible("dialog button.act[disabled]", chromedp.ByQuery), chromedp.KeyEvent(kb.Escape),
			chromedp.WaitNotPresent("dialog", chromedp.ByQuery), chromedp.Evaluate(`window.answer()`, nil))
		b.await(".said", c.act+": failed, pills. "+c.says)
	}
}

// Somebody works by keyboard, and has the focus on an act when the trigger fires. A button that goes leaves the focus
// on the group of acts, where Enter does nothing: it does not become the one that comes behind it. One that stays keeps
// it.
func TestFocusStaysOffOtherActs(t *testing.T) {
	s := dev(t, "channels.sends.receipts=true")
	b := s.open(t, 1200, 900)
	focus := func(want string) {
		t.Helper()
		var got string
		b.do(chromedp.Evaluate(`document.activeElement.ariaLabel || document.activeElement.textContent`, &got))
		if got != want {
			t.Errorf("the focus is on %.60q, want %q", got, want)
		}
	}
	const group = "Acts on this trigger"
	for act, want := range map[string]string{"Pause": group, "Run now": "Run now"} {
		id := "fires-" + act[:3]
		s.put(id, `{"delay":"12s","channel":"sends"}`)
		b.visit("trigger?id=" + id)
		b.await("#sentence", "Scheduled")
		b.tabUntil(fmt.Sprintf(`e.matches('main .acts button') && e.textContent === %q`, act))
		b.await("dl.facts", "IN_FLIGHT")
		focus(want)
		if want != group {
			continue
		}
		b.await(`main [role=status]`, "Pause is not offered any more.")
		b.do(chromedp.KeyEvent(kb.Enter), chromedp.WaitNotPresent("dialog", chromedp.ByQuery))
	}
	s.put("pills", daily)
	b.visit("trigger?id=pills")
	b.keys = true
	b.click("Pause") // an act that takes its own button away
	b.press("dialog button.act")
	b.await("#sentence", "Paused")
	b.await("main .acts", "Resume")
	focus(group)
	b.click("Resume")
	b.press("dialog button.act")
	b.await("#sentence", "Scheduled")
}
