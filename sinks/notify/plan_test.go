package notify

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/sinks/notify/templates"
)

func TestDecodePayload(t *testing.T) {
	for _, c := range []struct{ payload, want string }{
		{``, "has no payload"},
		{`null`, "not a JSON object"},
		{`[]`, "not a JSON object"},
		{`"x"`, "not a JSON object"},
		{`{`, "not a JSON object"},
		{`{} {}`, "data after its JSON object"},
		{`{}`, "none of title, body and template_id"},
		{`{"title":1}`, "title of the payload is no text"},
		{`{"body":{}}`, "body of the payload is no text"},
		{`{"body":"x","to":1}`, "to of the payload is no text"},
		{
			`{"body":"x","to":[1]}`,
			"to of the payload is no list",
		},
		{`{"body":"x","template_data":[]}`, "template_data of the payload is no object"},
		{`{"body":"x","data":{"a":[]}}`, "data of the payload is no object of texts"},
		{`{"body":"x","to":[` + strings.Repeat(`"a",`, 20) + `"a"]}`, "at most 20"},
		{"\xff\xfe", "not a JSON object"},
		{strings.Repeat("[", 1e5), "not a JSON object"},
	} {
		_, err := decodePayload(&worker.DueEvent{Payload: []byte(c.payload)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s: %v, want %s", c.payload, err, c.want)
		}
	}
	p, err := decodePayload(&worker.DueEvent{Payload: []byte(`{"title":"t","body":"b","deep_link":"app://x","template_id":"i",
		"template_data":{"n":1234567,"f":1.5,"deep":{"n":[2]}},"to":["a","b"],"data":{"a":1,"b":true,"c":"x","d":null,
		"e":1234567.89,"f":12345678901234567890,"g":1e400},"locale":"de","mine":[1],"title_of_mine":null}`)})
	if err != nil {
		t.Fatal(err)
	}
	if p.Title != "t" || p.Body != "b" || p.DeepLink != "app://x" || p.TemplateID != "i" || p.Locale != "de" ||
		len(p.To) != 2 || !maps.Equal(p.Data, map[string]string{
		"a": "1", "b": "true", "c": "x", "e": "1234567.89", "f": "12345678901234567890", "g": "1e400",
	}) {
		t.Errorf("%+v", p)
	}
	if got := fmt.Sprint(p.TemplateData); got != "map[deep:map[n:[2]] f:1.5 n:1234567]" {
		t.Errorf("%s", got)
	}
}

func FuzzDecodePayload(f *testing.F) {
	f.Add([]byte(`{"title":"t","to":["a"],"template_data":{"n":1e400}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodePayload(&worker.DueEvent{Payload: b})
		if err == nil && p.Title == "" && p.Body == "" && p.TemplateID == "" {
			t.Errorf("%q is a notification", b)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n\x00") {
			t.Errorf("%q: %v", b, err)
		}
	})
}

// named is a provider that has only a name.
type named string

func (n named) Name() string                          { return string(n) }
func (n named) Send(context.Context, *Message) Answer { return Answer{} }
func (n named) Close() error                          { return nil }

func TestAddresses(t *testing.T) {
	apple := strings.Repeat("0a", 32)
	mine := &preferences.Preferences{Addresses: preferences.Addresses{
		Push:  []preferences.PushAddress{{Provider: "fcm", Token: "f1"}, {Provider: "apns", Token: "a1"}},
		Email: "ada@example.com",
	}}
	for _, c := range []struct {
		name, channel string
		to            []string
		prefs         *preferences.Preferences
		providers     []Provider
		want          string // provider:value, or error
	}{
		{"every installation", "push", nil, mine, []Provider{named("fcm"), named("apns")}, "fcm:f1 apns:a1"},
		{"a provider that is not here", "push", nil, mine, []Provider{named("apns")}, "-:f1 apns:a1"},
		{"outbox takes all", "push", nil, mine, []Provider{named("outbox")}, "outbox:f1 outbox:a1"},
		{"to comes first", "push", []string{"t1"}, mine, []Provider{named("fcm")}, "fcm:t1"},
		{
			"to names its provider", "push",
			[]string{"apns:t1", "fcm:t2"},
			nil,
			[]Provider{named("fcm"), named("apns")},
			"apns:t1 fcm:t2",
		},
		{"to by its shape", "push", []string{apple, "x:APA91"}, nil, []Provider{named("fcm"), named("apns")}, "apns:" +
			apple + " fcm:x:APA91"},
		{"none of push", "push", nil, &preferences.Preferences{}, []Provider{named("fcm")}, ""},
		{"none without preferences", "sms", nil, nil, []Provider{named("twilio")}, ""},
		{"mail", "email", nil, mine, []Provider{named("smtp")}, "smtp:ada@example.com"},
		{"no number", "sms", nil, mine, []Provider{named("twilio")}, ""},
		{
			"to is no number", "sms",
			[]string{"0151"},
			mine,
			[]Provider{named("twilio")},
			"to is not an address of channel sms: write a number such as +4915112345678",
		},
		{
			"to is no mail address", "email",
			[]string{"a@b\r\nBcc: x@y.example"},
			mine,
			[]Provider{named("smtp")},
			"to is not an address of channel email: write one address such as ada@example.com",
		},
		{
			"to is empty", "push",
			[]string{""},
			mine,
			[]Provider{named("fcm")},
			"to is not an address of channel push: write a token, fcm:TOKEN or apns:TOKEN",
		},
		{
			"two mail addresses", "email",
			[]string{"a@b.example", "c@d.example"},
			nil,
			[]Provider{named("smtp")},
			"to of channel email must be one address",
		},
	} {
		all, err := addressesOf(c.channel, c.to, c.prefs)
		got := []string{}
		for _, x := range choose(all, c.providers) {
			name := "-"
			if x.provider != nil {
				name = x.provider.Name()
			}
			got = append(got, name+":"+x.address.Value)
		}
		text := strings.Join(got, " ")
		if err != nil {
			text = err.Error()
		}
		if text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
}

func TestSum(t *testing.T) {
	ok, delivered, retry := worker.Accepted(), worker.Delivered(), worker.Retry(0).WithCode("r")
	postponed, dead := worker.Postpone(time.Second, "p"), worker.Fail("UNREGISTERED", "gone")
	for _, c := range []struct {
		all  []worker.Result
		want worker.Outcome
		code string
	}{
		{[]worker.Result{dead}, worker.OutcomeFailed, "UNREGISTERED"},
		{[]worker.Result{dead, ok}, worker.OutcomeAccepted, ""},
		{[]worker.Result{ok, delivered, retry}, worker.OutcomeDelivered, ""},
		{[]worker.Result{dead, retry, postponed}, worker.OutcomeRetry, "r"},
		{[]worker.Result{dead, postponed}, worker.OutcomePostponed, "p"},
		{[]worker.Result{dead, worker.Fail("other", "")}, worker.OutcomeFailed, "UNREGISTERED"},
		{[]worker.Result{dead, worker.Suppress("expired")}, worker.OutcomeSuppressed, "expired"},
	} {
		got := sum(c.all)
		if got.Outcome != c.want || got.Code != c.code {
			t.Errorf("%+v: %+v", c.all, got)
		}
	}
	if got := sum([]worker.Result{dead, ok}); got.Detail != "1 of 2 addresses took it; accepted" {
		t.Errorf("%+v", got)
	}
	if got := sum([]worker.Result{dead, postponed}); got.RetryAfter != time.Second {
		t.Errorf("%+v", got)
	}
}

func TestCompose(t *testing.T) {
	e := &worker.DueEvent{
		ID: "acme/p@2026-11-20T14:00:00.000Z#1", Key: "acme/p", Tenant: "acme", User: "u", Attempt: 2, Postponed: 3,
		Expires: time.Date(2026, 11, 20, 15, 0, 0, 0, time.UTC), High: true,
	}
	p := payload{
		Title: "a\r\nBcc: x", Body: "b\r\nc\x00\x1b[0m\td", DeepLink: "app://x\r\ny",
		Data: map[string]string{"k": "v"},
	}
	m := compose("push", e, p, templates.Text{}, "de")
	if m.Title != "a Bcc: x" || m.Body != "b\nc[0m\td" || m.DeepLink != "app://x y" || m.Locale != "de" || !m.High ||
		m.Trigger != "p" || m.Attempt != 2 || m.Postponed != 3 {
		t.Errorf("%+v", m)
	}
	want := map[string]string{
		"k": "v", "notification_id": "acme/p@2026-11-20T14:00:00.000Z", "expires_at": "2026-11-20T15:00:00Z",
	}
	if !maps.Equal(m.Data, want) || len(p.Data) != 1 {
		t.Errorf("%v, want %v", m.Data, want)
	}
	p.TemplateID = "x"
	m = compose("email", e, p, templates.Text{Body: "from the template", Locale: "de-AT"}, "de")
	if m.Title != "a Bcc: x" || m.Body != "from the template" || m.Locale != "de-AT" || m.Data != nil {
		t.Errorf("%+v", m)
	}
	m = compose("email", e, payload{Body: "\n " + strings.Repeat("ü", 200) + "\nmore"}, templates.Text{}, "")
	if m.Title != strings.Repeat("ü", 100)+"…" {
		t.Errorf("subject %q", m.Title)
	}
}

func TestPauses(t *testing.T) {
	var p pauses
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	p.pause("fcm", "acme", at, 0)
	p.pause("apns", "acme", at, 100*time.Hour)
	p.pause("apns", "acme", at, time.Minute) // a shorter pause does not end it
	for _, c := range []struct {
		provider string
		after    time.Duration
		want     time.Duration
	}{
		{"fcm", 0, time.Second},
		{"fcm", time.Second, 0},
		{"apns", time.Minute, 59 * time.Minute},
		{"smtp", 0, 0},
		{"apns", 2 * time.Hour, 0},
	} {
		if got := p.left(c.provider, "acme", "a", at.Add(c.after)); got != c.want {
			t.Errorf("%s after %v: %v, want %v", c.provider, c.after, got, c.want)
		}
	}
	if got := p.left("apns", "globex", "a", at); got != 0 {
		t.Errorf("another tenant waits for %v", got)
	}
	p.pause("smtp", "globex", at.Add(3*time.Hour), time.Second)
	if len(p.until) != 1 {
		t.Errorf("what is over is kept: %v", p.until)
	}
}

// What a paused provider holds up comes back one after the other, and what one address holds up when that may be tried.
func TestPausedHerd(t *testing.T) {
	var p pauses
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	p.pauseAddress("fcm", "globex", "phone", at, time.Minute)
	p.pause("fcm", "acme", at, time.Minute)
	by := map[time.Duration]int{}
	for range 5_000 {
		by[p.away("fcm", "acme", false, at, time.Minute).Truncate(time.Second)]++
		if got := p.away("fcm", "globex", false, at, time.Minute); got != time.Minute {
			t.Fatalf("an address pauses: %v", got)
		}
	}
	for i := range 5 {
		if n := by[time.Minute+time.Duration(i)*time.Second]; n != 1000 {
			t.Errorf("%d come back in second %d", n, i)
		}
	}
	if got := p.away("fcm", "acme", true, at, time.Minute); got != time.Minute {
		t.Errorf("priority high: %v", got)
	}
	p.pause("apns", "acme", at.Add(3*time.Hour), time.Second)
	if len(p.back) != 0 {
		t.Errorf("what is over is kept: %v", p.back)
	}
}

// A throttle that may concern one address pauses that address. If three addresses pause at once,
// all pause.
func TestPausesOfAddresses(t *testing.T) {
	var p pauses
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	want := func(address string, after, want time.Duration) {
		t.Helper()
		if got := p.left("fcm", "acme", address, at.Add(after)); got != want {
			t.Errorf("%s after %v: %v, want %v", address, after, got, want)
		}
	}
	for range 5 {
		p.pauseAddress("fcm", "acme", "flooded", at, time.Minute)
	}
	p.pauseAddress("fcm", "acme", "too", at, time.Second)
	p.pauseAddress("fcm", "globex", "phone", at, time.Minute)
	want("flooded", 0, time.Minute)
	want("phone", 0, 0)
	p.pauseAddress("fcm", "acme", "later", at.Add(time.Second), time.Minute) // the pause of "too" is over
	want("phone", time.Second, 0)
	want("later", time.Second, time.Minute)
	p.pauseAddress("fcm", "acme", "third", at.Add(2*time.Second), 2*time.Minute)
	want("phone", 2*time.Second, 2*time.Minute)
	want("phone", 2*time.Minute+2*time.Second, 0)
	if len(p.few[pauseKey{"fcm", "acme"}]) != 0 {
		t.Errorf("kept: %v", p.few)
	}
	p.pause("apns", "acme", at.Add(3*time.Hour), time.Second)
	if len(p.few) != 0 || len(p.until) != 1 {
		t.Errorf("what is over is kept: %v %v", p.few, p.until)
	}
}
