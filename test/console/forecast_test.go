package console_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// The table of the Forecast page has, hour by hour, what POST /v1/preview lists, also on days on which clocks change:
// of zones of both halves of the earth, and of those that change for Ramadan, some have such a day within 90 days of
// most dates. engine.TestForecastIsPreview has fixed dates, and compares with what fires, too.
func TestForecastPageIsPreview(t *testing.T) {
	s := dev(t)
	want, changes := map[string]int{}, 0
	from := time.Now().UTC().Truncate(time.Hour)
	for _, zone := range []string{
		"America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "Africa/Casablanca",
		"Africa/Cairo", "Asia/Gaza", "UTC",
	} {
		for _, at := range []string{"00:30", "02:30", "03:15"} {
			rule := fmt.Sprintf(`"recurrence":"FREQ=DAILY","start":%q,"timezone":%q`,
				from.AddDate(0, 0, 1).Format(time.DateOnly)+"T"+at, zone)
			s.put(strings.ReplaceAll(zone+at, "/", "-"), `{`+rule+`,"channel":"orders"}`)
			listed, _ := s.call("POST", "/v1/preview", `{`+rule+`,"n":95}`)["occurrences"].([]any)
			for _, o := range listed {
				o := o.(map[string]any)
				when, err := time.Parse(time.RFC3339, o["at"].(string))
				if err != nil {
					t.Fatal(err)
				}
				if o["note"] != nil {
					changes++
				}
				want[when.UTC().Truncate(time.Hour).Format(time.DateTime)+" UTC"]++
			}
		}
	}
	b := s.open(t, 1200, 900)
	got := map[string]int{}
	for deadline := time.Now().Add(time.Minute); ; {
		b.visit("forecast?bucket=1h&n=2160&by=channel")
		b.await("main", "Counted as of")
		var rows [][]string
		b.do(chromedp.Evaluate(`[...document.querySelectorAll('main tbody tr')].map((r) =>
			[...r.children].map((c) => c.textContent))`, &rows))
		clear(got)
		for _, row := range rows {
			_, hour, _ := strings.Cut(row[0], " ") // behind the weekday
			if _, err := fmt.Sscan(row[1], new(int)); err != nil || row[1] != row[2] || row[3] != "orders "+row[1] {
				t.Fatalf("row %q", row)
			}
			n := 0
			_, _ = fmt.Sscan(row[1], &n)
			got[hour] = n
		}
		// What lies behind the last hour of the page is no part of it.
		last := from.Add(2160 * time.Hour).Format(time.DateTime)
		maps.DeleteFunc(want, func(hour string, _ int) bool { return hour >= last })
		maps.DeleteFunc(got, func(hour string, _ int) bool { return hour >= last })
		if maps.Equal(got, want) {
			break
		}
		if time.Now().After(deadline) {
			for _, hour := range slices.Sorted(maps.Keys(want)) {
				if got[hour] != want[hour] {
					t.Errorf("%s: the page has %d, preview %d", hour, got[hour], want[hour])
				}
			}
			t.Fatalf("the page has %d hours, preview %d", len(got), len(want))
		}
	}
	t.Logf("%d hours are equal, with %d occurrences at which clocks change", len(got), changes)
}

// A number of due occurrences leads to the triggers that fire next in that hour, and the page says that a series is on
// that list once.
func TestForecastLeadsToTriggers(t *testing.T) {
	s := dev(t)
	s.put("hourly", `{"recurrence":"FREQ=HOURLY","timezone":"UTC","channel":"orders"}`)
	s.put("later", `{"delay":"30h","channel":"orders"}`)
	at, err := time.Parse(time.RFC3339, fmt.Sprint(s.call("GET", "/v1/triggers/later", "")["next_fire_at"]))
	if err != nil {
		t.Fatal(err)
	}
	hour := at.UTC().Truncate(time.Hour)
	link := fmt.Sprintf(`main td a[aria-label^="2 due from %s"]`, hour.Format("Mon 2006-01-02 15:04:05 UTC"))
	b := s.open(t, 1200, 900)
	for deadline := time.Now().Add(time.Minute); ; {
		b.visit("forecast?bucket=1h&n=168&by=channel")
		b.await("main", "Counted as of")
		b.do(chromedp.Evaluate(`document.querySelector('main details').open = true`, nil))
		b.await("main details", "A series is on that list once")
		var there bool
		if b.do(chromedp.Evaluate(fmt.Sprintf(`!!document.querySelector(%q)`, link), &there)); there {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing is due at %v", hour)
		}
		time.Sleep(time.Second)
	}
	b.press(link)
	b.await("main table", "later")
	b.await("main", "a series is not here for")
	var rows int
	if b.do(chromedp.Evaluate(`document.querySelectorAll('main tbody tr').length`, &rows)); rows != 1 {
		t.Errorf("%d triggers are listed", rows)
	}
	var from string
	b.do(chromedp.Evaluate(`document.querySelector('input[name=from]').value`, &from))
	if want := hour.Format("2006-01-02T15:04:05.000Z"); from != want {
		t.Errorf("the list begins at %s, want %s", from, want)
	}
}

// Where tenants, channels and priorities cannot all be told apart, the page says that its counts are too low: to an
// operator, whose totals are right, those of the groups alone.
func TestForecastIsTooLow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	viewer, operator := strings.Repeat("v", 40), strings.Repeat("o", 40)
	keys := "acme " + viewer + " viewer eve\nacme " + operator + " operator ops\n"
	if err := os.WriteFile(file, []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	s := dev(t, "auth.keys_file="+file)
	b := s.open(t, 1200, 900)
	b.allowed = []string{"status of 401"}
	b.visit("forecast")
	b.slowly("/v1/forecast", 0, `{"as_of":"2026-01-01T00:00:00Z","items":[],"incomplete":true,"silent_partitions":[]}`)
	for key, says := range map[string]string{viewer: "Too low: there", operator: "Counts by channel are too low"} {
		b.await("main", "API key")
		b.fill("input[type=password]", key+kb.Enter)
		b.await("main", "Counted as of")
		b.await("main", says)
		b.logout()
	}
}

// A tenant that the owners could not tell apart from others is not told that nothing of it has fired.
func TestLatenessIsNotKnown(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.visit("triggers")
	b.slowly("/v1/lateness", 0, `{"fires":0,"items":[],"channels":{},"incomplete":true,"silent_partitions":[]}`)
	b.states(`{partitions: 4, ready: 4, incomplete: true}`)
	b.click("Now")
	b.await("main", "What has fired in the last hour is not known.")
	b.await("main", "By channel not all are counted: too many tenants")
	b.await("#minute", "What has fired in the last minute is not known.")
}
