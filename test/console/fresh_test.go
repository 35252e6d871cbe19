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
