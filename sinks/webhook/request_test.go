package webhook

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"golang.org/x/net/http/httpguts"

	"github.com/waterclock/waterclock/clients/go/worker"
)

func render(t testing.TB, e *worker.DueEvent, s Settings) *Request {
	t.Helper()
	c, err := callbackOf(e)
	if err != nil {
		t.Fatal(err)
	}
	r, err := build(e, c, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRequest compares the whole request, byte for byte.
func TestRequest(t *testing.T) {
	keys, err := NewKeys(newSecret, oldSecret)
	if err != nil {
		t.Fatal(err)
	}
	e := due("acme/päck 1", to("https://hooks.example.com/in?token=1"), func(e *worker.DueEvent) {
		e.Tenant, e.Attempt, e.User, e.LocalTime = "acme", 2, "u_81", "2026-11-20T09:00:00[America/New_York]"
		e.TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		e.Expires = e.Scheduled.Add(time.Hour)
	})
	r := render(t, e, Settings{
		Keys: keys, UserAgent: "Waterclock/1.0", Now: time.Unix(1795183200, 0),
		Headers: http.Header{"Authorization": {"Bearer x"}},
	})
	req := httptest.NewRequest(http.MethodPost, r.URL.String(), bytes.NewReader(r.Body))
	req.Header = r.Header
	out, err := httputil.DumpRequest(req, true)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(`POST https://hooks.example.com/in?token=1 HTTP/1.1
Accept-Encoding: identity
Authorization: Bearer x
Ce-Expirytime: 2026-11-20T15:00:00.000Z
Ce-Id: acme/p%C3%A4ck%201@2026-11-20T14:00:00.000Z#0
Ce-Source: /waterclock/test
Ce-Specversion: 1.0
Ce-Subject: acme/p%C3%A4ck%201
Ce-Time: 2026-11-20T14:00:00.000Z
Ce-Type: waterclock.due.v1
Ce-Wcattempt: 2
Ce-Wcfired: 2026-11-20T14:00:00.003Z
Ce-Wclocaltime: 2026-11-20T09:00:00[America/New_York]
Ce-Wcrevision: 3
Ce-Wcstep: 0
Ce-Wcuser: u_81
Content-Type: application/json
Traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
User-Agent: Waterclock/1.0
Webhook-Id: msg_6434c9489e839cf5b849a6e471267145
Webhook-Signature: v1,MKyFrc5yoCZJZGkIaD600vmY+08nPzwKVB7+yryZJGg= v1,eKN4tCUSCaKCH89ZgXUtHVibnsv7Y2IG9pFUrdrBsAE=
Webhook-Timestamp: 1795183200
X-Trigger-Attempt: 2
X-Trigger-Id: p%C3%A4ck%201

{"triggerId":"päck 1","payload":{"say":"tea"}}`, "\n", "\r\n")
	if string(out) != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	if repeat := render(t, e, Settings{Keys: keys, UserAgent: "Waterclock/1.0", Now: time.Unix(1795183200, 0)}); repeat.
		Header.Get("Webhook-Signature") != r.Header.Get("Webhook-Signature") {
		t.Error("the same event and settings are signed otherwise")
	}
}

func TestBodies(t *testing.T) {
	for _, row := range []struct {
		name, body, payload, contentType string
		want, wantType                   string
	}{
		{"json", "", `{"a": 1}`, "", `{"triggerId":"k","payload":{"a": 1}}`, "application/json"},
		{"bytes", "", "\xff\x00", "image/png", `{"triggerId":"k","payload_base64":"/wA="}`, "application/json"},
		{"text that is no JSON", "", "hello", "text/plain", `{"triggerId":"k","payload_base64":"aGVsbG8="}`, "application/json"},
		{"json twice", "", `{}{}`, "", `{"triggerId":"k","payload_base64":"e317fQ=="}`, "application/json"},
		{"none", "", "", "", `{"triggerId":"k","payload":null}`, "application/json"},
		{"raw json", "raw", `{"a": 1}`, "", `{"a": 1}`, "application/json"},
		{"raw with a type", "raw", "hello", "text/plain; charset=utf-8", "hello", "text/plain; charset=utf-8"},
		{"raw bytes", "raw", "\xff", "", "\xff", "application/octet-stream"},
		{"raw, hostile type", "raw", "x", "text/plain\r\nX-Trigger-Id: other", "x", "application/octet-stream"},
		{"raw, long type", "raw", "x", strings.Repeat("a", 300), "x", "application/octet-stream"},
		{"raw none", "raw", "", "text/plain", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := render(t, due("k", to("https://a.example/", "body", row.body), func(e *worker.DueEvent) {
				e.Payload, e.ContentType = []byte(row.payload), row.contentType
			}), Settings{Now: time.Unix(0, 0)})
			if string(r.Body) != row.want || r.Header.Get("Content-Type") != row.wantType {
				t.Errorf("body %q of %q, want %q of %q", r.Body, r.Header.Get("Content-Type"), row.want, row.wantType)
			}
		})
	}
}

// During a key rotation, either key alone verifies. A changed body, id or key does not. Without
// keys nothing is signed.
func TestSignatures(t *testing.T) {
	keys, err := NewKeys(newSecret, oldSecret)
	if err != nil {
		t.Fatal(err)
	}
	r := render(t, due("k", to("https://a.example/")), Settings{Keys: keys, Now: time.Now()})
	for _, secret := range []string{newSecret, oldSecret} {
		verifier, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := verifier.Verify(r.Body, r.Header); err != nil {
			t.Errorf("%s: %v", secret, err)
		}
		if verifier.Verify(append([]byte(" "), r.Body...), r.Header) == nil {
			t.Error("another body is verified")
		}
		other := r.Header.Clone()
		other.Set("Webhook-Id", "msg_other")
		if verifier.Verify(r.Body, other) == nil {
			t.Error("another id is verified")
		}
	}
	stranger, _ := standardwebhooks.NewWebhook("whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	if stranger.Verify(r.Body, r.Header) == nil {
		t.Error("another key verifies")
	}
	unsigned := render(t, due("k", to("https://a.example/")), Settings{Now: time.Now()})
	if unsigned.Header.Get("Webhook-Signature") != "" {
		t.Error("signed without a key")
	}
	for _, bad := range [][]string{{"abc"}, {"whsec_%"}, {"whsec_YQ=="}, {newSecret, oldSecret, newSecret}} {
		if _, err := NewKeys(bad...); err == nil || strings.Contains(err.Error(), "YQ==") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// The id is the same for every attempt and postponement, and differs for another occurrence.
func TestMessageID(t *testing.T) {
	a := due("k", to("https://a.example/"))
	b := due("k", to("https://a.example/"), func(e *worker.DueEvent) { e.Attempt, e.Postponed = 5, 3 })
	c := due("k", to("https://a.example/"), func(e *worker.DueEvent) { e.ID = "k@2026-11-21T14:00:00.000Z#0" })
	id := func(e *worker.DueEvent) string {
		return render(t, e, Settings{Now: time.Now()}).Header.Get("Webhook-Id")
	}
	if id(a) != id(b) || id(a) == id(c) {
		t.Errorf("%s %s %s", id(a), id(b), id(c))
	}
}

func TestCallbackOf(t *testing.T) {
	for text, want := range map[string]time.Duration{
		to("https://a.example/"):                       10 * time.Second,
		to("https://a.example/", "timeout", "250ms"):   250 * time.Millisecond,
		to("https://a.example/", "timeout", "3600s"):   time.Minute,
		to("https://a.example/", "timeout", "-1s"):     10 * time.Second,
		to("https://a.example/", "timeout", "garbage"): 10 * time.Second,
	} {
		if c, err := callbackOf(due("k", text)); err != nil || c.timeout != want {
			t.Errorf("%s: %v, %v", text, c.timeout, err)
		}
	}
	for _, text := range []string{"", "{", "[]", to(""), to("/path"), to("https://"), to("::")} {
		if _, err := callbackOf(due("k", text)); err == nil {
			t.Errorf("%q is a callback", text)
		}
	}
}

// FuzzRequest checks that whatever a producer writes, the request has the required headers, each
// once. The producer can choose none of them, and no line ends inside one.
func FuzzRequest(f *testing.F) {
	f.Add("k", "default", "u", "[America/New_York]", "text/plain", []byte("{}"), "00-0-0-0", false)
	f.Add("a/b\r\nX: y", "a\r\nb", "u\r\nX-Trigger-Id: 1", "\x00", "a\r\nb: c", []byte("\r\n"), "00\r\nX: y", true)
	f.Fuzz(func(t *testing.T, key, source, user, local, contentType string, payload []byte, trace string, raw bool) {
		e := due(key, to("https://a.example/"), func(e *worker.DueEvent) {
			e.Source, e.User, e.LocalTime, e.ContentType, e.Payload = source, user, local, contentType, payload
			e.TraceParent = trace
		})
		c, err := callbackOf(e)
		if err != nil {
			t.Fatal(err)
		}
		c.raw = raw
		keys, _ := NewKeys(newSecret)
		r, err := build(e, c, Settings{Keys: keys, UserAgent: "w", Now: time.Unix(1, 0)})
		if err != nil {
			t.Fatal(err)
		}
		known := []string{
			"Accept-Encoding", "Ce-Id", "Ce-Source", "Ce-Specversion", "Ce-Subject", "Ce-Time", "Ce-Type",
			"Ce-Wcattempt", "Ce-Wcfired", "Ce-Wclocaltime", "Ce-Wcrevision", "Ce-Wcstep", "Ce-Wcuser",
			"Content-Type", "Traceparent", "User-Agent", "Webhook-Id", "Webhook-Signature",
			"Webhook-Timestamp", "X-Trigger-Attempt", "X-Trigger-Id",
		}
		for name, values := range r.Header {
			if !slices.Contains(known, name) || len(values) != 1 || !httpguts.ValidHeaderFieldValue(values[0]) ||
				strings.ContainsFunc(values[0], func(c rune) bool { return c < ' ' || c > '~' }) {
				t.Errorf("header %q: %q", name, values)
			}
		}
		if r.Header.Get("Webhook-Id") != messageID(e.ID) || r.Header.Get("X-Trigger-Attempt") != "1" {
			t.Errorf("headers %v", r.Header)
		}
		if !raw && !json.Valid(r.Body) {
			t.Errorf("body %q", r.Body)
		}
		if raw && !bytes.Equal(r.Body, payload) {
			t.Errorf("body %q, want %q", r.Body, payload)
		}
	})
}
