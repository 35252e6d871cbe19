package console_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// call asks the API, which says whether an act of a page has happened.
func (s *server) call(method, path, body string, headers ...string) map[string]any {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	b, _ := io.ReadAll(answer.Body)
	if answer.StatusCode >= 300 {
		s.t.Fatalf("%s %s: %d %s", method, path, answer.StatusCode, b)
	}
	var value map[string]any
	_ = json.Unmarshal(b, &value)
	return value
}

const daily = `{"recurrence":"FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0","start":"2026-11-01T09:00",` +
	`"timezone":"America/New_York","channel":"orders","user_id":"u_81","payload":{"say":"take pills"}}`

// What cannot be done says why, and leaves the dialog open.
func TestActRefused(t *testing.T) {
	s := dev(t)
	s.call("PUT", "/v1/triggers/k", `{"delay":"1h","channel":"orders"}`)
	b := s.open(t, 1200, 900)
	b.allowed = []string{"status of 422"}
	b.visit("trigger?id=k")
	b.click("Snooze")
	b.fill(`dialog input[name=for]`, "soon")
	b.do(chromedp.Click(`dialog button.act`, chromedp.ByQuery))
	b.await("dialog .fault", "soon")
}

// While one types a rule, the page says when it would fire, and what daylight saving does to it;
// then it registers it. A rule that is none gets the field and what to write.
func TestRegister(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.allowed = []string{"status of 422", "status of 400", "status of 412"}
	b.visit("new")
	b.await("#preview", "UTC")
	b.fill("input[name=id]", "tea")
	b.do(chromedp.SetValue("select[name=kind]", "recurrence", chromedp.ByQuery))
	b.do(chromedp.Evaluate(`document.querySelector('select[name=kind]').dispatchEvent(new Event('change'))`, nil))
	b.fill("input[name=recurrence]", "FREQ=SOMETIMES")
	b.await("#preview .fault", "SOMETIMES")
	b.fill("input[name=recurrence]", "FREQ=DAILY")
	b.fill("input[name=start]", "2027-03-13T02:30")
	b.fill("input[name=timezone]", "America/New_York")
	b.await("#preview", "gap")
	b.await("#preview tbody tr:nth-child(2) td", "Sun 2027-03-14 03:30:00 America/New_York")
	const payload = `{"say":"tea","n":9007199254740993,"m":1.0}`
	b.fill("input[name=payload]", payload)
	b.fill("input[name=channel]", "orders")
	b.await("main .twins", "--every FREQ=DAILY")
	b.await("main .twins", `--data '`+payload+`'`)
	b.click("Register")
	b.await("h1", "tea")
	b.await("#sentence", "Scheduled")
	got := s.call("GET", "/v1/triggers/tea", "")
	if got["timezone"] != "America/New_York" || got["channel"] != "orders" ||
		fmt.Sprint(got["payload"].(map[string]any)["say"]) != "tea" {
		t.Errorf("registered: %v", got)
	}
	if got := s.text("/v1/triggers/tea"); !strings.Contains(got, payload) { // a number of JavaScript is less exact
		t.Errorf("registered: %s", got)
	}
	b.click("Show the payload")
	b.await("main pre", "\"n\": 9007199254740993,\n  \"m\": 1.0")
	b.visit("new")
	b.fill("input[name=id]", "tea")
	b.click("Register")
	b.await("main .fault", "already")
	b.stub("PUT", "/v1/triggers/tea", 0, "") // the answer of the first try is lost: the key may be taken by it
	b.click("Register")
	b.await("main .fault", "it may have happened")
	b.stub("PUT", "/v1/triggers/tea", 412, `{"status":412}`)
	b.click("Register")
	b.await("main .fault", "what you sent before may have registered it")
	b.click("tea")
	b.await("#sentence", "Scheduled")
}

// text is what a route answers.
func (s *server) text(path string) string {
	s.t.Helper()
	answer, err := http.Get(s.url + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	b, _ := io.ReadAll(answer.Body)
	return string(b)
}

// pages are all pages, with what each must show.
var pages = []struct{ name, path, selector, text string }{
	{"now", "", "main", "1 due event"},
	{"triggers", "triggers", "main table", "pills"},
	{"trigger", "trigger?id=pills", "#sentence", "Scheduled"},
	{"forecast", "forecast", "main", "The highest bar"},
	{"deliveries", "deliveries", "main", "Refused commands"},
	{"system", "system", "main", "In force"},
	{"new", "new", "#preview", "UTC"},
	{"runbook", "runbook?entry=waterclocklate", "main", "WaterclockLate"},
	{"search", "search?q=u_81", "main table", "pills"},
	{"user", "user?id=u_82", "main table", "orders: PENDING"},
	{"nothing", "nothing", "h1", "No such page"},
}

// view is how a page is drawn.
type view struct {
	name  string
	width int
	theme string
}

var views = []view{{"light", 1200, "light"}, {"dark", 1200, "dark"}, {"narrow", 360, "light"}}

// openIn opens a browser whose pages are drawn so, and take axe-core.
func (s *server) openIn(t *testing.T, v view) *tab {
	t.Helper()
	b := s.open(t, v.width, 900)
	b.do(page.SetBypassCSP(true), // for axe-core, which adds itself to the page
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: v.theme},
		}))
	return b
}

// Each page, light and dark, wide and narrow: nothing overflows, and axe-core finds nothing.
func TestPages(t *testing.T) {
	s := dev(t)
	s.call("PUT", "/v1/triggers/pills", daily)
	s.call("PUT", "/v1/triggers/soon", `{"delay":"5m","channel":"orders","user_id":"u_82"}`)
	s.call("POST", "/v1/triggers/soon:run", "")
	s.refused("quick", `{"recurrence":"every:1s","channel":"orders"}`)
	check, err := axe()
	if err != nil {
		t.Fatalf("%v: test/setup.sh installs it", err)
	}
	for _, view := range views {
		b := s.openIn(t, view)
		for _, p := range pages {
			b.visit(p.path)
			b.await(p.selector, p.text)
			b.fits(check, p.name+", "+view.name)
			if view.name == "light" {
				b.readAloud(p.name)
			}
			b.picture(p.name + "-" + view.name)
		}
	}
}

// fits fails the test if the page is wider than the window, or axe-core finds something.
func (b *tab) fits(check, name string) {
	b.t.Helper()
	var wide bool
	b.do(chromedp.Evaluate(`document.documentElement.scrollWidth > innerWidth`, &wide))
	if wide {
		b.t.Errorf("%s: the page is wider than the window", name)
	}
	var found []struct {
		ID, Help string
		Nodes    []string
	}
	b.do(chromedp.Evaluate(check+`; undefined`, nil), chromedp.Evaluate(
		`axe.run().then((r) => r.violations.map((v) => ({id: v.id, help: v.help, nodes: v.nodes.map((n) => n.html)})))`,
		&found, awaitPromise))
	for _, f := range found {
		b.t.Errorf("%s: %s, %s: %q", name, f.ID, f.Help, f.Nodes)
	}
}

// What pages have only at times fits as well, and axe-core finds nothing: log-in, the dialog of each act with its lines
// and its error, and Deliveries with a dead letter and a refused command.
func TestDialogsAndLoginFit(t *testing.T) {
	check, err := axe()
	if err != nil {
		t.Fatalf("%v: test/setup.sh installs it", err)
	}
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("acme "+strings.Repeat("v", 40)+" viewer eve\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	guarded := dev(t, "auth.keys_file="+keys)
	s := dev(t, "channels.sends.receipts=true")
	s.put("pills", daily)
	s.put("soon", inAnHour)
	s.refused("quick", `{"recurrence":"every:1s","channel":"orders"}`)
	answered("failed", "no_address")(s, "lost")
	s.explains("lost", "failed")
	for _, view := range views {
		b := guarded.openIn(t, view)
		b.allowed = []string{"status of 401"}
		b.visit("")
		b.await("main", "API key or token")
		b.fits(check, "log-in, "+view.name)
		b.fill("input[type=password]", "wrong"+kb.Enter)
		b.await("main .fault", "not known here")
		b.fits(check, "log-in that is refused, "+view.name)
		b.close()

		b = s.openIn(t, view)
		b.allowed = []string{"status of 422"}
		b.visit("deliveries")
		b.await("main", "period_too_short")
		b.await("main", "no_address")
		b.fits(check, "deliveries, "+view.name)
		for id, offered := range map[string][]string{
			"pills": {"Skip", "Pause", "Run now", "Cancel"}, "soon": {"Reschedule", "Snooze"},
		} {
			b.visit("trigger?id=" + id)
			b.await("#sentence", "Scheduled")
			for _, act := range offered {
				b.click(act)
				b.await("dialog h2", act+": "+id)
				b.do(chromedp.Evaluate(`document.querySelector('dialog details').open = true`, nil))
				b.fits(check, act+", "+view.name)
				if act == "Snooze" {
					b.fill("dialog input[name=for]", "tomorrow")
					b.press("dialog button.act")
					b.await("dialog .fault", "tomorrow")
					b.fits(check, act+" that is refused, "+view.name)
				}
				b.dismiss()
			}
		}
		b.close()
	}
}

// A server on which nothing has happened yet: each page says so, fits, and axe-core finds nothing.
func TestEmptyPages(t *testing.T) {
	s := dev(t)
	check, err := axe()
	if err != nil {
		t.Fatalf("%v: test/setup.sh installs it", err)
	}
	b := s.open(t, 1200, 900)
	b.allowed = []string{"status of 404"} // there is no trigger
	b.do(page.SetBypassCSP(true))
	for _, p := range []struct{ name, path, text string }{
		{"now", "", "Nothing has fired in the last hour."},
		{"triggers", "triggers", "No trigger matches."},
		{"trigger", "trigger?id=pills", "There is no trigger"},
		{"forecast", "forecast", "Nothing is due."},
		{"deliveries", "deliveries", "None was called yet."},
		{"system", "system", "Nobody has done anything yet."},
		{"new", "new", "The next ten"},
		{"search", "search?q=u_81", "Nothing is named so"},
		{"user", "user?id=u_82", "The history has no notification of this user."},
	} {
		b.visit(p.path)
		b.await("main", p.text)
		b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery))
		b.fits(check, p.name+", empty")
		b.picture(p.name + "-empty")
	}
}

// An owner that has visited its share of triggers answers a short page, be it empty. The page goes on until it is full,
// and after ten reads says that there is more. Pages are made here: an owner visits 20,000 triggers for one.
func TestShortPages(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	s.call("PUT", "/v1/triggers/tagged", `{"delay":"1h","channel":"orders","tags":{"type":"pills"}}`)
	b.visit("triggers?channel=nobody")
	b.await("main", "No trigger matches.")
	b.fill("main input[name=channel]", kb.Backspace)
	b.fill("main input[name=tag]", "type=pills"+kb.Enter)
	b.await("main table", "tagged")
	b.fill("main input[name=tag]", kb.Backspace)
	inTwoHours := time.Now().Add(2 * time.Hour).UTC().Format(time.RFC3339)
	b.fill("main input[name=from]", inTwoHours+kb.Enter)
	b.await("main", "No trigger matches.")
	b.await("main .twins", "--from "+inTwoHours)
	b.fill("main input[name=from]", kb.Backspace)
	b.fill("main input[name=to]", inTwoHours+kb.Enter)
	b.await("main table", "tagged")
	b.fill("main input[name=to]", kb.Backspace)
	b.do(chromedp.Evaluate(`(() => {
		const real = window.fetch;
		window.asked = 0;
		window.fetch = (url, ...more) => {
			const q = new URL(url).searchParams;
			if (!['few', 'none'].includes(q.get('channel'))) return real(url, ...more);
			const n = ++window.asked;
			const ends = q.get('channel') === 'few' && n === 4;
			return Promise.resolve(new Response(JSON.stringify({
				as_of: '2026-01-01T00:00:00Z', silent_partitions: [], next_cursor: ends ? '' : 'c' + n,
				items: ends ? [{trigger_id: 'rare', state: 'PENDING', channel: 'few', next_fire_at: '2060-01-01T00:00:00Z'}] : [],
			})));
		};
	})()`, nil))
	asked := func() (n int) {
		b.do(chromedp.Evaluate(`window.asked`, &n))
		return n
	}
	b.fill("main input[name=channel]", "few"+kb.Enter)
	b.await("main table", "rare")
	if n := asked(); n != 4 {
		t.Errorf("it read %d pages", n)
	}
	b.do(chromedp.Evaluate(`window.asked = 0`, nil))
	b.fill("main input[name=channel]", "none"+kb.Enter)
	b.await("main", "None matches so far. More reads on.")
	if n := asked(); n != 11 {
		t.Errorf("it read %d pages, want the first and ten more", n)
	}
	b.click("More")
	b.do(chromedp.Poll(`window.asked === 21`, nil))
	b.await("main", "None matches so far. More reads on.")
}

// picture keeps a screenshot in the directory that WATERCLOCK_TEST_PICTURES names.
func (b *tab) picture(name string) {
	b.t.Helper()
	dir := os.Getenv("WATERCLOCK_TEST_PICTURES")
	if dir == "" {
		return
	}
	var png []byte
	b.do(chromedp.CaptureScreenshot(&png))
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// refused writes a command that the engine refuses.
func (s *server) refused(id, body string) {
	s.t.Helper()
	s.batch(`{"op":"register","id":"` + id + `",` + body[1:])
}

// batch writes commands, and waits until the engine has decided them.
func (s *server) batch(commands ...string) {
	s.t.Helper()
	r, err := http.Post(s.url+"/v1/triggers:batch", "application/x-ndjson",
		strings.NewReader(strings.Join(commands, "\n")+"\n"))
	if err != nil {
		s.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
}

// What users write is text on every page: no markup, no link, no script.
func TestHostileTexts(t *testing.T) {
	s := dev(t)
	const unseen = "\u202e\u200b\u200d\u2060\ufeff\u00a0\u3000" // turns what follows; has no width; looks like a space
	id := `<img src=x onerror=alert(1)>%25'"&` + unseen
	path := "/v1/triggers/" + url.PathEscape(id)
	s.call("PUT", path, `{"delay":"1h","channel":"orders","user_id":"<script>alert(1)</script>","tags":{"a":"<b>x"},`+
		`"payload":"</script><script>alert(2)</script>"}`)
	s.call("POST", path+":snooze", `{"for":"3h","note":"<svg onload=alert(3)>"}`)
	for host, want := range map[string]bool{"localhost": true, "evil.example": false} { // DNS rebinding
		r, _ := http.NewRequestWithContext(t.Context(), "GET", s.url+"/console/", http.NoBody)
		r.Host = host
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		page, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if got := strings.Contains(string(page), `"rights"`); got != want {
			t.Errorf("a page for %s has data: %v", host, got)
		}
	}
	b := s.open(t, 1200, 900)
	b.visit("trigger?id=" + url.QueryEscape(id))
	b.await("#sentence", "Scheduled")
	b.await("main", "<svg onload=alert(3)>")
	const seen = `"&\u202e\u200b\u200d\u2060\ufeff\u00a0\u3000`
	b.await("h1", seen)
	b.hidesNothing()
	b.click("Pause") // the dialog, its commands, and the message
	b.await("dialog h2", seen)
	b.await("dialog .twins", `$'`)
	b.hidesNothing()
	b.press("dialog button.act")
	b.await(".said", seen)
	b.hidesNothing()
	b.click("Show the payload")
	b.await("main", "</script><script>alert(2)")
	if acts := fmt.Sprint(s.call("GET", "/v1/audit?verb=reveal", "")["items"]); !strings.Contains(acts, "reveal") {
		t.Errorf("the audit has %s", acts)
	}
	const user = `<script>alert(1)</script>`
	for _, p := range []string{"", "triggers", "search?q=" + url.QueryEscape(user), "deliveries"} {
		b.visit(p)
		b.await("main", "")
		b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery))
		b.hidesNothing()
	}
	b.visit("search?q=" + url.QueryEscape(user))
	b.click("Notifications of user " + user)
	b.await("h1", "User "+user)
	b.await("main", "The history has no notification of this user.")
	b.visit("triggers")
	b.await("main table", "<img src=x")
	b.await("main table", seen)
	var markup int
	b.do(chromedp.Evaluate(`document.querySelectorAll('main img, main script, main svg[onload]').length`, &markup))
	if markup != 0 {
		t.Errorf("%d elements were made of text", markup)
	}
}

// hidesNothing fails the test if the page, or the title of its tab, has characters that nobody sees.
func (b *tab) hidesNothing() {
	b.t.Helper()
	var found string
	b.do(chromedp.Evaluate(`(() => {
		const text = document.title + ' ' + document.body.innerText;
		const at = text.search(/[\u202e\u200b\u200d\u2060\ufeff\u3000]/);
		return at < 0 ? '' : text.slice(Math.max(0, at - 60), at + 60);
	})()`, &found))
	if found != "" {
		b.t.Errorf("there are hidden characters in %q", found)
	}
}

// With log-in, a page shows nothing before it, and only what the role allows after it. A key
// that is taken away ends the session.
func TestLogin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	write := func(lines string) {
		if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	viewer, writer := strings.Repeat("v", 40), strings.Repeat("w", 40)
	write("acme " + viewer + " viewer eve\nacme " + writer + " writer bob\nother " + strings.Repeat("o", 40) +
		" writer\n")
	s := dev(t, "auth.keys_file="+file, "reload.interval=1s")
	s.call("PUT", "/v1/triggers/pills", daily, "Authorization", "Bearer "+writer)
	s.call("PUT", "/v1/triggers/theirs", daily, "Authorization", "Bearer "+strings.Repeat("o", 40))
	b := s.open(t, 1200, 900)
	b.allowed = []string{"status of 401", "status of 403", "status of 404"}
	b.visit("trigger?id=pills")
	b.await("main", "API key")
	b.do(chromedp.SendKeys("input[type=password]", "wrong"+kb.Enter, chromedp.ByQuery))
	b.await(".fault", "not known")
	b.fill("input[type=password]", viewer+kb.Enter)
	b.await("#sentence", "Scheduled")
	b.await(".who", "eve")
	b.await("main", "hidden: your roles may not read payloads")
	var got struct {
		Acts   int
		Cookie string
		Text   string
	}
	b.do(chromedp.Evaluate(`({acts: document.querySelectorAll('.acts button').length, cookie: document.cookie,
		text: document.body.textContent})`, &got))
	if got.Acts != 0 || strings.Contains(got.Text, "take pills") {
		t.Errorf("a viewer sees %d acts, or the payload: %s", got.Acts, got.Text)
	}
	if strings.Contains(got.Cookie, "waterclock") {
		t.Error("a script can read the session")
	}
	b.stub("DELETE", "/console/session", 0, "")
	b.click("Log out")
	b.await(".said", "You are still logged in")
	b.visit("triggers")
	b.await("main table", "pills")
	another := b.more() // somebody logs in as another tenant there: all tabs have that session
	another.allowed = b.allowed
	another.visit("new")
	another.await(".who", "eve")
	another.logout()
	b.await("main", "API key")
	another.fill("input[type=password]", strings.Repeat("o", 40)+kb.Enter)
	b.await(".who", "other (writer)")
	b.await("main table", "theirs")
	another.do(chromedp.Evaluate(fmt.Sprintf(`fetch('/console/session', {method: 'POST', headers: {authorization:
		'Bearer %s'}}).then(() => new BroadcastChannel('waterclock live %s/').postMessage({kind: 'restart'}))`, viewer,
		s.url), nil, awaitPromise)) // at once, so that nobody sees a form between the two
	b.await(".who", "eve, acme")
	b.await("main table", "pills")
	another.close()
	b.visit("trigger?id=theirs")
	b.await("#sentence", "There is no trigger")
	b.take(&b.asked)
	write("acme " + writer + " writer bob\n")
	b.await("main", "API key") // the page polls, and the key is gone
	if asked := strings.Count(strings.Join(b.take(&b.asked), "\n"), "/v1/whoami"); asked > 10 {
		t.Errorf("it asked %d times who it is", asked)
	}
}
