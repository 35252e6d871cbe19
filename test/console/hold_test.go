package console_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// partitions stubs the partitions that System reads every three seconds.
func (b *tab) partitions(of ...int) {
	b.t.Helper()
	var items []string
	for _, p := range of {
		items = append(items, fmt.Sprintf(`{"partition":%d,"ready":true,"owner":"owner-%[1]d","term":1,"pending":0}`, p))
	}
	b.stub("GET", "/v1/partitions", 200, `{"items":[`+strings.Join(items, ",")+`]}`)
}

// point moves the pointer onto an element, and returns where that is.
func (b *tab) point(selector string) (at struct {
	X, Y float64
	Text string
},
) {
	b.t.Helper()
	b.do(chromedp.ScrollIntoView(selector, chromedp.ByQuery))
	at = b.spot(selector)
	b.do(chromedp.MouseEvent(input.MouseMoved, at.X+8, at.Y+8),
		chromedp.WaitVisible(selector+":hover", chromedp.ByQuery))
	return at
}

// away moves the pointer to where no list is.
func (b *tab) away() {
	b.t.Helper()
	b.do(chromedp.MouseEvent(input.MouseMoved, 3, 3))
}

const (
	owners = `[aria-label="One owner each"]`
	note   = ".news.held"
)

// Rows that come while the pointer is on a list, or the focus of the keyboard in it, move none. A note says how many
// there are, and how many are gone. They are put in when the pointer or the focus leaves, or when somebody asks.
func TestRowsStay(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.visit("triggers")
	b.partitions(5, 6)
	b.click("System")
	b.await(owners, "owner-5")

	before := b.point(owners + " tbody tr:nth-child(2)") // of 6
	b.partitions(1, 2, 6)
	b.await(note, "2 new. 1 gone.")
	if after := b.spot(owners + " tbody tr:nth-child(2)"); after != before {
		t.Errorf("under the pointer was %+v, is %+v", before, after)
	}
	b.away()
	b.await(owners+" tbody tr:nth-child(1)", "owner-1")
	b.await(owners+" tbody tr:nth-child(3)", "owner-6")
	b.do(chromedp.WaitNotPresent(note, chromedp.ByQuery))

	b.point(owners + " tbody tr:nth-child(2)")
	b.partitions(0, 1, 2, 6)
	b.await(note, "1 new.")
	b.do(chromedp.Evaluate(`document.querySelector('.news.held button').click()`, nil)) // the pointer stays
	b.await(owners+" tbody tr:nth-child(1)", "owner-0")
	b.do(chromedp.WaitNotPresent(note, chromedp.ByQuery))
	b.away()

	b.keys = true
	focus := fmt.Sprintf(`e.matches(%q)`, owners)
	b.tabUntil(focus)
	b.partitions(7, 0, 1, 2, 6)
	b.await(note, "1 new.")
	b.await(owners+" tbody tr:nth-child(1)", "owner-0")
	b.tabUntil(`e.matches('main .twins summary')`) // the focus has left
	b.await(owners+" tbody tr:nth-child(1)", "owner-7")
}

// A list that grows moves what is below it. So it waits, too, while the pointer is on another list; and so does a line
// that says what went wrong.
func TestListsAboveThePointerStay(t *testing.T) {
	s := dev(t)
	s.put("tea", inAnHour)
	b := s.open(t, 1200, 900)
	b.do(emulation.SetTimezoneOverride("UTC"))
	b.visit("triggers")
	b.stub("GET", "/v1/dead-letters", 200, `{"groups":[{"value":"no_address","count":7}]}`)
	b.click("Now")
	b.await("#health", "Healthy")
	letters := `[aria-label="Dead letters by code"] tbody tr`
	b.await(letters, "no_address")
	before := b.point(letters)
	b.stub("GET", "/v1/endpoints", 200, `{"items":[{"origin":"http://127.0.0.1:1","tenant":"default",`+
		`"state":"open","last_code":"refused"}]}`)
	b.await("#health", "1 thing is not well")
	b.await(note, "1 new.")
	if after := b.spot(letters); after != before {
		t.Errorf("under the pointer was %+v, is %+v", before, after)
	}
	b.allowed = []string{"status of 503"}
	b.stub("GET", "/v1/partitions", 503, `{"detail":"nobody answers here"}`)
	b.await(note, "nobody answers here")
	if after := b.spot(letters); after != before {
		t.Errorf("under the pointer was %+v, is %+v", before, after)
	}
	b.away()
	b.await("main li", "Endpoint http://127.0.0.1:1 is open: refused.")
	b.await("main .fault", "nobody answers here")
}

// Page Trigger reads on while somebody is about to use something on it, with a stream and without one. What has changed
// is told, and drawn when they leave.
func TestTriggerIsReadWhileRowsStay(t *testing.T) {
	for name, without := range map[string]bool{"with a stream": false, "without one": true} {
		s := dev(t)
		s.put("pills", daily)
		b := s.open(t, 1200, 900)
		b.visit("triggers")
		if without {
			b.stub("GET", "/v1/live", 503, `{"status":503}`)
		} else {
			b.states(`{partitions: 4, ready: 4, oldest_overdue_seconds: 0, omitted: 30}`)
		}
		b.await("main table", "pills")
		b.click("pills")
		b.await("#sentence", "Scheduled")
		const next = `[aria-label="The next occurrences"] tbody tr`
		b.await(next, "America/New_York")
		b.do(chromedp.Sleep(1500 * time.Millisecond)) // it is read once more after a second
		before := b.point(next)
		late := func(ago string) {
			b.stub("GET", "/explain", 200, `{"code":"overdue","sentence":"It was due `+ago+` ago.","evidence":[`+
				`{"event_id":"e","source":"s","text":"One."},{"event_id":"f","source":"s","text":"Two."}]}`)
		}
		late("5 s")
		b.await(note, "Something happened to it.")
		if after := b.spot(next); after != before {
			t.Errorf("%s: under the pointer was %+v, is %+v", name, before, after)
		}
		b.await("#sentence", "Scheduled")
		b.away()
		b.await("#sentence", "It was due 5 s ago.")
		b.await("#evidence", "Two.")
		b.do(chromedp.WaitNotPresent(note, chromedp.ByQuery))
		b.point(next)
		late("9 s") // nothing has happened by that
		var says string
		b.do(chromedp.Sleep(4*time.Second), chromedp.Evaluate(`document.querySelector('.news.held')?.textContent || ''`,
			&says))
		if says != "" {
			t.Errorf("%s: it says %q", name, says)
		}
		b.away()
		b.await("#sentence", "It was due 9 s ago.")
		b.close()
	}
}

// hurry makes what a page reads each so many milliseconds be read each second.
func (b *tab) hurry(every ...int) {
	b.t.Helper()
	b.do(chromedp.Evaluate(fmt.Sprintf(`(() => {
		const soon = %s;
		for (const name of ['setTimeout', 'setInterval']) {
			const real = window[name];
			window[name] = (f, ms, ...more) => real(f, soon.includes(ms) ? 1000 : ms, ...more);
		}
	})()`, strings.ReplaceAll(fmt.Sprint(every), " ", ",")), nil))
}

// lateness is an answer in which so many due events have fired, each in a minute of its own.
func (s *server) lateness(fires int) string {
	s.t.Helper()
	l := s.call("GET", "/v1/lateness?window=1h", "")
	items, _ := l["items"].([]any)
	for i := range fires {
		item, _ := items[i].(map[string]any)
		item["fires"], item["p50_ms"], item["p99_ms"], item["max_ms"] = 1, 1, 1, 1
	}
	all := map[string]any{"fires": fires, "p50_ms": 1, "p99_ms": 1, "max_ms": 1}
	l["fires"], l["p50_ms"], l["p99_ms"], l["max_ms"], l["channels"] = fires, 1, 1, 1, map[string]any{"orders": all}
	text, err := json.Marshal(l)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// The picture of Now is there before anything has fired, so that its first bar moves nothing. What stands in a table
// that nobody sees does not wait.
func TestFirstFireMovesNothing(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.visit("triggers")
	b.stub("GET", "/v1/live", 503, `{"status":503}`)
	b.stub("GET", "/v1/dead-letters", 200, `{"groups":[{"value":"no_address","count":7}]}`)
	b.click("Now")
	b.await("main", "Nothing has fired in the last hour.")
	const letters = `[aria-label="Dead letters by code"] tbody tr`
	b.await(letters, "no_address")
	b.await("#health", "Healthy")
	before := b.point(letters)
	for fires := 1; fires < 3; fires++ {
		b.stub("GET", "/v1/lateness", 200, s.lateness(fires))
		b.await("main", fmt.Sprintf("In the last hour %d due event", fires))
		if after := b.spot(letters); after != before {
			t.Errorf("at fire %d under the pointer was %+v, is %+v", fires, before, after)
		}
		var says string
		b.do(chromedp.Evaluate(`document.querySelector('.news.held')?.textContent || ''`, &says))
		if says != "" {
			t.Errorf("at fire %d it says %q", fires, says)
		}
	}
	b.await(".whole", "2 ms") // of at most 1 ms: half of 1 ms would be none
	b.await(".half", "1 ms")
}

// On Deliveries no line, no column and no list moves what is under the pointer, and no link leads to something else.
func TestDeliveriesStay(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.visit("triggers")
	b.hurry(10000, 15000, 60000)
	channels := func(fields string) {
		b.stub("GET", "/v1/channels", 200, `{"items":[{"name":"push","topic":"p","partitions":4`+fields+`}]}`)
	}
	codes := func(of string, n int, example string) {
		b.stub("GET", of+"?group_by=code", 200, fmt.Sprintf(`{"groups":[{"value":"no_address","count":%d,"sample":`+
			`{"trigger_id":%q,"tenant":"default"}}]}`, n, example))
	}
	channels("")
	codes("/v1/dead-letters", 7, "first")
	b.click("Deliveries")
	b.await("main", "None is open.")
	const row = `[aria-label="Where due events go"] tbody td:nth-child(3)`
	b.await(row, "4")
	b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery))
	before := b.point(row)
	stays := func(what string) {
		t.Helper()
		if after := b.spot(row); after != before {
			t.Errorf("%s: under the pointer was %+v, is %+v", what, before, after)
		}
	}
	channels(`,"waiting":500000`)
	b.await(note, "1 new.")
	stays("a column that comes")
	codes("/v1/rejected", 9, "third")
	b.await("main", "By cause, of the newest 9:")
	b.await(note, "2 new.")
	stays("a line that comes")
	b.stub("GET", "/v1/dead-letters?limit", 200, `{"items":[{"trigger_id":"first","tenant":"default","status":"open",`+
		`"partition":0,"offset":1,"code":"no_address","channel":"sends","attempts":1}]}`)
	b.await(note, "3 new.")
	stays("a letter that comes")
	var page string
	if b.do(chromedp.Text("main", &page, chromedp.ByQuery)); strings.Contains(page, "None is open.") {
		t.Error("it says that no letter is open, while one waits")
	}
	b.away()
	b.await(`[aria-label="Where due events go"] th:nth-child(4)`, "Not read yet")
	b.await(`[aria-label="The newest first"]`, "first")

	const example = ".short li a.key"
	b.point(example)
	codes("/v1/dead-letters", 8, "second")
	b.await(".short", "8 no_address")
	b.await(example, "first")
	b.away()
	b.await(example, "second")
}

// A page of a list that goes on pushes out its last rows when others come: they are not gone. From a list to the button
// below it is a way: what waits is not put in while somebody is on it, nor while they are on the button.
func TestRowsOfAPageStay(t *testing.T) {
	s := dev(t)
	s.put("pills", daily)
	act := func(n int) {
		t.Helper()
		for i := range n {
			s.call("POST", "/v1/triggers/pills:"+[]string{"pause", "resume"}[i%2], "")
		}
	}
	act(30)
	b := s.open(t, 1200, 900)
	b.visit("triggers")
	b.hurry(10000)
	b.click("System")
	const acts = `[aria-label="The newest acts over HTTP"] tbody tr`
	b.await(acts+":nth-child(20)", "pause")
	const more = `//main//button[.="More"]`
	b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery), chromedp.ScrollIntoView(more, chromedp.BySearch))
	before := b.point(acts + ":nth-child(20)")
	act(2)
	b.await(note, "2 new.")
	var says string
	if b.do(chromedp.Text(note, &says, chromedp.ByQuery)); strings.Contains(says, "gone") {
		t.Errorf("it says %q", says)
	}
	var at struct{ X, Y float64 }
	b.do(chromedp.Evaluate(`(() => { const {x, y} = [...document.querySelectorAll('main button')].find((e) =>
		e.textContent === 'More').getBoundingClientRect(); return {x, y}; })()`, &at))
	b.do(chromedp.MouseEvent(input.MouseMoved, at.X+8, at.Y-2), // between the two
		chromedp.MouseEvent(input.MouseMoved, at.X+8, at.Y+8),
		chromedp.WaitVisible("main button:hover", chromedp.ByQuery), chromedp.Sleep(2*time.Second))
	if after := b.spot(acts + ":nth-child(20)"); after != before {
		t.Errorf("with the pointer on More, the last row was %+v, is %+v", before, after)
	}
	b.do(chromedp.Evaluate(`document.querySelector('.news.held')?.textContent || ''`, &says))
	if !strings.HasPrefix(says, "2 new.") { // rows are alike: whether they have come is said there
		t.Errorf("with the pointer on More, it says %q", says)
	}
	b.away()
	b.do(chromedp.WaitNotPresent(note, chromedp.ByQuery))
	b.do(chromedp.Click(more, chromedp.BySearch))
	b.await(acts+":nth-child(32)", "pause")
}

// The minutes of a forecast pass: what is behind us has not gone from the list.
func TestPassedMinutesAreNotGone(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.visit("triggers")
	b.hurry(30000)
	from := func(first int) {
		var items []string
		for i := first; i < first+30; i++ {
			items = append(items, fmt.Sprintf(`{"at":"2026-01-01T09:%02d:00Z","nominal":1,"due":1,"by":{}}`, i))
		}
		b.stub("GET", "/v1/forecast", 200, `{"as_of":"2026-01-01T09:00:00Z","silent_partitions":[],"items":[`+
			strings.Join(items, ",")+`]}`)
	}
	from(0)
	b.click("Forecast")
	const row = `[aria-label="What falls due, recurrences included"] tbody tr:nth-child(9)`
	b.await(row, "09:08:00")
	before := b.point(row)
	for _, passed := range []int{5, 30} {
		from(passed)
		b.await(note, fmt.Sprint(passed, " new."))
		var says string
		if b.do(chromedp.Text(note, &says, chromedp.ByQuery)); strings.Contains(says, "gone") {
			t.Errorf("after %d minutes it says %q", passed, says)
		}
	}
	if after := b.spot(row); after != before {
		t.Errorf("under the pointer was %+v, is %+v", before, after)
	}
}

// By keyboard: Escape puts in what waits for the list that has the focus. The focus stays in it, and is on the heading
// of the page if there is no list any more.
func TestEscapeShowsWhatWaits(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.visit("triggers")
	b.partitions(5, 6)
	b.click("System")
	b.await(owners, "owner-5")
	b.away()
	b.keys = true
	b.tabUntil(fmt.Sprintf(`e.matches(%q)`, owners))
	focus := func(want string) {
		t.Helper()
		var got string
		b.do(chromedp.Evaluate(`document.activeElement.ariaLabel || document.activeElement.textContent`, &got))
		if got != want {
			t.Errorf("the focus is on %.60q, want %q", got, want)
		}
	}
	b.partitions(4, 5, 6)
	b.await(note, "1 new.")
	var says string
	b.do(chromedp.Text(note, &says, chromedp.ByQuery), chromedp.KeyEvent(kb.Escape),
		chromedp.WaitNotPresent(note, chromedp.ByQuery))
	b.await(owners+" tbody tr:nth-child(1)", "owner-4")
	focus("One owner each")
	b.do(chromedp.KeyEvent(kb.ArrowRight)) // somebody goes on
	b.partitions()
	b.await(note, "3 gone.")
	b.do(chromedp.KeyEvent(kb.Escape), chromedp.WaitNotPresent(owners, chromedp.ByQuery), chromedp.Sleep(time.Second))
	focus("System")
	if says != "1 new. Show or press Escape" {
		t.Errorf("it says %q", says)
	}
}

// Whoever has closed the dialog of an act is at something else when its answer comes: it moves nothing there.
func TestLateAnswerMovesNothing(t *testing.T) {
	s := dev(t)
	s.put("pills", daily)
	b := s.open(t, 1200, 900)
	b.visit("trigger?id=pills")
	b.await("#sentence", "Scheduled")
	b.do(chromedp.Evaluate(`(() => {
		const real = window.fetch;
		window.fetch = async (url, how = {}, ...more) => {
			if ((how.method || 'GET') !== 'GET') await new Promise((done) => { window.answer = done; });
			return real(url, how, ...more);
		};
	})()`, nil))
	b.click("Pause")
	b.press("dialog button.act")
	b.do(chromedp.WaitVisible("dialog button.act[disabled]", chromedp.ByQuery), chromedp.KeyEvent(kb.Escape),
		chromedp.WaitNotPresent("dialog", chromedp.ByQuery))
	const next = `[aria-label="The next occurrences"] tbody tr`
	before := b.point(next)
	b.do(chromedp.Evaluate(`window.answer()`, nil))
	b.await(".said", "Pause: done, pills")
	b.await(note, "Something happened to it.")
	if after := b.spot(next); after != before {
		t.Errorf("under the pointer was %+v, is %+v", before, after)
	}
	b.await("#sentence", "Scheduled")
	b.away()
	b.await("#sentence", "Paused")
}

// A browser takes a finger to be where it has tapped, until it taps elsewhere. Rows wait for it a moment only. The
// touch of a driver leaves nothing hovered, so here the pointer stays there, and says that it is a finger.
func TestRowsStayForAFingerAMoment(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.visit("triggers")
	b.partitions(5, 6)
	b.click("System")
	b.await(owners, "owner-5")
	const row = owners + " tbody tr:nth-child(2)"
	b.point(row)
	b.partitions(4, 5, 6)
	b.do(chromedp.Evaluate(`document.querySelector('`+row+`').dispatchEvent(new PointerEvent('pointerdown',
		{pointerType: 'touch', bubbles: true}))`, nil))
	b.await(note, "1 new.")
	b.await(owners+" tbody tr:nth-child(1)", "owner-4")
	b.do(chromedp.WaitVisible(owners+" tbody tr:hover", chromedp.ByQuery))
}
