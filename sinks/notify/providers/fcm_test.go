package providers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/waterclock/waterclock/sinks/notify"
	"github.com/waterclock/waterclock/sinks/notify/providers"
)

// google is both FCM's server and Google's token server.
type google struct {
	*server
	mu     sync.Mutex
	tokens int
	token  func(n int, assertion string, w http.ResponseWriter)
	send   func(r received, w http.ResponseWriter)
}

// startGoogle answers each fetch with token-1, token-2 and so on, valid for an hour.
func startGoogle(t testing.TB) *google {
	t.Helper()
	g := &google{send: says(200, `{"name":"projects/p1/messages/m1"}`)}
	g.token = func(n int, _ string, w http.ResponseWriter) {
		says(200, fmt.Sprintf(`{"access_token":"token-%d","expires_in":3599,"token_type":"Bearer"}`, n),
			"Content-Type: application/json")(received{}, w)
	}
	g.server = startServer(t, func(r received, w http.ResponseWriter) {
		g.mu.Lock()
		token, send := g.token, g.send
		if r.path == "/token" {
			g.tokens++
		}
		n := g.tokens
		g.mu.Unlock()
		if r.path == "/token" {
			token(n, string(r.body), w)
			return
		}
		send(r, w)
	})
	return g
}

func (g *google) fetched() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tokens
}

// canary is part of every secret in the tests.
const canary = "c4n4ry"

func (g *google) credentials(t testing.TB) []byte {
	t.Helper()
	b, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "p1", "private_key_id": "k1" + canary,
		"private_key": pemOf(t, rsaKey()), "client_email": "sender@p1.iam.gserviceaccount.com",
		"token_uri": g.URL + "/token",
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (g *google) fcm(t testing.TB, now func() time.Time) *providers.FCM {
	t.Helper()
	f, err := providers.NewFCM(providers.FCMOptions{HTTP: g.http(now), Credentials: g.credentials(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestFCMSends(t *testing.T) {
	g := startGoogle(t)
	f := g.fcm(t, nil)
	m := message("device-1")
	m.High, m.DeepLink, m.Expires = true, "app://rent", time.Now().Add(10*time.Minute)
	if got := said(f.Send(t.Context(), m)); got != "accepted ref projects/p1/messages/m1" {
		t.Fatal(got)
	}
	r := g.requests("messages:send")[0]
	if r.proto != "HTTP/2.0" || r.path != "/v1/projects/p1/messages:send" ||
		r.header.Get("Authorization") != "Bearer token-1" || r.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%s %s %v", r.proto, r.path, r.header)
	}
	var body struct{ Message map[string]any }
	if err := json.Unmarshal(r.body, &body); err != nil {
		t.Fatal(err)
	}
	android := body.Message["android"].(map[string]any)
	ttl, err := time.ParseDuration(android["ttl"].(string))
	if err != nil || ttl <= 0 || ttl > 10*time.Minute {
		t.Fatal("ttl", android["ttl"])
	}
	expiration := strconv.FormatInt(m.Expires.Unix(), 10)
	delete(android, "ttl")
	delete(body.Message["webpush"].(map[string]any)["headers"].(map[string]any), "TTL")
	const id = "SLlGOacEttJxvkGB9Ym2rX38q_OS3P1rNH5LpAV3kt0"
	want := fmt.Sprintf(`{"token":"device-1","notification":{"title":"Rent","body":"Pay the rent today"},`+
		`"data":{"deep_link":"app://rent","notification_id":"n1"},`+
		`"android":{"collapse_key":%[1]q,"priority":"HIGH","notification":{"tag":%[1]q}},`+
		`"apns":{"headers":{"apns-collapse-id":%[1]q,"apns-priority":"10","apns-expiration":%[2]q}},`+
		`"webpush":{"headers":{"Topic":%[3]q,"Urgency":"high"}}}`, id, expiration, id[:32])
	if got := canonical(t, body.Message); got != canonicalText(t, want) {
		t.Fatalf("sent\n%s\nwant\n%s", got, canonicalText(t, want))
	}
	if m.Data["deep_link"] != "" {
		t.Fatal("the message was changed")
	}
}

func canonical(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func canonicalText(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return canonical(t, v)
}

// The assertion follows https://developers.google.com/identity/protocols/oauth2/service-account.
func TestFCMAssertion(t *testing.T) {
	g := startGoogle(t)
	f := g.fcm(t, nil)
	if got := said(f.Send(t.Context(), message("d"))); !strings.HasPrefix(got, "accepted") {
		t.Fatal(got)
	}
	form := string(g.requests("/token")[0].body)
	if !strings.Contains(form, "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer") {
		t.Fatal(form)
	}
	_, assertion, _ := strings.Cut(form, "assertion=")
	assertion, _, _ = strings.Cut(assertion, "&")
	jws, err := jose.ParseSigned(assertion, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		t.Fatal(err)
	}
	text, err := jws.Verify(&rsaKey().PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	var claims struct {
		Iss, Aud, Scope string
		Iat, Exp        int64
	}
	if err := json.Unmarshal(text, &claims); err != nil {
		t.Fatal(err)
	}
	if claims.Iss != "sender@p1.iam.gserviceaccount.com" || claims.Aud != g.URL+"/token" ||
		claims.Scope != "https://www.googleapis.com/auth/firebase.messaging" || claims.Exp-claims.Iat > 3600 {
		t.Fatalf("%+v", claims)
	}
}

// fcmFailure is an error answer in the form of
// https://firebase.google.com/docs/cloud-messaging/error-codes.
func fcmFailure(status int, name, code, message string) string {
	details := ""
	if code != "" {
		details = fmt.Sprintf(`,"details":[{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError",`+
			`"errorCode":%q}]`, code)
	}
	return fmt.Sprintf(`{"error":{"code":%d,"message":%q,"status":%q%s}}`, status, message, name, details)
}

// The rows come from https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode; the waits
// come from https://firebase.google.com/docs/cloud-messaging/scale-fcm#errors.
func TestFCMAnswers(t *testing.T) {
	g := startGoogle(t)
	f := g.fcm(t, nil)
	for _, c := range []struct {
		name   string
		answer func(received, http.ResponseWriter)
		want   string
	}{
		{"sent", says(200, `{"name":"projects/p1/messages/0:15"}`), "accepted ref projects/p1/messages/0:15"},
		{
			"removed app", says(404, fcmFailure(404, "NOT_FOUND", "UNREGISTERED", "Requested entity was not found.")),
			"failed UNREGISTERED dead",
		},
		{
			"another sender", says(403, fcmFailure(403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH", "mismatch")),
			"failed SENDER_ID_MISMATCH",
		},
		{
			"a rate, with how long", says(429, fcmFailure(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", "rate"),
				"Retry-After: 7"), "postponed QUOTA_EXCEEDED after 7s throttled or the address",
		},
		{
			"a rate", says(429, fcmFailure(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED", "rate")),
			"postponed QUOTA_EXCEEDED after 1m0s throttled or the address",
		},
		{"a rate before FCM", says(429, "slow down"), "postponed bad_answer after 1m0s throttled"},
		{
			"away", says(503, fcmFailure(503, "UNAVAILABLE", "UNAVAILABLE", "overloaded"), "Retry-After: 30"),
			"postponed UNAVAILABLE after 30s throttled",
		},
		{
			"away until a date", says(503, "", "Date: Fri, 20 Nov 2026 09:00:00 GMT",
				"Retry-After: Fri, 20 Nov 2026 09:02:00 GMT"), "postponed bad_answer after 2m0s throttled",
		},
		{"an error of FCM's", says(500, fcmFailure(500, "INTERNAL", "INTERNAL", "internal")), "retry INTERNAL"},
		{"a gateway's error", says(502, "<html>bad gateway</html>"), "retry bad_answer"},
		{
			"a wrong message", says(400, fcmFailure(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT", "The "+
				"registration token is not a valid FCM registration token")), "failed INVALID_ARGUMENT",
		},
		{
			"no right", says(403, fcmFailure(403, "PERMISSION_DENIED", "", "The caller does not have permission")),
			"postponed PERMISSION_DENIED after 1m0s throttled",
		},
		{
			"no such project", says(404, fcmFailure(404, "NOT_FOUND", "", "Requested entity was not found.")),
			"postponed NOT_FOUND after 1m0s throttled",
		},
		{
			"the APNs key in Firebase", says(401, fcmFailure(401, "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR", "Auth "+
				"error from APNS or Web Push Service")), "postponed THIRD_PARTY_AUTH_ERROR after 1m0s throttled",
		},
		{"a redirect", says(302, "", "Location: https://example.com/"), "retry bad_answer"},
		{"a long answer", says(200, strings.Repeat("x", 100<<10)), "retry answer_too_large"},
		{"hostile words", says(400, `{"error":{"status":"<script>","message":"a\u0000b"}}`), "failed bad_answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g.mu.Lock()
			g.send = c.answer
			g.mu.Unlock()
			a := f.Send(t.Context(), message("device-canary"))
			if got := said(a); got != c.want {
				t.Fatalf("%s\nwant %s", got, c.want)
			}
			sound(t, a, "token-1", canary, "device-canary")
		})
	}
	if n := g.fetched(); n != 1 {
		t.Fatalf("%d tokens fetched for one hour", n)
	}
}

func TestFCMDetailNamesFieldsNotValues(t *testing.T) {
	g := startGoogle(t)
	f := g.fcm(t, nil)
	// The first example of https://firebase.google.com/docs/cloud-messaging/error-codes.
	g.send = says(400, `{"error":{"code":400,"message":"Invalid value at 'message.data[0].value' (TYPE_STRING), 12",
		"status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[
		{"field":"message.data[0].value",
		"description":"Invalid value at 'message.data[0].value' (TYPE_STRING), 12"}]}]}}`)
	a := f.Send(t.Context(), message("d"))
	if said(a) != "failed INVALID_ARGUMENT" || a.Result.Detail != "wrong: message.data[0].value" {
		t.Fatal(said(a), a.Result.Detail)
	}
}

func TestFCMRefusesWithoutSending(t *testing.T) {
	g := startGoogle(t)
	f := g.fcm(t, nil)
	for _, c := range []struct {
		name   string
		change func(m *notify.Message)
		want   string
	}{
		{"expired", func(m *notify.Message) { m.Expires = time.Now().Add(-time.Second) }, "suppressed expired"},
		{"no address", func(m *notify.Message) { m.Address = "" }, "failed invalid_message"},
		{"reserved data", func(m *notify.Message) { m.Data["from"] = "x" }, "failed invalid_message"},
		{"reserved prefix", func(m *notify.Message) { m.Data["google.x"] = "x" }, "failed invalid_message"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := message("d")
			c.change(m)
			if got := said(f.Send(t.Context(), m)); got != c.want {
				t.Fatalf("%s\nwant %s", got, c.want)
			}
		})
	}
	if n := len(g.requests("")); n != 0 {
		t.Fatalf("%d requests", n)
	}
}

func TestFCMTTLIsAtMostFourWeeks(t *testing.T) {
	g := startGoogle(t)
	f := g.fcm(t, nil)
	m := message("d")
	m.Expires = time.Now().Add(365 * 24 * time.Hour)
	f.Send(t.Context(), m)
	if body := string(g.requests("messages:send")[0].body); !strings.Contains(body, `"ttl":"2419200s"`) {
		t.Fatal(body)
	}
}

func TestFCMTokenIsFetchedAnew(t *testing.T) {
	g := startGoogle(t)
	var c clock
	f := g.fcm(t, c.now)
	send := func() string {
		t.Helper()
		if got := said(f.Send(t.Context(), message("d"))); !strings.HasPrefix(got, "accepted") {
			t.Fatal(got)
		}
		all := g.requests("messages:send")
		return all[len(all)-1].header.Get("Authorization")
	}
	if got := send(); got != "Bearer token-1" {
		t.Fatal(got)
	}
	c.advance(50 * time.Minute)
	if got := send(); got != "Bearer token-1" || g.fetched() != 1 {
		t.Fatal(got, g.fetched())
	}
	c.advance(6 * time.Minute) // 3 minutes before its end: fetched in the background
	if got := send(); got != "Bearer token-1" {
		t.Fatal(got)
	}
	waitFor(t, func() bool { return send() == "Bearer token-2" })
	c.advance(2 * time.Hour) // nothing was sent for long
	if got := send(); got != "Bearer token-3" {
		t.Fatal(got)
	}
}

// TestFCMTokenCannotBeFetchedEarly: a fetch in the background fails. Messages use the old token, and
// for a while none of them causes another fetch.
func TestFCMTokenCannotBeFetchedEarly(t *testing.T) {
	g := startGoogle(t)
	begin := time.Now()
	var ahead atomic.Int64
	f := g.fcm(t, func() time.Time { return begin.Add(time.Duration(ahead.Load())) })
	send := func() {
		t.Helper()
		if got := said(f.Send(t.Context(), message("d"))); !strings.HasPrefix(got, "accepted") {
			t.Fatal(got)
		}
	}
	send()
	g.mu.Lock()
	g.token = func(_ int, _ string, w http.ResponseWriter) { says(429, `{"error":"rate"}`)(received{}, w) }
	g.mu.Unlock()
	ahead.Store(int64(56 * time.Minute))
	send()
	waitFor(t, func() bool { return providers.FCMProblem(f) })
	for range 10 {
		send()
	}
	time.Sleep(100 * time.Millisecond) // time for a fetch in the background
	if n := g.fetched(); n != 2 {
		t.Errorf("%d fetches, want 2", n)
	}
}

// waitFor waits until a condition is true, for at most a minute.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not become so")
		}
	}
}

func TestFCMRefusedTokenIsReplacedOnce(t *testing.T) {
	g := startGoogle(t)
	f := g.fcm(t, nil)
	// https://firebase.google.com/docs/cloud-messaging/error-codes: UNAUTHENTICATED
	refused := says(401, fcmFailure(401, "UNAUTHENTICATED", "", "Request had invalid authentication credentials."))
	g.send = func(r received, w http.ResponseWriter) {
		if r.header.Get("Authorization") == "Bearer token-1" {
			refused(r, w)
			return
		}
		says(200, `{"name":"n"}`)(r, w)
	}
	if got := said(f.Send(t.Context(), message("d"))); got != "accepted ref n" {
		t.Fatal(got)
	}
	g.send = refused
	if got := said(f.Send(t.Context(), message("d"))); got != "postponed UNAUTHENTICATED after 1m0s throttled" {
		t.Fatal(got)
	}
	if sent := len(g.requests("messages:send")); sent != 4 || g.fetched() != 3 {
		t.Fatal(sent, g.fetched())
	}
}

// The token server's answers come from RFC 6749 5.2 and
// https://developers.google.com/identity/protocols/oauth2/service-account#error-codes.
func TestFCMWithoutAToken(t *testing.T) {
	skewed := time.Now().Add(-2 * time.Hour).UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		name   string
		answer func(received, http.ResponseWriter)
		want   string
		detail string
	}{
		{
			"the key was deleted", says(400, `{"error":"invalid_grant","error_description":"Invalid JWT Signature."}`),
			"postponed provider_config after 1m0s throttled",
			"no access token: HTTP 400 invalid_grant Invalid JWT Signature.",
		},
		{
			"our clock", says(400, `{"error":"invalid_grant","error_description":"Invalid JWT: Token must be a short-`+
				`lived token (60 minutes) and in a reasonable timeframe."}`, "Date: "+skewed),
			"postponed provider_config after 1m0s throttled", "this machine's clock is 2h0m",
		},
		{
			"away", says(503, "", "Retry-After: 3"), "postponed provider_unavailable after 3s throttled",
			"no access token: HTTP 503",
		},
		{
			"no token", says(200, `{}`), "postponed provider_config after 1m0s throttled", "no access token: HTTP 200",
		},
		{
			"no JSON", says(200, `<html>`), "postponed provider_config after 1m0s throttled",
			"no access token: HTTP 200",
		},
		{
			"a long answer", says(200, strings.Repeat(" ", 100<<10)), "postponed answer_too_large after 10s throttled",
			"no access token",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := startGoogle(t)
			var now clock
			f := g.fcm(t, now.now)
			g.token = func(_ int, _ string, w http.ResponseWriter) { c.answer(received{}, w) }
			a := f.Send(t.Context(), message("d"))
			if said(a) != c.want || !strings.Contains(a.Result.Detail, c.detail) {
				t.Fatalf("%s: %s\nwant %s: %s", said(a), a.Result.Detail, c.want, c.detail)
			}
			sound(t, a, canary, "BEGIN")
			f.Send(t.Context(), message("d")) // immediately: the failure is cached
			if g.fetched() != 1 || len(g.requests("messages:send")) != 0 {
				t.Fatal(g.fetched(), len(g.requests("messages:send")))
			}
			now.advance(6 * time.Second)
			f.Send(t.Context(), message("d"))
			if g.fetched() != 2 {
				t.Fatal("a failure is kept for ever")
			}
		})
	}
}

// Credentials must not make us call a server that the settings do not list.
func TestFCMTokenServerIsGuarded(t *testing.T) {
	g, other := startGoogle(t), startServer(t, says(200, `{"access_token":"x"}`))
	b := strings.ReplaceAll(string(g.credentials(t)), g.URL, other.URL)
	f, err := providers.NewFCM(providers.FCMOptions{HTTP: g.http(nil), Credentials: []byte(b)})
	if err != nil {
		t.Fatal(err)
	}
	a := f.Send(t.Context(), message("d"))
	if got := said(a); got != "postponed forbidden_url after 10s throttled" {
		t.Fatal(got)
	}
	if len(other.requests("")) != 0 {
		t.Fatal("it was called")
	}
}

func TestFCMCredentialsAreReplaced(t *testing.T) {
	g := startGoogle(t)
	f := g.fcm(t, nil)
	f.Send(t.Context(), message("d"))
	other := strings.ReplaceAll(string(g.credentials(t)), `"p1"`, `"p2"`)
	if err := f.Replace([]byte(other)); err != nil {
		t.Fatal(err)
	}
	f.Send(t.Context(), message("d"))
	all := g.requests("messages:send")
	if last := all[len(all)-1]; last.path != "/v1/projects/p2/messages:send" ||
		last.header.Get("Authorization") != "Bearer token-2" {
		t.Fatal(last.path, last.header)
	}
	if f.Replace([]byte(`{}`)) == nil {
		t.Fatal("no credentials are taken")
	}
	if got := said(f.Send(t.Context(), message("d"))); !strings.HasPrefix(got, "accepted") {
		t.Fatal("the old ones must stay in force:", got)
	}
}

func TestFCMCredentialsAreChecked(t *testing.T) {
	g := startGoogle(t)
	good := string(g.credentials(t))
	for _, c := range []struct{ name, text, want string }{
		{"no JSON", canary, "not JSON"},
		{"a user's", `{"type":"authorized_user","private_key":"` + canary + `"}`, "not of type service_account"},
		{"no key", `{"type":"service_account","client_email":"a@b"}`, "no client_email or no private_key"},
		{"no PEM", `{"type":"service_account","client_email":"a@b","private_key":"` + canary + `"}`, "not an RSA key"},
		{"no project", strings.ReplaceAll(good, `"project_id":"p1",`, ""), "set providers.fcm.project"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := providers.NewFCM(providers.FCMOptions{HTTP: g.http(nil), Credentials: []byte(c.text)})
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), canary) {
				t.Fatal(err)
			}
		})
	}
}

// A token server that does not answer delays a message by at most the message's own time-out.
func TestFCMTokenWithinContext(t *testing.T) {
	g := startGoogle(t)
	release := make(chan struct{})
	g.token = func(int, string, http.ResponseWriter) { <-release }
	f := g.fcm(t, nil)
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if got := said(f.Send(ctx, message("d"))); got != "postponed timeout after 10s throttled" {
		t.Fatal(got)
	}
}
