package console_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/waterclock/waterclock/test/issuer"
)

// acts are the acts of support: of which trigger, what is filled in, and what has happened then.
var acts = []struct {
	button, field, value string
	seed                 func(s *server, id string)
	event                string
	want                 func(before, after map[string]any) bool
}{
	{"Snooze", "for", "3h", pending, "occurrence.snoozed", func(_, after map[string]any) bool {
		return firesAfter(after, 2*time.Hour)
	}},
	{"Reschedule", "delay", "5h", pending, "trigger.rescheduled", func(_, after map[string]any) bool {
		return firesAfter(after, 4*time.Hour)
	}},
	{"Skip", "", "", everyDay, "occurrence.skipped", func(before, after map[string]any) bool {
		return after["next_fire_at"] != before["next_fire_at"]
	}},
	{"Pause", "", "", everyDay, "trigger.paused", func(_, after map[string]any) bool {
		return after["state"] == "PAUSED"
	}},
	{"Run now", "", "", everyDay, "occurrence.fired", func(before, after map[string]any) bool {
		return after["last_fired_at"] != nil && after["next_fire_at"] == before["next_fire_at"]
	}},
	{"Redrive", "", "", answered("failed", "no_address"), "delivery.redriven", func(_, after map[string]any) bool {
		return after["state"] == "IN_FLIGHT"
	}},
	{"Cancel", "", "", pending, "trigger.cancelled", func(_, after map[string]any) bool {
		return after["state"] == "CANCELLED"
	}},
}

func everyDay(s *server, id string) { s.put(id, daily) }

func firesAfter(trigger map[string]any, d time.Duration) bool {
	at, err := time.Parse(time.RFC3339, fmt.Sprint(trigger["next_fire_at"]))
	return err == nil && time.Until(at) > d
}

// Support: from the box to a trigger, and each act on it, takes four clicks. The act does what it says, once, with its
// note, and the page shows what it did.
func TestActs(t *testing.T) { dev(t, "channels.sends.receipts=true").actsByHand(t) }

func (s *server) actsByHand(t *testing.T) {
	t.Helper()
	s.eachHand(t, 4*len(acts), func(b *tab, hand string) {
		b.visit("")
		for _, c := range acts {
			id := "act-" + strings.ReplaceAll(c.button, " ", "-") + "-" + hand
			c.seed(s, id)
			if c.button == "Redrive" {
				s.explains(id, "failed")
			}
			before := s.call("GET", "/v1/triggers/"+id, "")
			b.fill("header input", id)
			b.enter()
			b.await("h1", "Found for "+id)
			b.click(id)
			b.await("#sentence", ".")
			b.click(c.button)
			b.await("dialog h2", c.button+": "+id)
			if c.field != "" {
				b.fill(`dialog input[name=`+c.field+`]`, c.value)
			}
			note := "asked by phone, " + hand
			b.fill("dialog input[name=note]", note)
			b.press("dialog button.act")
			b.await(".said", c.button+": done, "+id)
			if got := s.call("GET", "/v1/triggers/"+id, ""); !c.want(before, got) {
				t.Errorf("%s: %v", c.button, got)
			}
			s.happened(id, c.event, note)
		}
		b.await("main", "none is kept, because it has ended") // of a payload
	})
}

// No act is offered that the API would refuse. What has ended fires again only if it has a user; what is in flight goes
// to no other time; a list of dates is a series, which a new time would replace.
func TestActsOffered(t *testing.T) {
	s := dev(t, "channels.sends.receipts=true")
	b := s.open(t, 1200, 900)
	for _, c := range []struct{ id, body, code, shows, want string }{
		{"done", `{"delay":"0s","channel":"orders"}`, "fired", "FIRED", "[]"},
		{"told", `{"delay":"0s","channel":"orders","user_id":"u_7"}`, "fired", "FIRED", "[Snooze]"},
		{"sent", `{"delay":"0s","channel":"sends"}`, "in_flight", "IN_FLIGHT", "[Snooze Run now Cancel]"},
		{
			"dates", `{"include":["2060-01-01T09:00","2060-02-01T09:00"],"timezone":"Europe/Berlin"}`, "scheduled",
			"Thu 2060-01-01 09:00:00 Europe/Berlin, Sun 2060-02-01 09:00:00 Europe/Berlin",
			"[Snooze Skip Pause Run now Cancel]",
		},
	} {
		s.put(c.id, c.body)
		s.explains(c.id, c.code)
		b.visit("trigger?id=" + c.id)
		b.await("dl.facts", c.shows)
		var offered []string
		b.do(chromedp.Evaluate(`[...document.querySelectorAll('main .acts button')].map((b) => b.textContent)`, &offered))
		if fmt.Sprint(offered) != c.want {
			t.Errorf("of %s it offers %q, want %s", c.id, offered, c.want)
		}
	}
}

// Somebody logs in by an API key, or by a token, finds a trigger, acts, and logs out, by either hand: a click for each
// but the act, which takes two. Whoever may not know the brokers gets a line for kcat that says where they go.
func TestLoginByHand(t *testing.T) {
	i := issuer.New(t)
	file := filepath.Join(t.TempDir(), "keys")
	key := strings.Repeat("s", 40)
	if err := os.WriteFile(file, []byte("acme "+key+" support sam\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := dev(t, "auth.keys_file="+file, "auth.oidc.issuer="+i.URL, "auth.oidc.audience=waterclock",
		"auth.oidc.algorithms=ES256")
	token := func(role string) string {
		return i.Token(t, map[string]any{
			"iss": i.URL, "aud": "waterclock", "sub": "tom", "tenant": "acme", "roles": []string{role},
			"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
		})
	}
	as := []string{"Authorization", "Bearer " + token("writer")}
	s.call("PUT", "/v1/triggers/pills", daily, as...)
	s.eachHand(t, 2*6, func(b *tab, hand string) {
		b.allowed = []string{"status of 401"} // before log-in
		for _, with := range []struct{ credential, who, act, state string }{
			{key, "sam, acme (support)", "Pause", "PAUSED"},
			{token("support"), "tom, acme (support)", "Resume", "PENDING"},
		} {
			b.visit("")
			b.await("main", "API key or token")
			b.fill("input[type=password]", with.credential)
			b.enter()
			b.await(".who", with.who)
			b.fill("header input", "pills")
			b.enter()
			b.await("h1", "Found for pills")
			b.click("pills")
			b.click(with.act)
			if line := b.kcat("dialog"); !strings.Contains(line, "-b BROKERS -F KCAT_CONFIG") ||
				!strings.Contains(line, " -k acme/pills ") {
				t.Errorf("the line for kcat is %s", line)
			}
			b.fill("dialog input[name=note]", hand)
			b.press("dialog button.act")
			b.await(".said", with.act+": done")
			if got := s.call("GET", "/v1/triggers/pills", "", as...)["state"]; got != with.state {
				t.Errorf("after %s it is %v", with.act, got)
			}
			b.logout()
		}
		b.do(chromedp.WaitNotPresent(".acts", chromedp.ByQuery))
		s.happened("acme/pills", "trigger.paused", hand)
		s.happened("acme/pills", "trigger.resumed", hand)
	})
}

// A note is counted in bytes, as the API counts: one that is too long is not sent.
func TestNoteIsCountedInBytes(t *testing.T) {
	s := dev(t)
	s.put("pills", daily)
	b := s.open(t, 1200, 900)
	b.visit("trigger?id=pills")
	b.click("Pause")
	b.await("dialog h2", "Pause: pills")
	says := func(note string) (text string) {
		b.fill("dialog input[name=note]", note)
		b.do(chromedp.Evaluate(`document.querySelector('dialog input[name=note]').validationMessage`, &text))
		return text
	}
	if text := says(strings.Repeat("ä", 257)); !strings.Contains(text, "at most 512 bytes, and this one has 514") {
		t.Errorf("of 514 bytes it says %q", text)
	}
	b.take(&b.asked)
	b.press("dialog button.act")
	b.do(chromedp.Evaluate(`fetch('/v1/whoami').then((a) => a.status)`, nil, awaitPromise)) // what is asked is known then
	if asked := strings.Join(b.take(&b.asked), " "); !strings.Contains(asked, "/v1/whoami") ||
		strings.Contains(asked, ":pause") {
		t.Errorf("it asks %s", asked)
	}
	note := strings.Repeat("ä", 256)
	if text := says(note); text != "" {
		t.Errorf("of 512 bytes it says %q", text)
	}
	b.press("dialog button.act")
	b.await(".said", "Pause: done, pills")
	s.happened("pills", "trigger.paused", note)
}

// Of a series the page offers a redrive unless it is known that no letter is open: also where there is no history, and
// while it does not answer.
func TestRedriveOfASeriesWhereNothingIsKnown(t *testing.T) {
	s := dev(t)
	s.put("pills", daily)
	who := s.text("/v1/whoami")
	for _, c := range []struct {
		name, has string
		status    int
		body      string
		want      bool
	}{
		{"no history", "/v1/whoami", 200, strings.Replace(who, `"history":true`, `"history":false`, 1), true},
		{"a history that does not answer", "/v1/dead-letters", 503, `{"detail":"the history is away"}`, true},
		{"no open letter", "/v1/dead-letters", 200, `{"items":[]}`, false},
	} {
		b := s.open(t, 1200, 900)
		b.visit("triggers")
		b.await("main table", "pills")
		b.stub("GET", c.has, c.status, c.body)
		b.do(chromedp.Evaluate(`dispatchEvent(new Event('unauthenticated'))`, nil)) // it asks again who it is
		b.await("main table", "pills")
		b.click("pills")
		b.await("#sentence", "Scheduled")
		b.await("main .acts", "Cancel")
		b.do(chromedp.Sleep(time.Second)) // it is read, if it can be
		var acts string
		b.do(chromedp.Text("main .acts", &acts, chromedp.ByQuery))
		if got := strings.HasSuffix(strings.TrimSpace(acts), "Redrive"); got != c.want {
			t.Errorf("%s: it offers %q, want a redrive: %v", c.name, acts, c.want)
		}
		b.close()
	}
}
