package twilio_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/internal/twilio"
	"github.com/waterclock/waterclock/topics"
)

// The examples of https://www.twilio.com/docs/usage/security#validating-requests and of the tests of Twilio's own
// libraries (https://github.com/twilio/twilio-python, tests/unit/test_request_validator.py).
func TestSignVectors(t *testing.T) {
	for _, c := range []struct{ caller, want string }{
		{"+12349013030", "0/KCTR6DLpKmkAf8muzZqo1nDgQ="},
		{"+14158675309", "RSOYDt4T1cUTdK1PDd93/VVr8B8="},
	} {
		form := url.Values{
			"CallSid": {"CA1234567890ABCDE"}, "Caller": {c.caller}, "Digits": {"1234"}, "From": {c.caller},
			"To": {"+18005551212"},
		}
		const called = "https://mycompany.com/myapp.php?foo=1&bar=2"
		if got := twilio.Sign("12345", called, form); got != c.want {
			t.Errorf("%s: %s, want %s", c.caller, got, c.want)
		}
		if !twilio.Signed([]string{"new", "12345"}, called, form, c.want) {
			t.Error("either token may sign while one is rotated")
		}
		if twilio.Signed([]string{"", "1234"}, called, form, c.want) || twilio.Signed(nil, called, form, c.want) {
			t.Error("another token signs, too")
		}
		form.Set("Digits", "1235")
		if twilio.Signed([]string{"12345"}, called, form, c.want) {
			t.Error("a changed form is taken")
		}
	}
}

func TestRef(t *testing.T) {
	ref := twilio.Ref{DueID: "acme/rent é@2026-11-20T09:00:00+f1#2", Attempt: 3, Postponed: 1}
	called := twilio.CallbackURL("https://wc.example.com/", "t1", ref)
	path, query, _ := strings.Cut(called, "?")
	if path != "https://wc.example.com/v1/providers/twilio/status" || strings.ContainsAny(query, "%+ ") {
		t.Fatal(called)
	}
	if got, err := twilio.Open([]string{"t2", "t1"}, query); err != nil || got != ref {
		t.Fatal(got, err)
	}
	for name, bad := range map[string]string{
		"nothing": "", "no value": "ref=", "short": "ref=AAAA", "no base64": "ref=%00", "twice": query + "&" + query,
		"more": query + "&x=1", "cut": query[:len(query)-4], "long": "ref=" + strings.Repeat("A", 10_000),
	} {
		if _, err := twilio.Open([]string{"t1"}, bad); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for i := range query[len("ref="):] { // each letter changed
		b := []byte(query)
		b[len("ref=")+i] ^= 1
		if got, err := twilio.Open([]string{"t1"}, string(b)); err == nil && got != ref {
			t.Fatalf("changed at %d: %v", i, got)
		}
	}
	_, query, _ = strings.Cut(twilio.CallbackURL("", "", ref), "?")
	if _, err := twilio.Open([]string{""}, query); err == nil {
		t.Fatal("an empty token opens")
	}
}

// The statuses are those of https://www.twilio.com/docs/messaging/api/message-resource#message-status-values.
func TestStatus(t *testing.T) {
	for _, c := range []struct {
		status, errorCode string
		outcome           topics.Outcome
		code              string
	}{
		{"queued", "", topics.OutcomeAccepted, ""},
		{"accepted", "", topics.OutcomeAccepted, ""},
		{"scheduled", "", "", ""},
		{"sending", "", "", ""},
		{"sent", "", topics.OutcomeAccepted, ""},
		{"delivered", "", topics.OutcomeDelivered, ""},
		{"read", "", topics.OutcomeDelivered, ""},
		{"undelivered", "30005", topics.OutcomeFailed, "twilio_30005"},
		{"failed", "30007", topics.OutcomeFailed, "twilio_30007"},
		{"failed", "", topics.OutcomeFailed, "twilio_failed"},
		{"failed", "<script>", topics.OutcomeFailed, "twilio_failed"},
		{"canceled", "", topics.OutcomeFailed, "twilio_canceled"},
		{"received", "", "", ""},
		{"", "", "", ""},
		{"nonsense", "", "", ""},
	} {
		outcome, code, _, ok := twilio.Status(c.status, c.errorCode)
		if outcome != c.outcome || code != c.code || ok != (c.outcome != "") {
			t.Errorf("%s %s: %s %s %v", c.status, c.errorCode, outcome, code, ok)
		}
	}
}

// Nobody without the token makes a reference that opens.
func FuzzOpen(f *testing.F) {
	_, query, _ := strings.Cut(twilio.CallbackURL("", "t1", twilio.Ref{DueID: "k@x#0"}), "?")
	f.Add(query)
	f.Add("ref=" + strings.Repeat("A", 40))
	f.Fuzz(func(t *testing.T, q string) {
		if _, err := twilio.Open([]string{"t1"}, q); err == nil && q != query {
			if v, err := url.ParseQuery(q); err != nil || "ref="+v.Get("ref") != query {
				t.Fatal(q)
			}
		}
	})
}
