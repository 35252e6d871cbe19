package console_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/waterclock/waterclock/test/built"
)

// Who did what is filtered by who, what and trigger, and the filters stand in the address and in the lines for the
// command line. The page of a trigger leads to its own.
func TestFiltersOfWhoDidWhat(t *testing.T) {
	s := dev(t)
	for _, id := range []string{"pills", "tea"} {
		s.put(id, daily)
		s.call("POST", "/v1/triggers/"+id+":pause", `{"note":"of `+id+`"}`)
	}
	s.call("POST", "/v1/triggers/tea:resume", `{"note":"back"}`)
	file, err := built.Waterclock()
	if err != nil {
		t.Fatal(err)
	}
	const acts = `[aria-label="The newest acts over HTTP"]`
	b := s.open(t, 1280, 800)
	listed := func(want ...string) {
		t.Helper()
		b.await(acts+" tbody tr:nth-child("+fmt.Sprint(len(want))+")", "no log-in")
		var got []string
		b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery), chromedp.Evaluate(
			`[...document.querySelectorAll('`+acts+` tbody tr')].map((r) => r.children[2].textContent + ' ' +
				r.children[3].textContent)`, &got))
		for i, text := range got {
			got[i] = strings.TrimSpace(text)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("listed are %q, want %q", got, want)
		}
	}
	b.visit("trigger?id=tea")
	b.await("#sentence", "Scheduled")
	b.click("Who did what to it")
	b.await("h1", "System")
	listed("resume tea", "pause tea")
	line := b.line("main", "waterclock audit")
	out, err := exec.Command(file, strings.Fields(line)[1:]...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "back") || strings.Contains(string(out), "pills") {
		t.Errorf("%s: %v %s", line, err, out)
	}
	var first string
	b.do(chromedp.Evaluate(`document.querySelector('main h2').textContent`, &first))
	if first != "Who did what" {
		t.Errorf("the page begins with %q", first)
	}
	b.fill("main input[name=verb]", "pause"+kb.Enter)
	listed("pause tea")
	b.fill("main input[name=trigger]", kb.Backspace+kb.Enter)
	listed("pause tea", "pause pills")
	b.await("main .twins", "verb=pause")
	b.visit("system?actor=nobody")
	b.await("main", "None matches.")
	b.click("All acts")
	b.await(acts, "of pills")
}

// Whoever filters who did what goes on where they are: neither the form moves, nor the focus.
func TestFilteringMovesNoForm(t *testing.T) {
	s := dev(t)
	s.put("pills", daily)
	s.call("POST", "/v1/triggers/pills:pause", "")
	b := s.open(t, 1280, 800)
	b.visit("system")
	b.await(`[aria-label="The newest acts over HTTP"]`, "pause")
	const form = `[aria-label="Of who did what"]`
	at := func() (is struct {
		Above int
		Focus string
	},
	) {
		b.do(chromedp.Evaluate(fmt.Sprintf(`({above: [...document.querySelectorAll('h2')].filter((e) =>
			e.compareDocumentPosition(document.querySelector(%q)) & Node.DOCUMENT_POSITION_FOLLOWING).length,
			focus: document.activeElement.name})`, form), &is))
		return is
	}
	b.fill("main input[name=verb]", "resume")
	before := at()
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await("main", "None matches.")
	if after := at(); after != before || after.Focus != "verb" {
		t.Errorf("the form was %+v, is %+v", before, after)
	}
	b.fill("main input[name=verb]", kb.Backspace+kb.Enter)
	b.await(`[aria-label="The newest acts over HTTP"]`, "pause")
	if after := at(); after != before {
		t.Errorf("the form was %+v, is %+v", before, after)
	}
}
