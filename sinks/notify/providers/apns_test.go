package providers_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/waterclock/waterclock/sinks/notify"
	"github.com/waterclock/waterclock/sinks/notify/providers"
)

const device = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0" // from Apple's page

func newAPNs(t testing.TB, h providers.HTTP, key *ecdsa.PrivateKey) *providers.APNs {
	t.Helper()
	a, err := providers.NewAPNs(providers.APNsOptions{
		HTTP: h, Key: []byte(pemOf(t, key)), KeyID: "ABC123DEFG", TeamID: "DEF123GHIJ", Topic: "com.example.app",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// accepts is the answer to a push that APNs accepts.
func accepts(r received, w http.ResponseWriter) {
	w.Header().Set("apns-id", r.header.Get("apns-id"))
}

func refusesFor(status int, reason string, headers ...string) func(received, http.ResponseWriter) {
	return says(status, fmt.Sprintf(`{"reason":%q}`, reason), headers...)
}

func TestAPNsSends(t *testing.T) {
	s := startServer(t, accepts)
	a := newAPNs(t, s.http(nil), ecKey(t))
	m := message(device)
	m.High, m.DeepLink, m.Expires = true, "app://rent", time.Unix(2_000_000_000, 0)
	const id = "48b94639-a704-86d2-b1be-4181f589b6ad"
	if got := said(a.Send(t.Context(), m)); got != "accepted ref "+id {
		t.Fatal(got)
	}
	r := s.requests("")[0]
	if r.proto != "HTTP/2.0" || r.path != "/3/device/"+device {
		t.Fatal(r.proto, r.path)
	}
	for name, want := range map[string]string{
		"apns-push-type": "alert", "apns-topic": "com.example.app", "apns-id": id, "apns-priority": "10",
		"apns-expiration": "2000000000", "apns-collapse-id": "SLlGOacEttJxvkGB9Ym2rX38q_OS3P1rNH5LpAV3kt0",
	} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	want := `{"aps":{"alert":{"title":"Rent","body":"Pay the rent today"},"sound":"default"},"deep_link":"app://rent",
		"notification_id":"n1"}`
	if canonicalText(t, string(r.body)) != canonicalText(t, want) {
		t.Fatalf("%s", r.body)
	}
	m.High, m.Expires = false, time.Time{}
	a.Send(t.Context(), m)
	r = s.requests("")[1]
	if r.header.Get("apns-priority") != "5" || r.header.Values("apns-expiration") != nil ||
		r.header.Get("apns-id") != id {
		t.Fatal(r.header)
	}
}

// The token follows
// https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns.
func TestAPNsToken(t *testing.T) {
	s, key := startServer(t, accepts), ecKey(t)
	var c clock
	a := newAPNs(t, s.http(c.now), key)
	before := time.Now().Unix()
	token := func() string {
		t.Helper()
		if got := said(a.Send(t.Context(), message(device))); !strings.HasPrefix(got, "accepted") {
			t.Fatal(got)
		}
		all := s.requests("")
		return all[len(all)-1].header.Get("Authorization")
	}
	first := token()
	if iat := issued(t, first, key); iat < before || iat > time.Now().Unix() {
		t.Fatal("iat", iat)
	}
	c.advance(49 * time.Minute)
	if token() != first {
		t.Fatal("a new token after 49 minutes")
	}
	c.advance(2 * time.Minute)
	if token() == first {
		t.Fatal("an old token after 51 minutes")
	}
	other := ecKey(t)
	if err := a.Replace([]byte(pemOf(t, other))); err != nil {
		t.Fatal(err)
	}
	issued(t, token(), other)
}

// issued checks a token and returns its time.
func issued(t *testing.T, authorization string, key *ecdsa.PrivateKey) int64 {
	t.Helper()
	at, err := readToken(authorization, key)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func readToken(authorization string, key *ecdsa.PrivateKey) (int64, error) {
	token, _ := strings.CutPrefix(authorization, "bearer ")
	jws, err := jose.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return 0, err
	}
	text, err := jws.Verify(&key.PublicKey)
	if err != nil {
		return 0, err
	}
	var claims struct {
		Iss string
		Iat int64
	}
	if err := json.Unmarshal(text, &claims); err != nil {
		return 0, err
	}
	if jws.Signatures[0].Protected.KeyID != "ABC123DEFG" || claims.Iss != "DEF123GHIJ" {
		return 0, fmt.Errorf("%+v %s", jws.Signatures[0].Protected, text)
	}
	return claims.Iat, nil
}

// The rows come from
// https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns.
func TestAPNsAnswers(t *testing.T) {
	s := startServer(t, accepts)
	a := newAPNs(t, s.http(nil), ecKey(t))
	const ours = " after 1m0s throttled"
	for _, c := range []struct {
		status       int
		reason, want string
	}{
		{400, "BadCollapseId", "failed BadCollapseId"},
		{400, "BadDeviceToken", "failed BadDeviceToken"},
		{400, "BadExpirationDate", "failed BadExpirationDate"},
		{400, "BadMessageId", "failed BadMessageId"},
		{400, "BadPriority", "failed BadPriority"},
		{400, "BadTopic", "postponed BadTopic" + ours},
		{400, "DeviceTokenNotForTopic", "failed DeviceTokenNotForTopic"},
		{400, "DuplicateHeaders", "failed DuplicateHeaders"},
		{400, "IdleTimeout", "failed IdleTimeout"},
		{400, "InvalidPushType", "failed InvalidPushType"},
		{400, "MissingDeviceToken", "failed MissingDeviceToken"},
		{400, "MissingTopic", "postponed MissingTopic" + ours},
		{400, "PayloadEmpty", "failed PayloadEmpty"},
		{400, "TopicDisallowed", "postponed TopicDisallowed" + ours},
		{403, "BadCertificate", "postponed BadCertificate" + ours},
		{403, "BadCertificateEnvironment", "postponed BadCertificateEnvironment" + ours},
		{403, "Forbidden", "postponed Forbidden" + ours},
		{403, "InvalidProviderToken", "postponed InvalidProviderToken" + ours},
		{403, "MissingProviderToken", "postponed MissingProviderToken" + ours},
		{403, "UnrelatedKeyIdInToken", "postponed UnrelatedKeyIdInToken" + ours},
		{403, "BadEnvironmentKeyIdInToken", "postponed BadEnvironmentKeyIdInToken" + ours},
		{404, "BadPath", "failed BadPath"},
		{405, "MethodNotAllowed", "failed MethodNotAllowed"},
		{410, "ExpiredToken", "failed ExpiredToken dead"},
		{410, "Unregistered", "failed Unregistered dead"},
		{413, "PayloadTooLarge", "failed PayloadTooLarge"},
		{429, "TooManyProviderTokenUpdates", "postponed TooManyProviderTokenUpdates" + ours},
		{429, "TooManyRequests", "postponed TooManyRequests after 1m0s"},
		{500, "InternalServerError", "retry InternalServerError"},
		{503, "ServiceUnavailable", "postponed ServiceUnavailable after 10s throttled"},
		{503, "Shutdown", "postponed Shutdown after 10s throttled"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			s.answer(refusesFor(c.status, c.reason))
			answer := a.Send(t.Context(), message(device))
			if got := said(answer); got != c.want {
				t.Fatalf("%s\nwant %s", got, c.want)
			}
			sound(t, answer, device)
			if !slices.Contains(providers.Codes, c.reason) {
				t.Fatal("a documented code without a label")
			}
		})
	}
	for _, c := range []struct {
		name   string
		answer func(received, http.ResponseWriter)
		want   string
	}{
		{"how long", refusesFor(429, "TooManyRequests", "Retry-After: 5"), "postponed TooManyRequests after 5s"},
		{"no JSON", says(403, "<html>"), "postponed bad_answer after 1m0s throttled"},
		{"no reason", says(410, "{}"), "failed bad_answer dead"},
		{"a redirect", says(301, "", "Location: /"), "retry bad_answer"},
		{"a gateway", says(502, ""), "retry bad_answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.answer(c.answer)
			if got := said(a.Send(t.Context(), message(device))); got != c.want {
				t.Fatalf("%s\nwant %s", got, c.want)
			}
		})
	}
}

func TestAPNsRefusesWithoutSending(t *testing.T) {
	s := startServer(t, accepts)
	a := newAPNs(t, s.http(nil), ecKey(t))
	for _, c := range []struct {
		name   string
		change func(m *notify.Message)
		want   string
	}{
		{"expired", func(m *notify.Message) { m.Expires = time.Now().Add(-time.Second) }, "suppressed expired"},
		{"no token", func(m *notify.Message) { m.Address = "" }, "failed BadDeviceToken dead"},
		{"a path", func(m *notify.Message) { m.Address = "ab/../../x?y" }, "failed BadDeviceToken dead"},
		{"data aps", func(m *notify.Message) { m.Data = map[string]string{"aps": "x"} }, "failed invalid_message"},
		{"4,097 bytes", func(m *notify.Message) { fill(m, 4097) }, "failed PayloadTooLarge"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := message(device)
			c.change(m)
			if got := said(a.Send(t.Context(), m)); got != c.want {
				t.Fatalf("%s\nwant %s", got, c.want)
			}
		})
	}
	if n := len(s.requests("")); n != 0 {
		t.Fatalf("%d requests", n)
	}
	m := message(device)
	fill(m, 4096)
	if got := said(a.Send(t.Context(), m)); !strings.HasPrefix(got, "accepted") {
		t.Fatal(got)
	}
	if n := len(s.requests("")[0].body); n != 4096 {
		t.Fatal(n)
	}
}

// fill sets a message's body so that its payload has the given size in bytes.
func fill(m *notify.Message, size int) {
	m.Title, m.Data, m.Body = "", nil, ""
	m.Body = strings.Repeat("x", size-len(`{"aps":{"alert":{"body":""},"sound":"default"}}`))
}

func TestAPNsExpiredProviderToken(t *testing.T) {
	s := startServer(t, accepts)
	key := ecKey(t)
	var c clock
	a := newAPNs(t, s.http(c.now), key)
	a.Send(t.Context(), message(device))
	old := s.requests("")[0].header.Get("Authorization")
	c.advance(time.Second) // so that the next token differs
	stale := func(r received, w http.ResponseWriter) {
		if r.header.Get("Authorization") == old {
			refusesFor(403, "ExpiredProviderToken")(r, w)
			return
		}
		accepts(r, w)
	}
	s.answer(stale)
	if got := said(a.Send(t.Context(), message(device))); !strings.HasPrefix(got, "accepted") {
		t.Fatal(got)
	}
	if n := len(s.requests("")); n != 3 {
		t.Fatal(n)
	}
	// The new one is expired, too. No third one may be made within 20 minutes.
	s.answer(refusesFor(403, "ExpiredProviderToken"))
	if got := said(a.Send(t.Context(), message(device))); got != "postponed ExpiredProviderToken after 1m0s throttled" {
		t.Fatal(got)
	}
	if n := len(s.requests("")); n != 4 {
		t.Fatal(n)
	}
	c.advance(21 * time.Minute)
	a.Send(t.Context(), message(device))
	if n := len(s.requests("")); n != 6 {
		t.Fatal(n)
	}
}

// Our clock is two hours behind Apple's. The answer's Date shows that, and the next token has
// Apple's time.
func TestAPNsClockSkew(t *testing.T) {
	s, key := startServer(t, accepts), ecKey(t)
	var c clock
	c.advance(-2 * time.Hour)
	a := newAPNs(t, s.http(c.now), key)
	s.answer(func(r received, w http.ResponseWriter) {
		iat, err := readToken(r.header.Get("Authorization"), key)
		if err != nil {
			refusesFor(403, "InvalidProviderToken")(r, w)
			return
		}
		if time.Since(time.Unix(iat, 0)) > time.Hour {
			refusesFor(403, "ExpiredProviderToken", "Date: "+time.Now().UTC().Format(http.TimeFormat))(r, w)
			return
		}
		accepts(r, w)
	})
	for range 3 {
		if got := said(a.Send(t.Context(), message(device))); !strings.HasPrefix(got, "accepted") {
			t.Fatal(got)
		}
	}
	if n := len(s.requests("")); n != 4 {
		t.Fatal(n)
	}
}

func TestAPNsOptionsAreChecked(t *testing.T) {
	other, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		o    providers.APNsOptions
		want string
	}{
		{"no topic", providers.APNsOptions{KeyID: "k", TeamID: "t"}, "topic"},
		{"no key", providers.APNsOptions{KeyID: "k", TeamID: "t", Topic: "x", Key: []byte(canary)}, ".p8"},
		{"an RSA key", providers.APNsOptions{
			KeyID: "k", TeamID: "t", Topic: "x", Key: []byte(pemOf(t, rsaKey())),
		}, ".p8"},
		{"another curve", providers.APNsOptions{
			KeyID: "k", TeamID: "t", Topic: "x", Key: []byte(pemOf(t, other)),
		}, ".p8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := providers.NewAPNs(c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), canary) {
				t.Fatal(err)
			}
		})
	}
}
