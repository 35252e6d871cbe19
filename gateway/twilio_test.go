package gateway

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/internal/twilio"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

const (
	publicURL   = "https://wc.example.com/base"
	twilioToken = "the-auth-token"
)

// callback is a request as Twilio makes it for a status of a message.
type callback struct {
	ref       twilio.Ref
	form      url.Values
	query     string // "" is that of ref
	signature string // "" is the right one
}

func (w *world) callback(c callback) (int, string) {
	w.t.Helper()
	if c.query == "" {
		_, c.query, _ = strings.Cut(twilio.CallbackURL(publicURL, twilioToken, c.ref), "?")
	}
	if c.signature == "" {
		c.signature = twilio.Sign(twilioToken, publicURL+twilio.Path+"?"+c.query, c.form)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url+twilio.Path+"?"+c.query,
		strings.NewReader(c.form.Encode()))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8")
	r.Header.Set(twilio.SignatureHeader, c.signature)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// status is the form of a callback
// (https://www.twilio.com/docs/messaging/guides/outbound-message-status-in-status-callbacks).
func status(name, code string) url.Values {
	form := url.Values{
		"SmsSid": {"SM1"}, "SmsStatus": {name}, "MessageStatus": {name}, "To": {"+15558675310"}, "MessageSid": {"SM1"},
		"AccountSid": {"AC1"}, "From": {"+15017122661"}, "ApiVersion": {"2010-04-01"},
	}
	if code != "" {
		form.Set("ErrorCode", code)
	}
	return form
}

func twilioWorld(t *testing.T) *world {
	w := newWorld(t, func(o *Options) {
		tokens := func() []string { return []string{twilioToken} }
		o.Twilio = &TwilioCallbacks{PublicURL: publicURL + "/", Tokens: tokens}
	})
	w.createTopic(topics.Names{}.Receipts())
	return w
}

// receipts reads the receipts that were written, n of them.
func (w *world) receipts(n int) (list []*topics.Receipt) {
	w.t.Helper()
	for _, r := range w.records(topics.Names{}.Receipts(), n) {
		if r.Partition != topics.Partition(r.Key, testPartitions) {
			w.t.Errorf("%s is on partition %d", r.Key, r.Partition)
		}
		receipt, err := topics.DecodeReceipt(&topics.Record{Key: r.Key, Value: r.Value})
		if err != nil {
			w.t.Fatalf("%s: %v", r.Value, err)
		}
		list = append(list, receipt)
	}
	return list
}

func TestTwilioStatus(t *testing.T) {
	w := twilioWorld(t)
	ref := twilio.Ref{DueID: "acme/rent@2026-11-20T09:00:00#1", Attempt: 2, Postponed: 1}
	for _, form := range []url.Values{status("sending", ""), status("delivered", "")} {
		if code, body := w.callback(callback{ref: ref, form: form}); code != http.StatusNoContent {
			t.Fatal(code, body)
		}
	}
	r := w.receipts(1)[0]
	if r.Key != "acme/rent" || r.Occurrence != "2026-11-20T09:00:00" || r.Step != 1 || r.Channel != "sms" ||
		r.Outcome != topics.OutcomeDelivered || r.Attempt != 2 || r.Postponed != 1 || r.At == 0 {
		t.Fatalf("%+v", r)
	}
	if code, body := w.callback(callback{
		ref: twilio.Ref{DueID: "rent@2026-11-20T09:00:00#0"}, form: status("undelivered", "30005"),
	}); code != http.StatusNoContent {
		t.Fatal(code, body)
	}
	for _, r := range w.receipts(2) {
		if r.Key == trigger.Key("rent") && (r.Outcome != topics.OutcomeFailed || r.Code != "twilio_30005" ||
			r.Attempt != 0 || r.Postponed != -1) {
			t.Fatalf("%+v", r)
		}
	}
}

// Nobody but Twilio reports a status, and of no other due event than the one it was given.
func TestTwilioStatusForged(t *testing.T) {
	w := twilioWorld(t)
	mine := twilio.Ref{DueID: "acme/rent@2026-11-20T09:00:00#0", Attempt: 1}
	form := status("delivered", "")
	_, query, _ := strings.Cut(twilio.CallbackURL(publicURL, twilioToken, mine), "?")
	_, other, _ := strings.Cut(twilio.CallbackURL(publicURL, "another-token",
		twilio.Ref{DueID: "bank/otp@2026-11-20T09:00:00#0"}), "?")
	right := twilio.Sign(twilioToken, publicURL+twilio.Path+"?"+query, form)
	for _, c := range []struct {
		name string
		callback
	}{
		{"no signature", callback{form: form, query: query, signature: "-"}},
		{"another token", callback{
			form: form, query: query, signature: twilio.Sign("x", publicURL+twilio.Path+"?"+query, form),
		}},
		{"a changed form", callback{form: status("failed", ""), query: query, signature: right}},
		{"of another URL", callback{
			form: form, query: query, signature: twilio.Sign(twilioToken, "https://evil.example.com/?"+query, form),
		}},
		{"another tenant's due event, sealed by someone else, signed by Twilio", callback{form: form, query: other}},
		{"no reference, signed by Twilio", callback{form: form, query: "ref="}},
		{"another query, signed by Twilio", callback{form: form, query: query + "&x=1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, body := w.on(t).callback(c.callback)
			if code != http.StatusForbidden || !strings.Contains(body, `"code":"forbidden"`) {
				t.Fatal(code, body)
			}
		})
	}
	if code, body := w.callback(callback{ref: mine, form: form}); code != http.StatusNoContent {
		t.Fatal(code, body)
	}
	if list := w.receipts(1); len(list) != 1 || list[0].Key != "acme/rent" {
		t.Fatal("a forged callback wrote a receipt")
	}
}

func TestTwilioStatusWithoutTwilio(t *testing.T) {
	w := newWorld(t, nil)
	if code, body := w.callback(callback{form: status("delivered", "")}); code != http.StatusNotFound ||
		!strings.Contains(body, "providers.twilio") {
		t.Fatal(code, body)
	}
}
