package console_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// controls marks what on the page takes the focus, and returns what each says.
const controls = `(() => {
	const all = [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')]
		.filter((e) => !e.disabled && e.checkVisibility());
	all.forEach((e, i) => { e.dataset.control = i; });
	return all.map((e) => e.tagName + ' ' + (e.ariaLabel || e.name || e.textContent).trim().slice(0, 40));
})()`

// focus says which of the controls has the focus, and what somebody who sees the page would miss of it.
const focus = `(() => {
	const e = document.activeElement;
	const {outlineStyle, outlineWidth} = getComputedStyle(e);
	const {top, bottom, left, right} = e.getBoundingClientRect();
	const unseen = bottom <= 0 || top >= innerHeight || right <= 0 || left >= innerWidth;
	return {at: Number(e.dataset.control ?? -1), text: e.tagName + ' ' + e.textContent.trim().slice(0, 40),
		missing: e === document.body ? '' : outlineStyle === 'none' || parseFloat(outlineWidth) === 0 ? 'an outline' :
			unseen ? 'a place in the window' : ''};
})()`

// Tab leads on each page to everything that a pointer can use, and out of it again; whatever has the focus is in the
// window, and has an outline.
func TestPagesByKeyboard(t *testing.T) {
	s := dev(t, "channels.sends.receipts=true")
	s.put("pills", daily)
	s.put("soon", `{"delay":"5m","channel":"orders","user_id":"u_82"}`)
	s.call("POST", "/v1/triggers/soon:run", "")
	s.refused("quick", `{"recurrence":"every:1s","channel":"orders"}`)
	answered("failed", "no_address")(s, "lost")
	s.letters("lost", "open", 1)
	s.call("POST", "/v1/triggers/pills:pause", "")
	s.call("POST", "/v1/triggers/pills:resume", "")
	b := s.open(t, 1280, 800)
	for _, p := range slices.Concat(pages, morePages) {
		if p.name == "now" {
			p.text = "2 due events"
		}
		b.visit(p.path)
		b.await(p.selector, p.text)
		b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery))
		var all []string
		b.do(chromedp.Evaluate(controls, &all))
		seen := make([]bool, len(all))
		var last struct {
			At            int
			Text, Missing string
		}
		for n := 0; ; n++ {
			b.do(chromedp.KeyEvent(kb.Tab), chromedp.Evaluate(focus, &last))
			if last.Missing != "" {
				t.Errorf("%s: %s has the focus without %s", p.name, last.Text, last.Missing)
			}
			if last.At >= 0 && last.At < len(all) {
				if seen[last.At] {
					break // once around
				}
				seen[last.At] = true
			}
			if n > 2*len(all)+20 {
				t.Errorf("%s: Tab does not lead out of %s", p.name, last.Text)
				break
			}
		}
		for i, reached := range seen {
			if !reached {
				t.Errorf("%s: no Tab leads to %s", p.name, all[i])
			}
		}
		if len(all) < 10 {
			t.Errorf("%s has the controls %q", p.name, all)
		}
	}
}

// morePages are pages as some addresses make them.
var morePages = []struct{ name, path, selector, text string }{
	{"all of the runbook", "runbook", "main", "Clocks change"},
	{"who did what, filtered", "system?verb=pause", "main table", "pills"},
	{"dead letters of a code", "deliveries?code=no_address", "main table", "lost"},
	{"refused commands of a code", "deliveries?refused=period_too_short", "main table", "quick"},
	{"ninety days", "forecast?bucket=1h&n=2160&by=priority", "main", "Counted as of"},
	{"triggers of a channel", "triggers?channel=orders", "main table", "pills"},
	{"no triggers", "triggers?channel=nobody", "main", "No trigger matches."},
	{"nobody's notifications", "user?id=nobody", "main", "The history has no notification of this user."},
	{"nothing found", "search?q=nobody", "main", "Nothing is named so"},
	{"no trigger", "trigger", "main", "No trigger is named."},
}

// Pages as some addresses make them, a bar that is read, and rows that are held: nothing overflows, axe-core finds
// nothing, and every control has a name.
func TestMorePagesFit(t *testing.T) {
	check, err := axe()
	if err != nil {
		t.Fatalf("%v: test/setup.sh installs it", err)
	}
	s := dev(t, "channels.sends.receipts=true")
	s.put("pills", daily)
	s.refused("quick", `{"recurrence":"every:1s","channel":"orders"}`)
	answered("failed", "no_address")(s, "lost")
	s.letters("lost", "open", 1)
	s.call("POST", "/v1/triggers/pills:pause", "")
	s.call("POST", "/v1/triggers/pills:resume", "")
	for _, view := range views {
		b := s.openIn(t, view)
		for _, p := range morePages {
			b.visit(p.path)
			b.await(p.selector, p.text)
			b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery))
			if strings.HasPrefix(p.path, "forecast") {
				b.do(chromedp.Focus("[role=slider]", chromedp.ByQuery), chromedp.KeyEvent(kb.End))
			}
			b.fits(check, p.name+", "+view.name)
			b.readAloud(p.name)
		}
		b.visit("triggers")
		b.partitions(5)
		b.click("System")
		b.await(owners, "owner-5")
		b.point(owners + " tbody td")
		b.partitions(4, 5)
		b.await(note, "1 new.")
		b.fits(check, "rows that are held, "+view.name)
		b.do(chromedp.MouseEvent(input.MouseMoved, 1, 1))
		b.close()
	}
}

// guarded is a server with log-in.
func guarded(t *testing.T) *server {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("acme "+strings.Repeat("v", 40)+" viewer eve\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dev(t, "auth.keys_file="+keys)
}
