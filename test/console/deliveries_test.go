package console_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// A screen reader lists the regions of a page by their names, so no two have the same.
func TestRegionsOfDeliveries(t *testing.T) {
	s := dev(t, "channels.sends.receipts=true")
	answered("failed", "no_address")(s, "first")
	s.letters("first", "open", 1)
	s.refused("quick", `{"recurrence":"every:1s","channel":"orders"}`)
	b := s.open(t, 1200, 900)
	b.visit("deliveries")
	b.await("main", "no_address")
	b.await("main", "period_too_short")
	var names []string
	b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery),
		chromedp.Evaluate(`[...document.querySelectorAll('[role=region]')].map((e) => e.ariaLabel)`, &names))
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			t.Errorf("two regions are named %q, of %q", name, names)
		}
		seen[name] = true
	}
	if len(names) < 3 {
		t.Errorf("the page has the regions %q", names)
	}
}

// Page Deliveries says in short what is not well, before any list: open breakers, what waits, and each code with how
// often, the newest as an example, and a link to all of it.
func TestDeliveriesInShort(t *testing.T) {
	s := dev(t, "channels.sends.receipts=true")
	answered("failed", "no_address")(s, "first")
	s.letters("first", "open", 1)
	answered("failed", "no_address")(s, "second")
	s.letters("second", "open", 1)
	for i := range 60 { // more than a page of the list
		s.refused(fmt.Sprintf("quick-%d", i), `{"recurrence":"every:1s","channel":"orders"}`)
	}
	s.refused("nowhere", `{"fire_at":"2060-01-01T09:00","timezone":"Europe/Nowhere","channel":"orders"}`)
	b := s.open(t, 1200, 900)
	b.visit("triggers")
	b.stub("GET", "/v1/endpoints", 200, `{"items":[{"origin":"https://well.example","tenant":"default","state":"closed"},`+
		`{"origin":"https://away.example","tenant":"default","state":"open","last_code":"timeout","failed":7}]}`)
	b.stub("GET", "/v1/channels", 200, `{"items":[{"name":"mail","topic":"m","partitions":4,"waiting":0},`+
		`{"name":"push","topic":"p","partitions":4,"waiting":500000}]}`)
	b.click("Deliveries")
	items := func(heading string) (text string) {
		path := fmt.Sprintf(`(() => { const h = [...document.querySelectorAll('main h3')].find((e) => e.textContent === %q);
			const to = []; for (let e = h && h.nextElementSibling; e && e.tagName !== 'H3'; e = e.nextElementSibling)
				to.push(e.textContent.replace(/\s+/g, ' ').trim()); return to.join(' '); })()`, heading)
		b.do(chromedp.Evaluate(path, &text))
		return text
	}
	b.await("main", "By cause, of the newest 61:")
	for _, c := range []struct{ heading, want string }{
		{"Endpoints whose breaker is not closed", "https://away.example is open: timeout. What to do"},
		{"Channels on which due events wait", "500,000 on push"},
		{"Dead letters by code", "2 no_address, for example second"},
		{"Refused commands by code", "By cause, of the newest 61:60 period_too_short, for example quick-59: "},
	} {
		if got := items(c.heading); len(got) < len(c.want) || got[:len(c.want)] != c.want {
			t.Errorf("%s: %q, want %q", c.heading, got, c.want)
		}
	}
	var links []string // what waits is of all tenants: its number is no link to the caller's triggers
	b.do(chromedp.Evaluate(`[...document.querySelectorAll('.short li a')].map((e) => e.textContent.trim())`, &links))
	if !slices.Contains(links, "push") || slices.ContainsFunc(links, func(l string) bool {
		return strings.Contains(l, "500,000")
	}) {
		t.Errorf("the links are %q", links)
	}
	var first string
	b.do(chromedp.Evaluate(`document.querySelector('main h2').textContent`, &first))
	if first != "In short" {
		t.Errorf("the page begins with %q", first)
	}
	b.click("unknown_zone")
	b.await("h2", "Refused commands with code unknown_zone")
	b.await("main table", "nowhere")
}

// Whatever dead letters are filtered by stands in the heading and in the lines for the command line, and there is a way
// back. An endpoint leads to its dead letters, but the number of its failed calls does not: it counts others.
func TestFiltersOfDeliveries(t *testing.T) {
	s := dev(t, "channels.sends.receipts=true")
	answered("failed", "no_address")(s, "first")
	s.letters("first", "open", 1)
	b := s.open(t, 1200, 900)
	for _, c := range []struct{ query, heading, flag, back string }{
		{"channel=sends", "Dead letters on channel sends", "--channel sends", "All dead letters"},
		{"code=no_address", "Dead letters with code no_address", "--code no_address", "All codes"},
		{
			"code=no_address&channel=sends", "Dead letters with code no_address, on channel sends",
			"--code no_address --channel sends", "All dead letters",
		},
	} {
		b.visit("deliveries?" + c.query)
		b.await("h2", c.heading)
		b.await("main table", "first")
		b.await("main .twins", "waterclock dead-letters list "+c.flag)
		b.await("main .twins", "/v1/dead-letters?"+c.query+"&limit=50")
		b.click(c.back)
		b.await("h2", "In short")
	}
	b.visit("triggers")
	b.stub("GET", "/v1/endpoints", 200,
		`{"items":[{"origin":"https://away.example","tenant":"default","state":"closed","failed":7},`+
			`{"origin":"https://refuses.example","tenant":"default","state":"closed","ok":7}]}`)
	b.click("Deliveries")
	b.await("main", "https://away.example")
	var row []string
	b.do(chromedp.Evaluate(`(() => {
		const table = [...document.querySelectorAll('main table')].find((e) => e.textContent.includes('away.example'));
		const at = [...table.querySelectorAll('th')].findIndex((e) => e.textContent === 'Failed calls');
		const cell = table.querySelectorAll('tbody td')[at];
		return [cell.textContent.trim(), String(cell.querySelectorAll('a').length),
			...[...table.querySelectorAll('tbody a')].map((e) => e.ariaLabel)];
	})()`, &row))
	want := []string{"7", "0", "dead letters to https://away.example", "dead letters to https://refuses.example"}
	if !slices.Equal(row, want) {
		t.Errorf("failed calls, links of them, and names of links are %q, want %q", row, want)
	}
	b.click("dead letters")
	b.await("h2", "Dead letters to https://away.example, of tenant default")
	b.await("main", "None is open.")
}
