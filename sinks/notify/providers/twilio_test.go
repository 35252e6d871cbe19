package providers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/twilio"
	"github.com/waterclock/waterclock/sinks/notify"
	"github.com/waterclock/waterclock/sinks/notify/providers"
)

const (
	phone     = "+15558675310"
	authToken = canary + "-auth-token"
)

func newTwilio(t testing.TB, h providers.HTTP, change func(o *providers.TwilioOptions)) *providers.Twilio {
	t.Helper()
	o := providers.TwilioOptions{HTTP: h, AccountSID: "AC1", AuthToken: authToken, From: "+15017122661"}
	if change != nil {
		change(&o)
	}
	tw, err := providers.NewTwilio(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tw.Close() })
	return tw
}

// The answer is part of the example in
// https://www.twilio.com/docs/messaging/api/message-resource#create-a-message-resource.
var created = says(201, `{"sid":"SM123","status":"queued","error_code":null,"error_message":null}`,
	"Content-Type: application/json")

func TestTwilioSends(t *testing.T) {
	s := startServer(t, created)
	tw := newTwilio(t, s.http(nil), func(o *providers.TwilioOptions) { o.PublicURL = "https://wc.example.com/base/" })
	m := message(phone)
	m.AckURL, m.Expires = "https://wc.example.com/a/x", time.Now().Add(time.Hour)
	if got := said(tw.Send(t.Context(), m)); got != "accepted ref SM123" {
		t.Fatal(got)
	}
	r := s.requests("")[0]
	user, password, _ := (&http.Request{Header: r.header}).BasicAuth()
	if r.path != "/2010-04-01/Accounts/AC1/Messages.json" || user != "AC1" || password != authToken ||
		r.header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		t.Fatal(r.path, r.header)
	}
	form, err := url.ParseQuery(string(r.body))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"To": phone, "From": "+15017122661", "Body": "Rent\nPay the rent today\nhttps://wc.example.com/a/x",
	} {
		if got := form.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	var seconds int
	if _, err := fmt.Sscan(form.Get("ValidityPeriod"), &seconds); err != nil || seconds < 1 || seconds > 3600 {
		t.Error("ValidityPeriod", form.Get("ValidityPeriod"))
	}
	callback, query, _ := strings.Cut(form.Get("StatusCallback"), "?")
	if callback != "https://wc.example.com/base/v1/providers/twilio/status" {
		t.Error(callback)
	}
	ref, err := twilio.Open([]string{authToken}, query)
	if err != nil || ref != (twilio.Ref{DueID: m.ID, Attempt: 2}) {
		t.Error(ref, err)
	}
}

// The link to acknowledge is left out of a text that would be too long with it.
func TestTwilioLeavesTheLinkOut(t *testing.T) {
	const link = "https://wc.example.com/a/x"
	s := startServer(t, created)
	tw := newTwilio(t, s.http(nil), nil)
	for i, c := range []struct {
		characters int
		linked     bool
	}{{1600 - 1 - len(link), true}, {1600 - len(link), false}, {1600, false}} {
		m := message(phone)
		m.Title, m.Body, m.AckURL = "", strings.Repeat("é", c.characters), link
		if got := said(tw.Send(t.Context(), m)); got != "accepted ref SM123" {
			t.Fatalf("%d characters: %s", c.characters, got)
		}
		form, err := url.ParseQuery(string(s.requests("")[i].body))
		if err != nil {
			t.Fatal(err)
		}
		want := m.Body
		if c.linked {
			want += "\n" + link
		}
		if got := form.Get("Body"); got != want {
			t.Errorf("%d characters: %d bytes went out, want %d", c.characters, len(got), len(want))
		}
	}
}

func TestTwilioMessagingService(t *testing.T) {
	s := startServer(t, created)
	tw := newTwilio(t, s.http(nil), func(o *providers.TwilioOptions) { o.From, o.MessagingService = "", "MG1" })
	m := message(phone)
	m.Title, m.Expires = "", time.Now().Add(100*time.Hour)
	m.AckURL = "https://wc.example.com/a/x"
	m.Body = "Rent: " + m.AckURL // the template contains the link
	tw.Send(t.Context(), m)
	want := "Body=Rent%3A+https%3A%2F%2Fwc.example.com%2Fa%2Fx&MessagingServiceSid=MG1&To=%2B15558675310" +
		"&ValidityPeriod=36000"
	if got := string(s.requests("")[0].body); got != want {
		t.Fatalf("%s\nwant %s", got, want)
	}
}

// twilioFailure is an error answer in the form of
// https://www.twilio.com/docs/usage/twilios-response#response-formats-exceptions.
func twilioFailure(status, code int, text string, headers ...string) func(received, http.ResponseWriter) {
	return says(status, fmt.Sprintf(`{"code":%[1]d,"message":%[2]q,`+
		`"more_info":"https://www.twilio.com/docs/errors/%[1]d","status":%[3]d}`, code, text, status), headers...)
}

// The codes come from https://www.twilio.com/docs/api/errors.
func TestTwilioAnswers(t *testing.T) {
	s := startServer(t, created)
	tw := newTwilio(t, s.http(nil), nil)
	const ours = " after 1m0s throttled"
	for _, c := range []struct {
		name   string
		answer func(received, http.ResponseWriter)
		want   string
	}{
		{"STOP", twilioFailure(400, 21610, "Attempt to send to unsubscribed recipient"), "suppressed opted_out"},
		{
			"no number", twilioFailure(400, 21211, "The 'To' number "+phone+" is not a valid phone number."),
			"failed twilio_21211 dead",
		},
		{"a landline", twilioFailure(400, 21614, "not a valid mobile number"), "failed twilio_21614 dead"},
		{"unreachable", twilioFailure(400, 21612, "cannot be reached"), "failed twilio_21612"},
		{"a country", twilioFailure(400, 21408, "Permission has not been enabled"), "failed twilio_21408"},
		{"a trial", twilioFailure(400, 21608, "The number is unverified"), "failed twilio_21608"},
		{"too long", twilioFailure(400, 21617, "exceeds the 1600 character limit"), "failed twilio_21617"},
		{"a code nobody knows", twilioFailure(400, 99999, "new"), "failed twilio_99999"},
		{"the rate", twilioFailure(429, 20429, "Too Many Requests"), "postponed twilio_20429" + ours},
		{
			"the rate, with how long", twilioFailure(429, 20429, "Too Many Requests", "Retry-After: 2"),
			"postponed twilio_20429 after 2s throttled",
		},
		{"the queue", twilioFailure(400, 21611, "This number has exceeded it"), "postponed twilio_21611" + ours},
		{"credentials", twilioFailure(401, 20003, "Authenticate"), "postponed twilio_20003" + ours},
		{"no account", twilioFailure(404, 20404, "The resource was not found"), "postponed twilio_20404" + ours},
		{"not our number", twilioFailure(400, 21606, "not a valid number of yours"), "postponed twilio_21606" + ours},
		{"suspended", twilioFailure(403, 30002, "Account suspended"), "postponed twilio_30002" + ours},
		{"an error of Twilio's", twilioFailure(500, 20500, "Internal Server Error"), "retry twilio_20500"},
		{"a gateway's", says(502, "<html>"), "retry bad_answer"},
		{"away", says(503, ""), "retry bad_answer"},
		{"a rate without words", says(429, ""), "postponed bad_answer" + ours},
		{"a redirect", says(301, "", "Location: /"), "retry bad_answer"},
		{"hostile words", says(400, `{"code":"<x>","message":7}`), "failed bad_answer"},
		{"a negative code", says(400, `{"code":-1,"message":"x"}`), "failed twilio_error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.answer(c.answer)
			a := tw.Send(t.Context(), message(phone))
			if got := said(a); got != c.want {
				t.Fatalf("%s\nwant %s", got, c.want)
			}
			if c.want[:5] == "retry" && !strings.HasPrefix(a.Result.Detail, "it may have been sent") {
				t.Fatal(a.Result.Detail)
			}
			sound(t, a, canary, phone[1:], "Pay the rent")
		})
	}
}

func TestTwilioRefusesWithoutSending(t *testing.T) {
	s := startServer(t, created)
	tw := newTwilio(t, s.http(nil), nil)
	for _, c := range []struct {
		name   string
		change func(m *notify.Message)
		want   string
	}{
		{"expired", func(m *notify.Message) { m.Expires = time.Now().Add(-time.Second) }, "suppressed expired"},
		{"no number", func(m *notify.Message) { m.Address = "555" }, "failed twilio_21211 dead"},
		{"another channel", func(m *notify.Message) { m.Address = "whatsapp:" + phone }, "failed twilio_21211 dead"},
		{"no text", func(m *notify.Message) { m.Title, m.Body = "", "" }, "failed invalid_message"},
		{"1,601 characters", func(m *notify.Message) {
			m.Title, m.Body = "", strings.Repeat("é", 1601)
		}, "failed twilio_21617"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := message(phone)
			c.change(m)
			if got := said(tw.Send(t.Context(), m)); got != c.want {
				t.Fatalf("%s\nwant %s", got, c.want)
			}
		})
	}
	if n := len(s.requests("")); n != 0 {
		t.Fatalf("%d requests", n)
	}
}

func TestTwilioTokenIsReplaced(t *testing.T) {
	s := startServer(t, created)
	tw := newTwilio(t, s.http(nil), nil)
	if err := tw.Replace("second"); err != nil {
		t.Fatal(err)
	}
	tw.Send(t.Context(), message(phone))
	if _, password, _ := (&http.Request{Header: s.requests("")[0].header}).BasicAuth(); password != "second" {
		t.Fatal(password)
	}
	if tw.Replace("") == nil {
		t.Fatal("an empty token is taken")
	}
}

func TestTwilioOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		name string
		o    providers.TwilioOptions
		want string
	}{
		{"no account", providers.TwilioOptions{}, "account_sid"},
		{"no sender", providers.TwilioOptions{AccountSID: "AC1", AuthToken: "x"}, "one of"},
		{"two senders", providers.TwilioOptions{AccountSID: "AC1", From: "a", MessagingService: "b"}, "one of"},
		{"no token", providers.TwilioOptions{AccountSID: "AC1", From: "a"}, "auth token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := providers.NewTwilio(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatal(err)
			}
		})
	}
}

// Every code on which decisions depend is a label of its own, and none is there twice.
func TestCodesAreLabels(t *testing.T) {
	sorted := slices.Sorted(slices.Values(providers.Codes))
	if n := len(slices.Compact(sorted)); n != len(providers.Codes) {
		t.Fatal("a code is there twice")
	}
	if providers.CodeLabel("twilio_99999") != "other" || providers.CodeLabel("UNREGISTERED") != "UNREGISTERED" {
		t.Fatal("labels")
	}
}

func TestCounted(t *testing.T) {
	s := startServer(t, created)
	var got []string
	p := providers.Counted(newTwilio(t, s.http(nil), nil), func(provider, code string) {
		got = append(got, provider+" "+code)
	})
	p.Send(t.Context(), message(phone))
	s.answer(twilioFailure(400, 21614, "x"))
	p.Send(t.Context(), message(phone))
	s.answer(twilioFailure(400, 12345, "x"))
	p.Send(t.Context(), message(phone))
	if want := []string{"twilio ", "twilio twilio_21614", "twilio other"}; !slices.Equal(got, want) {
		t.Fatal(got)
	}
}
