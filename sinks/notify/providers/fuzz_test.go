package providers

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/sinks/notify"
)

// FuzzAnswers checks that any answer of a server becomes a valid receipt: a consistent outcome,
// with a short code and detail, and without the address.
func FuzzAnswers(f *testing.F) {
	f.Add(200, `{"name":"projects/p/messages/1"}`, "")
	f.Add(404, `{"error":{"status":"NOT_FOUND","details":[{"@type":"x/google.firebase.fcm.v1.FcmError",`+
		`"errorCode":"UNREGISTERED"}]}}`, "")
	f.Add(400, `{"error":{"details":[{"fieldViolations":[{"field":"message.token"}]}]}}`, "")
	f.Add(410, `{"reason":"Unregistered","timestamp":1454948015990}`, "")
	f.Add(429, `{"reason":"TooManyRequests"}`, "7")
	f.Add(503, `{"code":20429,"message":"\u0000 +15558675310"}`, "Fri, 20 Nov 2026 09:02:00 GMT")
	f.Add(400, `{"code":21211,"message":"The number +15558675310 is not a valid phone number."}`, "9999999999999999999")
	f.Add(400, `{"error":"invalid_grant","error_description":"`+strings.Repeat("é", 300)+`"}`, "-1")
	const address = "+15558675310"
	f.Fuzz(func(t *testing.T, status int, body, wait string) {
		r := reply{status: status, body: []byte(body), header: http.Header{"Retry-After": {wait}}}
		now := time.Unix(1_800_000_000, 0)
		checkAnswer(t, fcmAnswer(r, address, now), address)
		checkAnswer(t, apnsAnswer(r, address, now), address)
		checkAnswer(t, twilioAnswer(r, now, address), address)
		checkAnswer(t, tokenAnswer(r, now), "")
		_ = apnsReason(r)
	})
}

func checkAnswer(t *testing.T, a notify.Answer, address string) {
	t.Helper()
	r := a.Result
	switch r.Outcome {
	case worker.OutcomeAccepted:
	case worker.OutcomeFailed, worker.OutcomeRetry, worker.OutcomePostponed, worker.OutcomeSuppressed:
		if r.Code == "" {
			t.Fatalf("no code: %+v", a)
		}
	default:
		t.Fatalf("outcome %q", r.Outcome)
	}
	if a.Throttled && r.Outcome != worker.OutcomePostponed || a.DeadAddress && r.Outcome != worker.OutcomeFailed {
		t.Fatalf("it does not fit: %+v", a)
	}
	if r.Outcome == worker.OutcomePostponed && (r.RetryAfter < time.Second || r.RetryAfter > 24*time.Hour) {
		t.Fatalf("postponed for %s", r.RetryAfter)
	}
	if len(r.Code) > 128 || len(r.Detail) > 512 || len(a.Ref) > 512 || !utf8.ValidString(r.Detail+r.Code+a.Ref) {
		t.Fatalf("too long, or no text: %+v", a)
	}
	if address != "" && strings.Contains(r.Detail, address) {
		t.Fatalf("the address is in the detail: %q", r.Detail)
	}
}

// FuzzAccount checks that an accepted key file has what a token needs.
func FuzzAccount(f *testing.F) {
	f.Add([]byte(`{"type":"service_account","client_email":"a@b","private_key":"-----BEGIN PRIVATE KEY-----\n"}`))
	f.Add([]byte(`{"type":"authorized_user"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := readAccount(b)
		if err == nil && (a.ClientEmail == "" || a.PrivateKey == "" || a.TokenURI == "") {
			t.Fatalf("%+v", a)
		}
	})
}
