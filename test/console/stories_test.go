package console_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/test/services"
)

// eachHand tells a story twice: with a pointer, and by the keyboard alone. By either it takes so many clicks, of which
// each is a press of Enter by keyboard.
func (s *server) eachHand(t *testing.T, clicks int, story func(b *tab, id string)) {
	t.Helper()
	for _, hand := range []string{"pointer", "keyboard"} {
		b := s.open(t, 1200, 900)
		b.keys = hand == "keyboard"
		story(b, "by-"+hand)
		if b.clicks != clicks {
			t.Errorf("%s: %d clicks, want %d", hand, b.clicks, clicks)
		}
		b.close() // what its page would read later, when a test stops the engine, is not of the story
	}
}

// Support: from a user id somebody finds why a reminder did not come, and repairs it. It takes a search, a click to the
// cause, and two for the act.
func TestWhyItDidNotComeAndRepair(t *testing.T) { dev(t).repairs(t) }

func (s *server) repairs(t *testing.T) {
	t.Helper()
	s.eachHand(t, 4, func(b *tab, id string) {
		id = "repair-" + id
		user := "u_" + id
		s.put(id, strings.Replace(daily, "u_81", user, 1))
		s.call("POST", "/v1/triggers/"+id+":pause", `{"note":"on holiday"}`)
		b.visit("")
		b.await("#health", "Healthy")
		b.fill("header input", user)
		b.enter()
		b.await("h1", "Found for "+user)
		b.click(id)
		b.await("#sentence", "on holiday")
		b.await("main", "America/New_York")
		b.click("Resume")
		b.await("dialog h2", "Resume: "+id)
		if b.keys {
			b.do(chromedp.KeyEvent(kb.Escape), chromedp.WaitNotPresent("dialog", chromedp.ByQuery)) // nothing happens
			b.click("Resume")
			b.await("dialog h2", "Resume: "+id)
			b.clicks-- // it was a rehearsal
		}
		b.fill("dialog input[name=note]", "back early")
		b.press("dialog button.act")
		b.await("#sentence", "Scheduled: it fires")
		if state := s.call("GET", "/v1/triggers/"+id, "")["state"]; state != "PENDING" {
			t.Errorf("it is %v", state)
		}
		s.happened(id, "trigger.resumed", "back early")
	})
}

// Developer: somebody writes commands to Kafka, and sees them appear: one is accepted and fires, one is refused with
// code and hint: that takes two clicks. Two more, and a form registers a rule whose preview names a gap.
func TestCommandsAppearAndFire(t *testing.T) { dev(t).commandsAppear(t) }

func (s *server) commandsAppear(t *testing.T) {
	t.Helper()
	cl := s.client()
	defer cl.Close()
	write := func(key, command string) {
		t.Helper()
		if err := cl.ProduceSync(t.Context(), &kgo.Record{
			Topic: s.prefix + "commands", Key: []byte(key), Value: []byte(command),
		}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	s.eachHand(t, 4, func(b *tab, id string) {
		id = "command-" + id                  // stories of one server have triggers of their own
		b.allowed = []string{"status of 404"} // of what was refused there is no trigger
		b.visit("")
		b.await("#facts .newest", "Nothing yet")
		write(id, `{"op":"register","delay":"3s","channel":"`+id+`"}`)
		b.await("#facts .newest", "trigger.registered · "+id)
		b.await("#facts .newest", "occurrence.fired · "+id)
		if got := s.due(id); got != id {
			t.Errorf("topic due.%s has %q", id, got)
		}
		write("bad-"+id, `{"op":"register","recurrence":"every:1s","channel":"orders"}`)
		b.await("#facts .newest", "command.rejected · bad-"+id)
		b.press("#facts button")
		b.await("#facts tbody", "period_too_short")
		b.click("bad-" + id)
		b.await("#sentence", "Never registered: its command was refused ")
		b.click("New")
		b.fill("input[name=id]", "rule-"+id)
		if b.keys {
			b.tabUntil(`e.matches('select[name=kind]')`)
			b.do(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown))
		} else {
			b.do(chromedp.SetValue("select[name=kind]", "recurrence", chromedp.ByQuery), chromedp.Evaluate(
				`document.querySelector('select[name=kind]').dispatchEvent(new Event('change'))`, nil))
		}
		b.await("main form", "Rule: RRULE, cron: or every:")
		b.fill("input[name=start]", "2027-03-13T02:30")
		b.fill("input[name=timezone]", "America/New_York")
		b.await("#preview", "gap")
		b.click("Register")
		b.await("h1", "rule-"+id)
		b.await("#sentence", "Scheduled")
		if got := s.call("GET", "/v1/triggers/rule-"+id, "")["timezone"]; got != "America/New_York" {
			t.Errorf("its zone is %v", got)
		}
		s.happened("rule-"+id, "trigger.registered", "")
	})
}

// Operator: whether it is healthy, what falls due in 90 days and with which priority, and who did what. The first
// needs no click, the second three, their table one, and the third two.
func TestHerdAndWhoDidWhat(t *testing.T) { dev(t).herdAndActs(t) }

func (s *server) herdAndActs(t *testing.T) {
	t.Helper()
	s.put("pills", strings.Replace(daily, `"channel"`, `"priority":"high","channel"`, 1))
	s.call("POST", "/v1/triggers/pills:pause", `{"note":"on holiday"}`)
	s.call("POST", "/v1/triggers/pills:resume", "")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) { // until it is counted
		got := s.call("GET", "/v1/forecast?bucket=1h&n=2160&by=priority", "")
		if n := strings.Count(fmt.Sprint(got["items"]), "high:1"); n >= 89 { // one a day
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not counted: %v", got)
		}
	}
	s.eachHand(t, 6, func(b *tab, _ string) {
		b.visit("")
		b.await("#health", "Healthy")
		b.click("Forecast")
		b.click("Ninety days, by hour")
		b.click("By priority")
		b.await("main", "1 due, high 1")
		if b.keys {
			b.tabUntil(`e.matches('[role=slider]')`)
			b.do(chromedp.KeyEvent(kb.ArrowRight))
			b.await("main", "0 due")
		}
		b.press("main details summary")
		var rows, wide int
		b.do(chromedp.Evaluate(`document.querySelectorAll('main tbody tr').length`, &rows),
			chromedp.Evaluate(`document.querySelectorAll('main svg rect').length`, &wide))
		if rows < 89 || wide != 2160 {
			t.Errorf("%d rows, and a picture of %d hours", rows, wide)
		}
		b.click("System")
		b.await("main", "Who did what")
		b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery))
		var acts string
		b.do(chromedp.Evaluate(`[...document.querySelectorAll('main section, main table')].at(-1).textContent`, &acts))
		if !strings.Contains(acts, "pause") || !strings.Contains(acts, "on holiday") {
			t.Errorf("acts: %s", acts)
		}
		b.click("pills")
		b.await("h1", "pills")
	})
}

// Operator: what failed and what was refused, by cause, and what waits. A dead letter is redriven from there, after
// three clicks.
func TestFailuresByCause(t *testing.T) {
	dev(t, "channels.sends.receipts=true").failuresByCause(t, "waterclock")
}

// failuresByCause tells that story of a server whose workers are in groups that begin so.
func (s *server) failuresByCause(t *testing.T, group string) {
	t.Helper()
	b := s.open(t, 1200, 900)
	b.visit("deliveries") // no worker has read anything: nothing is said of what waits
	b.await("main", "Where due events go")
	b.do(chromedp.WaitNotPresent(`//th[.="Not read yet"]`, chromedp.BySearch))
	answered("failed", "no_address")(s, "first")
	s.reads(group+".sends", s.prefix+"due.sends")
	s.eachHand(t, 6, func(b *tab, id string) {
		answered("failed", "no_address")(s, id)
		s.refused("bad-"+id, `{"recurrence":"every:1s","channel":"orders"}`)
		b.visit("")
		b.await(".figures", "due events not read yet")
		b.await("main", "no_address")
		b.click("no_address")
		b.await("h2", "Dead letters with code no_address")
		b.await("main table", id)
		b.await("main", "Not read yet")
		b.press(`button[aria-label^="Redrive ` + id + `, "]`)
		b.await("dialog h2", "Redrive: "+id)
		b.fill("dialog input[name=note]", "has moved")
		b.press("dialog button.act")
		b.await(".said", "Redrive: done, "+id)
		s.happened(id, "delivery.redriven", "has moved")
		b.click("All codes")
		b.await("main", "By cause, of the newest")
		b.gone(id) // its row, above what is clicked: a click goes to where its target was
		b.click("period_too_short")
		b.await("main", "Refused commands with code period_too_short")
		b.await("main", "bad-"+id)
		b.click("System")
		b.await("main", "channels.sends.receipts")
	})
}

// happened fails the test if topic events has no such event of a trigger, with this detail.
func (s *server) happened(id, what, detail string) {
	s.t.Helper()
	var seen []string
	for _, r := range services.ReadTopic(s.t, strings.Split(s.kafka, ","), s.prefix+"events", kgo.ReadCommitted()) {
		if r.Attrs.IsControl() {
			continue
		}
		var e struct{ Trigger, Type, Detail string }
		if err := json.Unmarshal(r.Value, &e); err != nil {
			s.t.Fatal(err)
		}
		if e.Trigger != id {
			continue
		}
		if e.Type == what && e.Detail == detail {
			return
		}
		seen = append(seen, e.Type+" "+e.Detail)
	}
	s.t.Errorf("no event of %s is %s with detail %q: %q", id, what, detail, seen)
}

// reads makes a group begin to read a topic, and read nothing of it.
func (s *server) reads(group, topic string) {
	s.t.Helper()
	cl := s.client()
	defer cl.Close()
	admin := kadm.NewClient(cl)
	starts, err := admin.ListStartOffsets(s.t.Context(), topic)
	if err == nil {
		err = admin.CommitAllOffsets(s.t.Context(), group, starts.Offsets())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}
