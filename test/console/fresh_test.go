package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// Page Trigger takes no read barrier, however often it reads because the stream leaves facts out. After one's own act
// it takes one, and shows what the act has done.
func TestTriggerIsReadWithoutBarrier(t *testing.T) {
	s := dev(t)
	s.put("pills", daily)
	b := s.open(t, 1200, 900)
	b.visit("triggers")
	b.await("main table", "pills")
	b.take(&b.asked)
	b.states(`{partitions: 4, ready: 4, oldest_overdue_seconds: 0, omitted: 30}`)
	b.click("pills")
	b.await("#sentence", "Scheduled")
	b.do(chromedp.MouseEvent(input.MouseMoved, 5, 5)) // rows under the pointer would not be read anew
	time.Sleep(3 * time.Second)
	reads := func() (stale, fresh int) {
		for _, asked := range b.take(&b.asked) {
			path, query, _ := strings.Cut(asked, "?")
			if path != "/v1/triggers/pills" && path != "/v1/triggers/pills/explain" &&
				path != "/v1/triggers/pills/occurrences" {
				continue
			}
			if strings.Contains(query, "fresh=false") {
				stale++
			} else {
				fresh++
			}
		}
		return stale, fresh
	}
	if stale, fresh := reads(); stale < 6 || fresh != 0 {
		t.Errorf("%d reads were without the read barrier, and %d with it", stale, fresh)
	}
	b.click("Pause")
	b.await("dialog h2", "Pause: pills")
	b.fill("dialog input[name=note]", "on holiday")
	b.press("dialog button.act")
	b.await(".said", "Pause: done, pills")
	b.await("#sentence", "on holiday")
	if _, fresh := reads(); fresh < 2 {
		t.Errorf("after an act there were %d reads with the read barrier", fresh)
	}
}

// Nothing that a page reads has a payload in it: it is shown by :reveal alone, which is on record.
func TestPagesReadNoPayload(t *testing.T) {
	s := dev(t)
	const secret = "take pills"
	s.put("pills", daily)
	s.put("bare", `{"delay":"1h","channel":"orders"}`)
	b := s.open(t, 1200, 900)
	check := func(page string) {
		t.Helper()
		if strings.Contains(s.text("/console/"+page), secret) {
			t.Errorf("page %q has the payload with it", page)
		}
		for _, asked := range b.take(&b.asked) {
			if strings.HasPrefix(asked, "/v1/") && !strings.HasPrefix(asked, "/v1/live") &&
				!strings.Contains(asked, ":") && strings.Contains(s.text(asked), secret) {
				t.Errorf("page %q reads %s, which has the payload", page, asked)
			}
		}
	}
	for _, page := range []string{"", "triggers", "search?q=u_81", "search?q=pills", "trigger?id=pills"} {
		b.visit(page)
		b.await("main", "")
		b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery))
		check(page)
	}
	b.await("main", "Show the payload") // that there is one is said
	b.click("Pause")
	b.await("dialog h2", "Pause: pills")
	b.press("dialog button.act")
	b.await(".said", "Pause: done, pills")
	b.await("#sentence", "Paused")
	check("trigger?id=pills")
	b.click("Show the payload")
	b.await("main pre", secret)
	b.visit("trigger?id=bare")
	b.await("#sentence", "Scheduled")
	b.await("dl.facts", "Payloadnone")
}
