package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A page of a list may be empty and have a next one: nothing is called none before the last. A search or a list that
// is asked for again is read again. A wall time is the server's, whatever tz database the browser has.
func TestShortAnswers(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.visit("search?q=tea")
	b.await("main", "Nothing is named so")
	s.put("tea", daily)
	b.fill("header input", "tea"+kb.Enter)
	b.await("main table", "tea")
	b.click("Triggers")
	b.await("main table", "tea")
	s.put("coffee", inAnHour)
	b.click("List")
	b.await("main table", "coffee")

	const letter = `{"items":[{"trigger_id":"late","tenant":"default","code":"x","status":"open","partition":0,` +
		`"offset":1,"failed_at":"2026-01-01T00:00:00Z"}]}`
	b.stub("GET", "/v1/dead-letters", 200, `{"items":[],"next_cursor":"c"}`)
	b.stub("GET", "/v1/dead-letters?limit=50&cursor=c", 200, letter)
	b.stub("GET", "/v1/dead-letters?group_by", 200,
		`{"groups":[{"value":"no\u202eaddress","count":7}],"next_cursor":"c"}`)
	b.stub("GET", "/v1/rejected", 200, `{"items":[],"next_cursor":"c"}`)
	b.stub("GET", "/v1/triggers/tea/occurrences", 200, `{"items":[{"at":"2027-01-01T14:00:00Z","occurrence":"x",`+
		`"local_time":"2027-01-01T10:00:00[America/New_York]"}]}`)
	b.do(chromedp.Evaluate(keepMoments, nil))
	b.click("Deliveries")
	b.await("main table", "late")
	b.await("main", "None so far. More reads on.")
	var moments []string
	b.do(chromedp.Evaluate(`[...window.moments]`, &moments))
	for _, text := range moments {
		if strings.Contains(text, "None is open.") {
			t.Errorf("the page said for a moment: %s", text)
		}
	}
	b.click("Now")
	b.await(`[aria-label="Dead letters by code"] tbody`, `no\u202eaddressat least 7`)
	b.fill("header input", "tea"+kb.Enter)
	b.await("main table", "tea")
	b.click("tea")
	b.await("main", "Fri 2027-01-01 10:00:00 America/New_York")
}

// A partition that goes silent between two pages of a list is named. What became of a row is asked once more when the
// list is read anew. Figures lead to where they add up. Who did what, and a calendar, has its tenant beside it. An
// occurrence of a later life is drawn as others are.
func TestListsLeaveNothingOut(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.allowed = []string{"status of 503"}
	b.visit("")
	b.await(".figures", "oldest overdue")
	var to []string
	b.do(chromedp.Evaluate(`[...document.querySelectorAll('.figures a')].slice(0, 2).map((a) => a.href)`, &to))
	if want := s.url + "/console/system"; len(to) != 2 || to[0] != want || to[1] != want {
		t.Errorf("pending and overdue lead to %q", to)
	}
	row := func(id string) string {
		return `{"trigger_id":"` + id + `","tenant":"default","state":"FIRED","channel":"push"}`
	}
	b.stub("GET", "/v1/triggers", 200, `{"items":[`+row("one")+`],"next_cursor":"c","as_of":"2026-01-01T00:00:00Z"}`)
	b.stub("GET", "&cursor=", 200, `{"items":[`+row("two")+`],"as_of":"2026-01-01T00:00:00Z","silent_partitions":[3]}`)
	b.stub("GET", "/explain", 503, `{"detail":"too many reads"}`)
	b.click("Triggers")
	b.await("main .fault", "Not all are here: partition 3 does not answer.")
	b.await("main table", "not known what became of it")
	b.stub("GET", "/v1/triggers?", 200, `{"items":[`+row("one")+`],"as_of":"2026-01-01T00:01:00Z"}`)
	b.stub("GET", "/explain", 200, `{"code":"delivered","sentence":"Delivered.","evidence":[]}`)
	b.click("From the first page")
	b.await("main table", "DELIVERED")
	b.do(chromedp.WaitNotPresent("main .fault", chromedp.ByQuery))

	b.stub("GET", "/v1/audit", 200, `{"items":[{"at":"2026-01-01T00:00:00Z","actor":"deploy","role":"writer",`+
		`"tenant":"acme","address":"10.0.0.7","verb":"put_calendar","target":"calendars/us","status":200}]}`)
	b.stub("GET", "/v1/calendars", 200, `{"items":[{"name":"us","dates":1},`+
		`{"name":"us","tenant":"default","dates":2}]}`)
	b.click("System")
	b.await(`[aria-label="The newest acts over HTTP"]`, "deploy of tenant acme, writer, 10.0.0.7")
	b.await(`[aria-label="Named sets of days"]`, "us of tenant default")

	for occurrence, want := range map[string]string{
		"2026-11-30T09:00:00~1-77":      "Mon 2026-11-30 09:00:00 Asia/Tokyo",
		"2026-11-30T09:00:00.000Z~1-77": "Mon 2026-11-30 18:00:00 Asia/Tokyo",
		"run-1~7":                       "run-1~7",
	} {
		var got string
		b.do(chromedp.Evaluate(`import(new URL('time.js', document.querySelector('script[type=module]').src).href)
			.then((m) => m.when('`+occurrence+`', 'Asia/Tokyo'))`, &got, awaitPromise))
		if got != want {
			t.Errorf("%s is drawn %q, want %q", occurrence, got, want)
		}
	}
}

// Who did what is a list as others are: it goes on behind the newest twenty.
func TestActsAreReadOn(t *testing.T) {
	s := dev(t)
	s.put("pills", daily)
	s.call("POST", "/v1/triggers/pills:pause", `{"note":"the first of all"}`)
	for range 12 {
		s.call("POST", "/v1/triggers/pills:resume", "")
		s.call("POST", "/v1/triggers/pills:pause", "")
	}
	b := s.open(t, 1200, 900)
	b.visit("system")
	b.await(`[aria-label="The newest acts over HTTP"] tbody tr:nth-child(20)`, "pills")
	b.do(chromedp.WaitNotPresent(`[aria-label="The newest acts over HTTP"] tbody tr:nth-child(21)`, chromedp.ByQuery))
	b.click("More")
	b.await("main", "the first of all")
}

// What became of a fired trigger is asked for once its row is in view, and not before: a list would ask thirty times
// at once. A row whose answer fails says so.
func TestListAsksOfRowsInView(t *testing.T) {
	s := dev(t)
	s.put("tea", daily)
	b := s.open(t, 1200, 500)
	b.visit("search?q=tea")
	b.await("main table", "tea")
	var rows []string
	for i := range 30 {
		rows = append(rows, fmt.Sprintf(`{"trigger_id":"fired-%02d","tenant":"default","state":"FIRED","revision":1,`+
			`"channel":"push","fire_at":"2026-01-01T00:00:00.000Z"}`, i))
	}
	b.stub("GET", "/explain", 200, `{"code":"delivered","sentence":"Delivered"}`)
	b.stub("GET", "/fired-01/explain", 429, `{"status":429,"code":"over_quota","detail":"too many reads"}`)
	b.stub("GET", "/v1/triggers?", 200, `{"items":[`+strings.Join(rows, ",")+`],"as_of":"2026-01-02T00:00:00.000Z"}`)
	b.click("Triggers")
	b.await("main tbody tr:nth-child(1)", "FIRED DELIVERED")
	b.await("main tbody tr:nth-child(2)", "not known what became of it")
	var asked int
	b.do(chromedp.Evaluate(`[...document.querySelectorAll('main tbody tr')]
		.filter((r) => r.textContent.includes('DELIVERED')).length`, &asked))
	if asked >= 25 {
		t.Errorf("%d of 30 rows were asked for, in a window of some ten", asked)
	}
	b.do(chromedp.ScrollIntoView("main tbody tr:nth-child(30)", chromedp.ByQuery))
	b.await("main tbody tr:nth-child(30)", "FIRED DELIVERED")
}
