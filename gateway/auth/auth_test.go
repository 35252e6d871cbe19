package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/waterclock/waterclock/gateway/problem"
)

// keyA is a key in the clear, of tenant acme.
const keyA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func keys(t *testing.T) *Keys {
	k, err := ReadKeys(strings.NewReader("acme " + keyA))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestReadKeysRefuses(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"one word", "acme"},
		{"short key", "acme short"},
		{"role", "acme " + keyA + " king"},
		{"tenant", "a/b " + keyA},
		{"twice", "acme " + keyA + "\nblue " + keyA},
		{"hash cut", "acme sha256:abcd"},
		{"hash garbled", "acme sha256:" + strings.Repeat("z", 64)},
		{"too many words", "acme " + keyA + " reader a b"},
	} {
		if _, err := ReadKeys(strings.NewReader(c.text)); err == nil {
			t.Errorf("%s: accepted", c.name)
		}
	}
}

// issuer signs tokens for tests.
type issuer struct {
	key  *rsa.PrivateKey
	auth *OIDC
	now  time.Time
}

const audience = "waterclock"

func newIssuer(t *testing.T) *issuer {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key, now: time.Unix(1_800_000_000, 0)}
	i.auth, err = NewOIDC(OIDCOptions{
		Issuer: "https://id.example", Audience: audience,
		Keys: &oidc.StaticKeySet{PublicKeys: []crypto.PublicKey{key.Public()}},
		Now:  func() time.Time { return i.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func (i *issuer) claims(change func(map[string]any)) map[string]any {
	c := map[string]any{
		"iss": "https://id.example", "aud": audience, "sub": "svc", "tenant": "acme",
		"exp": i.now.Add(time.Minute).Unix(), "iat": i.now.Unix(),
	}
	if change != nil {
		change(c)
	}
	return c
}

func signed(t *testing.T, alg jose.SignatureAlgorithm, key any, claims map[string]any) string {
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "k1"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(s).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTokens(t *testing.T) {
	i := newIssuer(t)
	other, _ := rsa.GenerateKey(rand.Reader, 2048)
	curve, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	public := []byte(fmt.Sprint(i.key.PublicKey.N)) // what HS/RS confusion would take for the HMAC key
	rs := func(change func(map[string]any)) string { return signed(t, jose.RS256, i.key, i.claims(change)) }
	set := func(name string, v any) string { return rs(func(c map[string]any) { c[name] = v }) }
	without := func(name string) string { return rs(func(c map[string]any) { delete(c, name) }) }
	none := "eyJhbGciOiJub25lIn0." + strings.Split(rs(nil), ".")[1] + "."
	good := rs(nil)
	for _, c := range []struct {
		name, token string
		role        Role // 0: refused
	}{
		{"right", good, Writer},
		{"role reader", set("roles", []string{"reader"}), Reader},
		{"roles, the highest", set("roles", []string{"reader", "operator", "else"}), Operator},
		{"role as a string", set("roles", "reader"), Reader},
		{"audience among others", set("aud", []string{"x", audience}), Writer},
		{"roles of others", set("roles", []string{"admin"}), 0},
		{"alg none", none, 0},
		{"HS256 by the public key", signed(t, jose.HS256, public, i.claims(nil)), 0},
		{"ES256 of nobody", signed(t, jose.ES256, curve, i.claims(nil)), 0},
		{"RS512, not pinned", signed(t, jose.RS512, i.key, i.claims(nil)), 0},
		{"another key", signed(t, jose.RS256, other, i.claims(nil)), 0},
		{"another issuer", set("iss", "https://evil.example"), 0},
		{"issuer with a slash", set("iss", "https://id.example/"), 0},
		{"another audience", set("aud", "else"), 0},
		{"no audience", without("aud"), 0},
		{"no exp", without("exp"), 0},
		{"expired", set("exp", i.now.Add(-time.Second).Unix()), 0},
		{"not yet", set("nbf", i.now.Add(time.Hour).Unix()), 0},
		{"not yet, by over a minute", set("nbf", i.now.Add(61*time.Second).Unix()), 0},
		{"a clock ahead by less", set("nbf", i.now.Add(59*time.Second).Unix()), Writer},
		{"no tenant", without("tenant"), 0},
		{"tenant with a slash", set("tenant", "acme/x"), 0},
		{"tenant empty", set("tenant", ""), 0},
		{"tenant a list", set("tenant", []string{"acme"}), 0},
		{"cut", good[:len(good)-4], 0},
		{"claims changed", strings.Split(good, ".")[0] + "." + strings.Split(set("tenant", "blue"), ".")[1] + "." +
			strings.Split(good, ".")[2], 0},
		{"empty", "", 0},
		{"dots", "..", 0},
	} {
		r := httptest.NewRequest("GET", "/v1/triggers", nil)
		r.Header.Set("Authorization", "Bearer "+c.token)
		who, err := i.auth.Authenticate(r)
		switch {
		case (err == nil) != (c.role != 0):
			t.Errorf("%s: caller %+v, error %v", c.name, who, err)
		case err == nil && (who.Role != c.role || who.Tenant != "acme" || who.Name != "svc"):
			t.Errorf("%s: caller %+v", c.name, who)
		}
	}
}

func TestOIDCOptions(t *testing.T) {
	for _, c := range []struct {
		name string
		o    OIDCOptions
	}{
		{"no issuer", OIDCOptions{Audience: "a"}},
		{"no audience", OIDCOptions{Issuer: "https://x"}},
		{"HMAC", OIDCOptions{Issuer: "https://x", Audience: "a", Algorithms: []string{"HS256"}}},
		{"none", OIDCOptions{Issuer: "https://x", Audience: "a", Algorithms: []string{"none"}}},
	} {
		if _, err := NewOIDC(c.o); err == nil {
			t.Errorf("%s: accepted", c.name)
		}
	}
}

// Keys come by discovery, and an issuer that is away answers 503, not 401.
func TestDiscovery(t *testing.T) {
	i := newIssuer(t)
	var base string
	up, answers := false, true
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !up || !answers && r.URL.Path == "/keys":
			w.WriteHeader(http.StatusBadGateway)
		case r.URL.Path == "/keys":
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{
				Key: i.key.Public(), KeyID: "k1",
				Algorithm: "RS256", Use: "sig",
			}}})
		default:
			_ = json.NewEncoder(w).Encode(map[string]any{
				"issuer": base, "jwks_uri": base + "/keys",
				"authorization_endpoint": base, "token_endpoint": base,
				"id_token_signing_alg_values_supported": []string{"RS256", "HS256"},
			})
		}
	}))
	defer h.Close()
	base = h.URL
	auth, err := NewOIDC(OIDCOptions{Issuer: base, Audience: audience, Now: func() time.Time { return i.now }})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/v1/triggers", nil)
	r.Header.Set("Authorization", "Bearer "+signed(t, jose.RS256, i.key,
		i.claims(func(c map[string]any) { c["iss"] = base })))
	if _, err := auth.Authenticate(r); problem.Of(err).Status != http.StatusServiceUnavailable {
		t.Errorf("issuer away: %v", err)
	}
	plain := httptest.NewRequest("GET", "/v1/triggers", nil)
	plain.Header.Set("Authorization", "Bearer wrong")
	if _, err := AnyOf(keys(t), auth).Authenticate(plain); problem.Of(err).Status == http.StatusServiceUnavailable {
		t.Errorf("a wrong API key waits for the issuer: %v", err)
	}
	up, answers, auth.tried = true, false, time.Time{}
	if _, err := AnyOf(keys(t), auth).Authenticate(r); problem.Of(err).Status != http.StatusServiceUnavailable {
		t.Errorf("the issuer's keys away: %v", err)
	}
	answers = true
	if who, err := AnyOf(keys(t), auth).Authenticate(r); err != nil || who.Tenant != "acme" {
		t.Errorf("caller %+v, error %v", who, err)
	}
}

// However many wait for an issuer that does not answer, it is asked once.
func TestIssuerThatHangsIsAskedOnce(t *testing.T) {
	var asked atomic.Int64
	release := make(chan struct{})
	h := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		<-release
	}))
	defer h.Close()
	defer close(release)
	const patience = discoverEvery + 100*time.Millisecond
	auth, err := NewOIDC(OIDCOptions{Issuer: h.URL, Audience: audience, Client: &http.Client{Timeout: patience}})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/v1/triggers", nil)
	r.Header.Set("Authorization", "Bearer a.b.c")
	var all sync.WaitGroup
	began := time.Now()
	for range 4 {
		all.Go(func() {
			if _, err := auth.Authenticate(r); problem.Of(err).Status != http.StatusServiceUnavailable {
				t.Errorf("error %v", err)
			}
		})
	}
	all.Wait()
	if took := time.Since(began); asked.Load() != 1 || took > 2*patience {
		t.Errorf("asked %d times in %v", asked.Load(), took)
	}
}
