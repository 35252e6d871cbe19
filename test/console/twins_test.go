package console_test

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/waterclock/waterclock/test/built"
)

// Each command that a page names is one that the program has.
func TestTwins(t *testing.T) {
	s := dev(t)
	s.call("PUT", "/v1/triggers/pills", daily)
	file, err := built.Waterclock()
	if err != nil {
		t.Fatal(err)
	}
	s.call("POST", "/v1/triggers/pills:run", "")
	s.put("soon", `{"delay":"0s","channel":"orders","user_id":"u_82"}`)
	s.notified("u_82", 1)
	b := s.open(t, 1200, 900)
	seen := map[string]bool{}
	for _, p := range pages[:len(pages)-1] {
		b.visit(p.path)
		b.await("main .twins", "The same")
		b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery)) // some name what was read
		var lines []string
		b.do(chromedp.Evaluate(`[...document.querySelectorAll('main .twins code')].map((c) => c.textContent)`, &lines))
		if len(lines) == 0 {
			t.Errorf("%s names no command", p.name)
		}
		for _, line := range lines {
			seen[line] = true
		}
	}
	for line := range seen {
		if rest, isOurs := strings.CutPrefix(line, "waterclock "); isOurs {
			if out, err := exec.Command(file, append(strings.Fields(rest), "--help")...).CombinedOutput(); err != nil {
				t.Errorf("%s: %s", line, out)
			}
		} else if strings.HasPrefix(strings.ReplaceAll(line, "'", ""), "curl http") { // a read
			if out, err := exec.Command("sh", "-c", line+" -sf").CombinedOutput(); err != nil {
				t.Errorf("%s: %v %s", line, err, out)
			}
		} else if strings.HasPrefix(line, "kcat -C") {
			if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
				t.Errorf("%s: %v %s", line, err, out)
			}
		}
	}
}

// The line for kcat below an act or a form does the same as its button when it is pasted, whatever the prefix of the
// topics is, and whatever a shell makes of the texts.
func TestLinesOfKcat(t *testing.T) {
	s := dev(t, "topics.prefix=tools.")
	s.prefix = "tools."
	s.put("pills", daily)
	b := s.open(t, 1200, 900)
	b.visit("trigger?id=pills")
	b.click("Pause")
	const note = `it's a "holiday" \n $HOME`
	b.fill("dialog input[name=note]", note)
	s.pastes(b.kcat("dialog"), "pills", "PAUSED")
	s.happened("pills", "trigger.paused", note)
	b.visit("new")
	b.fill("input[name=id]", "tea")
	b.fill("input[name=payload]", `{"say":"tea\nis ready"}`)
	s.pastes(b.kcat("main"), "tea", "PENDING")
	if got := fmt.Sprint(s.call("GET", "/v1/triggers/tea", "")["payload"]); got != "map[say:tea\nis ready]" {
		t.Errorf("its payload is %q", got)
	}
}

// kcat is the line that writes to Kafka within an element.
func (b *tab) kcat(within string) (line string) {
	b.t.Helper()
	b.await(within+" .twins", "kcat -P")
	b.do(chromedp.Evaluate(fmt.Sprintf(`[...document.querySelectorAll(%q)].map((c) => c.textContent)
		.find((l) => l.includes('kcat -P'))`, within+" .twins code"), &line))
	return line
}

// pastes runs a line in a shell, and waits until a trigger has a state.
func (s *server) pastes(line, id, state string) {
	s.t.Helper()
	if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v %s", line, err, out)
	}
	var got map[string]any
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		r, err := http.Get(s.url + "/v1/triggers/" + id)
		if err != nil {
			s.t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != http.StatusOK { // not registered yet
			continue
		}
		if got = s.call("GET", "/v1/triggers/"+id, ""); got["state"] == state {
			return
		}
	}
	s.t.Fatalf("after %s it is %v, want %s", line, got, state)
}
