package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/waterclock/waterclock/test/built"
)

// Each page names its command and its request, and what reads or writes the same on topics. Each command is one that
// the program has, and each read is answered.
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
		wants := []string{"waterclock ", "curl "}
		if p.name != "runbook" { // a document, which is on no topic
			wants = append(wants, "kcat ")
		}
		for _, want := range wants {
			if !slices.ContainsFunc(lines, func(l string) bool {
				return strings.HasPrefix(l, want) || strings.Contains(l, "| "+want)
			}) {
				t.Errorf("%s has no line with %s: %q", p.name, want, lines)
			}
		}
		for _, line := range lines {
			seen[line] = true
		}
	}
	for line := range seen {
		if strings.Contains(line, "authorization") {
			t.Errorf("nobody needs a key here: %s", line)
		}
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

// The lines of Triggers and Forecast for kcat have what these pages show, as far as events have it: which triggers
// match, and how many fire next when.
func TestLinesOfLists(t *testing.T) {
	s := dev(t)
	s.put("tea", inAnHour)
	s.put("coffee", inAnHour)
	s.put("toast", inAnHour)
	s.call("POST", "/v1/triggers/tea:pause", "")
	s.call("POST", "/v1/triggers/toast:pause", "")
	at := fmt.Sprint(s.call("GET", "/v1/triggers/coffee", "")["next_fire_at"])
	b := s.open(t, 1200, 900)
	run := func(path string) string {
		t.Helper()
		b.visit(path)
		line := b.line("main", "kcat ")
		out, err := exec.Command("sh", "-c", line).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		return string(out)
	}
	if out := run("triggers?state=PAUSED&key_prefix=te"); !strings.Contains(out, `"trigger":"tea"`) ||
		strings.Count(out, "\n") != 1 {
		t.Errorf("paused are %s", out)
	}
	if out := run("triggers?channel=orders"); strings.Count(out, "\n") != 3 {
		t.Errorf("on channel orders are %s", out)
	}
	if out := run("forecast?bucket=1m&n=120&by=channel"); !strings.Contains(out, `{"at":"`+at[:16]+`","next":`) {
		t.Errorf("next are %s, want one at %s", out, at)
	}
}

// A key that begins like a flag is none in the lines that name it.
func TestLinesOfAKeyLikeAFlag(t *testing.T) {
	s := dev(t)
	s.put("--help", inAnHour)
	file, err := built.Waterclock()
	if err != nil {
		t.Fatal(err)
	}
	b := s.open(t, 1200, 900)
	b.visit("trigger?id=--help")
	line := b.line("main", "waterclock explain")
	if out, err := exec.Command(file, strings.Fields(line)[1:]...).CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "Scheduled: it fires") {
		t.Errorf("%s: %v %s", line, err, out)
	}
	b.click("Pause")
	b.fill("dialog input[name=note]", "a")
	line = b.line("dialog", "waterclock pause")
	if out, err := exec.Command(file, strings.Fields(line)[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v %s", line, err, out)
	}
	s.happened("--help", "trigger.paused", "a")
}

// What the search box finds is read from its topics, too: a record as it is, and the events of the trigger or user.
func TestLinesOfSearch(t *testing.T) {
	s := dev(t, "topics.prefix=tools.")
	s.prefix = "tools."
	s.put("pills", `{"delay":"1h","channel":"orders","user_id":"u_81"}`)
	record := ""
	for deadline := time.Now().Add(30 * time.Second); record == ""; time.Sleep(50 * time.Millisecond) {
		items, _ := s.call("GET", "/v1/triggers/pills/events", "")["items"].([]any)
		if len(items) > 0 {
			registered, _ := items[0].(map[string]any)
			record = fmt.Sprint(registered["source"])
		}
		if time.Now().After(deadline) {
			t.Fatal("the history has no event of it")
		}
	}
	b := s.open(t, 1200, 900)
	for q, want := range map[string][]string{
		record: {`"delay":"1h"`, "trigger.registered"}, "pills": {"trigger.registered"}, "u_81": {"trigger.registered"},
	} {
		b.visit("search?q=" + url.QueryEscape(q))
		b.await("main table", "pills")
		var lines []string
		b.do(chromedp.Evaluate(`[...document.querySelectorAll('main .twins code')].map((c) => c.textContent)
			.filter((l) => l.startsWith('kcat '))`, &lines))
		if len(lines) != len(want) {
			t.Fatalf("of %s there are %q", q, lines)
		}
		for i, line := range lines {
			out, err := exec.Command("sh", "-c", line).CombinedOutput()
			if err != nil || !strings.Contains(string(out), want[i]) {
				t.Errorf("%s: %v %s", line, err, out)
			}
		}
	}
	b.visit("search?q=nobody")
	b.await("main", "Nothing is named so")
	b.await("main .twins", "waterclock search nobody")
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

// The lines of an act and of a new trigger are refused where the button is: the trigger has changed since, or is there.
func TestLinesHaveTheConditions(t *testing.T) {
	s := dev(t)
	s.put("pills", daily)
	file, err := built.Waterclock()
	if err != nil {
		t.Fatal(err)
	}
	b := s.open(t, 1200, 900)
	b.visit("trigger?id=pills")
	b.click("Pause")
	b.await("dialog h2", "Pause")
	ours, curl, kcat := b.line("dialog", "waterclock pause"), b.line("dialog", "curl "), b.kcat("dialog")
	s.call("PATCH", "/v1/triggers/pills", `{"tags":{"a":"b"}}`)
	if out, err := exec.Command(file, strings.Fields(ours)[1:]...).CombinedOutput(); err == nil {
		t.Errorf("%s: %s", ours, out)
	}
	if out, err := exec.Command("sh", "-c", curl+" -sf").CombinedOutput(); err == nil {
		t.Errorf("%s: %s", curl, out)
	}
	if out, err := exec.Command("sh", "-c", kcat).CombinedOutput(); err != nil {
		t.Errorf("%s: %v %s", kcat, err, out)
	}
	s.happened("pills", "command.rejected", "the trigger is at revision 2")
	if got := s.call("GET", "/v1/triggers/pills", "")["state"]; got != "PENDING" {
		t.Errorf("it was changed since, and is %v", got)
	}
	b.visit("new")
	b.fill("input[name=id]", "pills")
	b.await("main .twins", "triggers/pills")
	if out, err := exec.Command("sh", "-c", b.line("main", "curl ")+" -sf").CombinedOutput(); err == nil {
		t.Errorf("it is there already, and was replaced: %s", out)
	}
	if line := b.kcat("main"); !strings.Contains(line, `"if_absent":true`) {
		t.Error(line)
	}
}

// Where there is log-in, the lines for curl take the key from the variable that the command line takes it from: they
// read and act with it, and are refused without.
func TestLinesOfCurl(t *testing.T) {
	file, key := filepath.Join(t.TempDir(), "keys"), strings.Repeat("k", 40)
	if err := os.WriteFile(file, []byte("acme "+key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := dev(t, "auth.keys_file="+file)
	as := []string{"Authorization", "Bearer " + key}
	s.call("PUT", "/v1/triggers/pills", daily, as...)
	b := s.open(t, 1200, 900)
	b.allowed = []string{"status of 401"} // before log-in
	b.visit("trigger?id=pills")
	b.await("main", "API key or token")
	b.fill("input[type=password]", key)
	b.enter()
	b.await("#sentence", "Scheduled")
	run := func(line, key string) (string, error) {
		c := exec.Command("sh", "-c", line+" -sf")
		c.Env = append(os.Environ(), "WATERCLOCK_API_KEY="+key)
		out, err := c.Output()
		return string(out), err
	}
	reads := b.line("main", "curl ")
	if out, err := run(reads, key); err != nil || !strings.Contains(out, "Scheduled") {
		t.Errorf("%s: %v %s", reads, err, out)
	}
	if out, err := run(reads, ""); err == nil {
		t.Errorf("without a key, %s: %s", reads, out)
	}
	for _, c := range []struct{ act, state string }{{"Pause", "PAUSED"}, {"Cancel", "CANCELLED"}} {
		b.click(c.act)
		b.await("dialog h2", c.act)
		acts := b.line("dialog", "curl ")
		if out, err := run(acts, key); err != nil {
			t.Errorf("%s: %v %s", acts, err, out)
		}
		if got := s.call("GET", "/v1/triggers/pills", "", as...)["state"]; got != c.state {
			t.Errorf("after %s it is %v", acts, got)
		}
		b.visit("trigger?id=pills")
	}
	b.visit("new")
	b.fill("input[name=id]", "tea")
	b.await("main .twins", "triggers/tea")
	if out, err := run(b.line("main", "curl "), key); err != nil {
		t.Errorf("to register: %v %s", err, out)
	}
	s.call("GET", "/v1/triggers/tea", "", as...)
}

// kcat is the line that writes to Kafka within an element.
func (b *tab) kcat(within string) string {
	b.t.Helper()
	return b.line(within, "kcat -P")
}

// line is the line within an element that has a text.
func (b *tab) line(within, text string) (line string) {
	b.t.Helper()
	b.await(within+" .twins", text)
	b.do(chromedp.Evaluate(fmt.Sprintf(`[...document.querySelectorAll(%q)].map((c) => c.textContent)
		.find((l) => l.includes(%q))`, within+" .twins code", text), &line))
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

// The lines below the page of one occurrence are of that occurrence, as its sentence is.
func TestLinesOfAnOccurrence(t *testing.T) {
	s := dev(t)
	s.put("pills", daily)
	next, _ := s.call("GET", "/v1/triggers/pills/occurrences?n=1", "")["items"].([]any)
	if len(next) != 1 {
		t.Fatalf("the next occurrences are %v", next)
	}
	of, _ := next[0].(map[string]any)
	occurrence := fmt.Sprint(of["occurrence"])
	file, err := built.Waterclock()
	if err != nil {
		t.Fatal(err)
	}
	b := s.open(t, 1200, 900)
	b.visit("trigger?id=pills&occurrence=" + url.QueryEscape(occurrence))
	var sentence string
	b.await("#sentence", "Scheduled")
	b.do(chromedp.Text("#sentence", &sentence, chromedp.ByQuery))
	ours, curl := b.line("main", "waterclock explain"), b.line("main", "curl ")
	if !strings.Contains(ours, " --occurrence "+occurrence) || !strings.Contains(curl, "/explain?occurrence="+
		strings.ReplaceAll(url.QueryEscape(occurrence), "+", "%20")) {
		t.Errorf("the lines are %s and %s", ours, curl)
	}
	if out, err := exec.Command("sh", "-c", file+strings.TrimPrefix(ours, "waterclock")).CombinedOutput(); err != nil ||
		!strings.Contains(string(out), sentence) {
		t.Errorf("%s: %v %s", ours, err, out)
	}
}
