package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// outboxMessage is a message as the outbox has written it.
type outboxMessage struct {
	Channel, To, Title, Body, Trigger, Locale string
	Times                                     int
	Data                                      map[string]string
	AckURL                                    string `json:"ack_url"`
	UnsubscribeURL                            string `json:"unsubscribe_url"`
}

// outbox is what a folder has, by trigger.
func outbox(t *testing.T, dir string) map[string]outboxMessage {
	t.Helper()
	all := map[string]outboxMessage{}
	for _, m := range outboxFiles(t, dir) {
		all[m.Trigger] = m
	}
	return all
}

func outboxFiles(t *testing.T, dir string) (all []outboxMessage) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var m outboxMessage
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatalf("%s: %v", f, err) // a file is there whole or not at all
		}
		all = append(all, m)
	}
	return all
}

// Nobody reacts to a push and to an SMS, so a mail goes out. Its link asks before it does
// anything, acknowledges, and no further step follows.
func TestDevAckLink(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "outbox")
	w := newDevWorld(t, "--outbox", dir)
	wants(t, "preferences", w.call(t, http.MethodPut, "/v1/preferences/ada", `{"addresses":{`+
		`"push":[{"provider":"fcm","token":"phone"}],"sms":"+4915112345678","email":"ada@example.com"}}`), 200)
	wants(t, "register", w.call(t, http.MethodPut, "/v1/triggers/pills", `{"delay":"1s","user_id":"ada",`+
		`"payload":{"title":"Pills","body":"Take two"},"escalation":[{"channel":"push"},`+
		`{"after":"2s","channel":"sms"},{"after":"2s","channel":"email"},{"after":"1h","channel":"push"}]}`), 201)
	links := map[string]string{}
	await(t, "a push, an SMS and a mail", func() bool {
		for _, m := range outboxFiles(t, dir) {
			links[m.Channel] = m.AckURL
		}
		return len(links) == 3
	})
	link := links["email"]
	if link == "" || link == links["sms"] || !strings.HasPrefix(link, "http://"+w.node.http+"/a/") {
		t.Fatalf("links %v", links)
	}
	acked := func() bool {
		for _, e := range w.events(t)["pills"] {
			if e.Type == string(trigger.EscalationStopped) && e.Reason == "ack" {
				return true
			}
		}
		return false
	}
	follow := func(method, link string) (int, string) {
		t.Helper()
		req, err := http.NewRequest(method, link, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	if code, page := follow(http.MethodGet, link); code != 200 || !strings.Contains(page, "<button") || acked() {
		t.Fatalf("following the link: %d, acknowledged %v: %s", code, acked(), page)
	}
	if code, _ := follow(http.MethodPost, link[:len(link)-3]+"AAA"); code != 404 {
		t.Errorf("a forged link: %d", code)
	}
	if code, page := follow(http.MethodPost, link); code != 200 {
		t.Fatalf("acknowledging: %d: %s", code, page)
	}
	await(t, "the acknowledgement", acked)
	a := w.call(t, http.MethodGet, "/v1/triggers/pills", "")
	if wants(t, "get", a, 200); a.str("next_fire_at") != "" {
		t.Errorf("a step is still planned: %s", a.text)
	}

	// One click on the mail's other link, and the next mail is not sent.
	for _, m := range outboxFiles(t, dir) {
		if (m.UnsubscribeURL != "") != (m.Channel == "email") {
			t.Errorf("%s: the link to unsubscribe is %q", m.Channel, m.UnsubscribeURL)
		}
		if m.Channel == "email" {
			link = m.UnsubscribeURL
		}
	}
	if code, page := follow(http.MethodPost, link); code != 200 {
		t.Fatalf("unsubscribing: %d: %s", code, page)
	}
	wants(t, "mail", w.call(t, http.MethodPut, "/v1/triggers/mail", `{"delay":"0","user_id":"ada","channel":"email",`+
		`"payload":{"title":"Pills"}}`), 201)
	await(t, "the mail is suppressed", func() bool {
		for _, e := range w.events(t)["mail"] {
			if e.Type == string(trigger.DeliverySuppressed) && e.Reason == "opted_out" {
				return true
			}
		}
		return false
	})
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// `dev --outbox`: a push, an SMS and a mail appear, by the user's addresses and in
// the user's language; a template that changes counts from then on; an opt-out
// holds; what cannot be sent says why.
func TestDevOutbox(t *testing.T) {
	dir, texts := filepath.Join(t.TempDir(), "outbox"), t.TempDir()
	writeFile(t, filepath.Join(texts, "pills.tmpl"), `{{ define "title" }}Pills{{ end }}`)
	writeFile(t, filepath.Join(texts, "pills.de.tmpl"),
		`{{ define "title" }}{{ .Data.n }} Tabletten um {{ .LocalTime.Clock }}{{ end }}`)
	w := newDevWorld(t, "--outbox", dir, "--templates-dir", texts, "--reload-interval", "1s")
	preferences := func(more string) {
		t.Helper()
		wants(t, "preferences", w.call(t, http.MethodPut, "/v1/preferences/ada", `{"locale":"de-AT","addresses":{`+
			`"push":[{"provider":"fcm","token":"phone"},{"provider":"apns","token":"tablet"}],"sms":"+4915112345678",`+
			`"email":"ada@example.com"}`+more+`}`), 200)
	}
	put := func(id, channel, payload string) {
		t.Helper()
		wants(t, "register "+id, w.call(t, http.MethodPut, "/v1/triggers/"+id, `{"delay":"1s","channel":"`+channel+
			`","user_id":"ada","payload":`+payload+`}`), 201)
	}
	arrive := func(id string) outboxMessage {
		t.Helper()
		await(t, id+" arrives", func() bool { return outbox(t, dir)[id].Trigger != "" })
		return outbox(t, dir)[id]
	}
	preferences("")
	put("push-1", "push", `{"title":"Pills","body":"Take two"}`)
	put("sms-1", "sms", `{"body":"Take two"}`)
	put("mail-1", "email", `{"template_id":"pills","template_data":{"n":2}}`)
	put("mail-2", "email", `{"title":"Pills","to":"bob@example.com"}`)
	put("bad-1", "email", `{"title":"Pills","to":"nobody"}`)
	put("bad-2", "email", `{"template_id":"pill"}`)
	if m := arrive("push-1"); m.Title != "Pills" || m.Body != "Take two" ||
		!strings.HasPrefix(m.Data["notification_id"], "push-1@") {
		t.Errorf("push: %+v", m)
	}
	if m := arrive("sms-1"); m.To != "+4915112345678" || m.Channel != "sms" {
		t.Errorf("SMS: %+v", m)
	}
	if m := arrive("mail-1"); !strings.HasPrefix(m.Title, "2 Tabletten um ") || m.To != "ada@example.com" ||
		m.Locale != "de" {
		t.Errorf("mail: %+v", m)
	}
	if m := arrive("mail-2"); m.To != "bob@example.com" {
		t.Errorf("mail: %+v", m)
	}
	await(t, "the push goes to both installations", func() bool {
		both, err := filepath.Glob(filepath.Join(dir, "push-*.json"))
		return err == nil && len(both) == 2
	})

	writeFile(t, filepath.Join(texts, "pills.de.tmpl"), `{{ define "title" }}Neu{{ end }}`)
	n := 0
	await(t, "the changed template counts", func() bool {
		n++
		id := fmt.Sprintf("changed-%d", n)
		put(id, "email", `{"template_id":"pills","template_data":{"n":2}}`)
		return arrive(id).Title == "Neu"
	})
	preferences(`,"opted_out_channels":["sms"]`)
	put("sms-2", "sms", `{"body":"Take two"}`)
	reasons := map[string]string{}
	await(t, "each trigger has an end", func() bool {
		for _, events := range w.events(t) {
			for _, e := range events {
				if e.Type == string(trigger.DeliveryFailed) || e.Type == string(trigger.DeliverySuppressed) ||
					e.Type == string(trigger.DeliveryAccepted) {
					reasons[e.Trigger] = e.Type + " " + e.Reason
				}
			}
		}
		return len(reasons) >= 7+n
	})
	for id, want := range map[string]string{
		"push-1": "delivery.accepted ", "mail-1": "delivery.accepted ", "bad-1": "delivery.failed invalid_address",
		"bad-2": "delivery.failed template_not_found", "sms-2": "delivery.suppressed opted_out",
	} {
		if reasons[id] != want {
			t.Errorf("%s: %q, want %q", id, reasons[id], want)
		}
	}
	if _, sent := outbox(t, dir)["sms-2"]; sent {
		t.Error("an SMS was sent to one who had opted out")
	}
	await(t, "the page lists them", func() bool {
		page, err := os.ReadFile(filepath.Join(dir, "index.html"))
		return err == nil && strings.Contains(string(page), "bob@example.com")
	})
}

// Workers of three roles are killed while messages are due: each message arrives,
// and what was in hand arrives under the same id.
func TestNotifyKills(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "outbox")
	w := newServeWorld(t, "engine,api")
	worker := func(name string) *process {
		return start(t, name, append([]string{
			"serve", "--roles", "push,sms,email", "--data-dir", t.TempDir(), "--providers-outbox-dir", dir,
		}, w.cluster.args...)...)
	}
	first := worker("notify-1")
	const n = 150
	to := map[string]string{"push": "phone", "sms": "+4915112345678", "email": "ada@example.com"}
	var lines strings.Builder
	for i := range n {
		for channel, address := range to {
			fmt.Fprintf(&lines, `{"op":"register","id":"%[1]s-%[2]d","channel":"%[1]s","delay":"%[3]ds",`+
				`"payload":{"body":"x","to":"%[4]s"}}`+"\n", channel, i, 1+i%5, address)
		}
	}
	a := w.call(t, http.MethodPost, "/v1/triggers:batch", lines.String(), "Content-Type", "application/x-ndjson")
	if a.status != http.StatusOK || strings.Contains(a.text, `"code"`) {
		t.Fatalf("%v", a)
	}
	await(t, "some messages", func() bool { return len(outbox(t, dir)) > 20 })
	first.kill()
	worker("notify-2")
	await(t, "every message arrives", func() bool { return len(outbox(t, dir)) == n*len(to) })
	accepted := map[string]bool{}
	for deadline := time.Now().Add(2 * time.Minute); len(accepted) < n*len(to); time.Sleep(200 * time.Millisecond) {
		for _, events := range w.events(t) {
			for _, e := range events {
				if e.Type == string(trigger.DeliveryAccepted) {
					accepted[e.Trigger] = true
				}
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d are accepted", len(accepted), n*len(to))
		}
	}
	w.judge(t)
}

// An SMS that is the first step of an escalation has the link, and its POST stops the next step. One
// without an escalation has none: there is nothing to stop.
func TestDevAckLinkOfTheFirstStep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "outbox")
	w := newDevWorld(t, "--outbox", dir)
	register := func(id, body string) {
		wants(t, id, w.call(t, http.MethodPut, "/v1/triggers/"+id, `{"delay":"0","payload":{"body":"`+id+
			`","to":"+4915112345678"},`+body+`}`), 201)
	}
	register("alone", `"channel":"sms"`)
	register("oncall", `"escalation":[{"channel":"sms"},{"after":"1h","channel":"sms"}]`)
	links := map[string]string{}
	await(t, "two SMS", func() bool {
		for _, m := range outboxFiles(t, dir) {
			links[m.Trigger] = m.AckURL
		}
		return len(links) == 2
	})
	if links["alone"] != "" || links["oncall"] == "" {
		t.Fatalf("links %v", links)
	}
	resp, err := http.Post(links["oncall"], "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("acknowledging: %d", resp.StatusCode)
	}
	await(t, "the end of the escalation", func() bool {
		a := w.call(t, http.MethodGet, "/v1/triggers/oncall", "")
		return a.str("next_fire_at") == "" && a.str("state") == "FIRED"
	})
}
