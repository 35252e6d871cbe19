package auth

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
		Keys: []crypto.PublicKey{key.Public()},
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
	return signedWith(t, alg, key, claims, map[jose.HeaderKey]any{"kid": "k1"})
}

func signedWith(t *testing.T, alg jose.SignatureAlgorithm, key any, claims map[string]any,
	header map[jose.HeaderKey]any,
) string {
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, &jose.SignerOptions{ExtraHeaders: header})
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
	typed := func(typ any) string {
		return signedWith(t, jose.RS256, i.key, i.claims(nil), map[jose.HeaderKey]any{"kid": "k1", "typ": typ})
	}
	none := "eyJhbGciOiJub25lIn0." + strings.Split(rs(nil), ".")[1] + "."
	good := rs(nil)
	for _, c := range []struct {
		name, token string
		role        Role // 0: refused
	}{
		{"right, and a reader without roles", good, Reader},
		{"role writer", set("roles", "writer"), Writer},
		{"role reader", set("roles", []string{"reader"}), Reader},
		{"role viewer", set("roles", "viewer"), Viewer},
		{"roles, all of them", set("roles", []string{"reader", "support", "else"}), Reader | Support},
		{"role as a string", set("roles", "reader"), Reader},
		{"audience among others", set("aud", []string{"x", audience}), Reader},
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
		{"a clock ahead by less", set("nbf", i.now.Add(59*time.Second).Unix()), Reader},
		{"nbf a text", set("nbf", "soon"), 0},
		{"type JWT", typed("JWT"), Reader},
		{"type access token", typed("at+jwt"), Reader},
		{"type access token, spelt out", typed("application/AT+JWT"), Reader},
		{"type logout token", typed("logout+jwt"), 0},
		{"type proof of possession", typed("dpop+jwt"), 0},
		{"type a number", typed(1), 0},
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
		{"in the clear", OIDCOptions{Issuer: "http://id.example", Audience: "a"}},
		{"in the clear, by a name that begins well", OIDCOptions{Issuer: "http://localhost.example", Audience: "a"}},
		{"no address", OIDCOptions{Issuer: "id.example", Audience: "a"}},
	} {
		if _, err := NewOIDC(c.o); err == nil {
			t.Errorf("%s: accepted", c.name)
		}
	}
}

// provider is an issuer that can be reached.
type provider struct {
	*issuer
	url                 string
	up, answers         atomic.Bool
	discoveries, fetchs atomic.Int64
	mu                  sync.Mutex
	keys                []jose.JSONWebKey
	jwks                string // where it says that its keys are; "": /keys
}

func newProvider(t *testing.T) *provider {
	p := &provider{issuer: newIssuer(t)}
	p.keys = []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "k1", Algorithm: "RS256", Use: "sig"}}
	p.up.Store(true)
	p.answers.Store(true)
	h := httptest.NewServer(p)
	t.Cleanup(h.Close)
	p.url = h.URL
	var err error
	o := OIDCOptions{Issuer: h.URL, Audience: audience, Now: func() time.Time { return p.now }}
	if p.auth, err = NewOIDC(o); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r.URL.Path == "/keys":
		p.fetchs.Add(1)
		if !p.answers.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: p.keys})
	case !p.up.Load():
		w.WriteHeader(http.StatusBadGateway)
	default:
		p.discoveries.Add(1)
		if p.jwks == "" {
			p.jwks = p.url + "/keys"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": p.url, "jwks_uri": p.jwks, "authorization_endpoint": p.url, "token_endpoint": p.url,
			"id_token_signing_alg_values_supported": []string{"RS256", "HS256"},
		})
	}
}

// asks sends a token signed by a key under a kid; "" has none.
func (p *provider) asks(t *testing.T, key any, kid string) error {
	header := map[jose.HeaderKey]any{}
	if kid != "" {
		header["kid"] = kid
	}
	r := httptest.NewRequest("GET", "/v1/triggers", nil)
	r.Header.Set("Authorization", "Bearer "+signedWith(t, jose.RS256, key,
		p.claims(func(c map[string]any) { c["iss"] = p.url }), header))
	_, err := AnyOf(keys(t), p.auth).Authenticate(r)
	return err
}

func status(err error) int {
	if err == nil {
		return http.StatusOK
	}
	if p, ok := errors.AsType[*problem.Problem](err); ok {
		return p.Status
	}
	return http.StatusUnauthorized
}

// Keys come by discovery, and an issuer that is away answers 503, not 401.
func TestDiscovery(t *testing.T) {
	p := newProvider(t)
	p.up.Store(false)
	if got := status(p.asks(t, p.key, "k1")); got != http.StatusServiceUnavailable {
		t.Errorf("issuer away: %d", got)
	}
	plain := httptest.NewRequest("GET", "/v1/triggers", nil)
	plain.Header.Set("Authorization", "Bearer wrong")
	if _, err := AnyOf(keys(t), p.auth).Authenticate(plain); status(err) != http.StatusUnauthorized {
		t.Errorf("a wrong API key waits for the issuer: %v", err)
	}
	p.up.Store(true)
	p.answers.Store(false)
	p.auth.tried = time.Time{}
	if got := status(p.asks(t, p.key, "k1")); got != http.StatusServiceUnavailable {
		t.Errorf("the issuer's keys away: %d", got)
	}
	p.answers.Store(true)
	if got := status(p.asks(t, p.key, "k1")); got != http.StatusServiceUnavailable || p.fetchs.Load() != 1 {
		t.Errorf("asked again at once: %d, %d fetches", got, p.fetchs.Load())
	}
	p.now = p.now.Add(discoverEvery)
	if got := status(p.asks(t, p.key, "k1")); got != http.StatusOK {
		t.Errorf("status %d", got)
	}
}

// Tokens with keys nobody knows do not make us ask the issuer more often, and do
// not keep out who has a good one.
func TestIssuerIsNotFlooded(t *testing.T) {
	p := newProvider(t)
	evil, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	if got := status(p.asks(t, p.key, "k1")); got != http.StatusOK {
		t.Fatalf("status %d", got)
	}
	p.now = p.now.Add(fetchEvery)
	before := p.fetchs.Load()
	var all sync.WaitGroup
	for i := range 300 {
		all.Go(func() {
			if got := status(p.asks(t, evil, fmt.Sprint("random", i))); got != http.StatusUnauthorized {
				t.Errorf("forged: %d", got)
			}
		})
	}
	all.Wait()
	for range 20 {
		if got := status(p.asks(t, evil, "k1")); got != http.StatusUnauthorized {
			t.Errorf("forged under a known key: %d", got)
		}
		if got := status(p.asks(t, p.key, "k1")); got != http.StatusOK {
			t.Errorf("a good token: %d", got)
		}
	}
	if n := p.fetchs.Load() - before; n != 1 {
		t.Errorf("%d fetches for 300 forged tokens", n)
	}
	if n := p.discoveries.Load(); n != 1 {
		t.Errorf("%d discoveries", n)
	}
	// With the issuer gone it is asked as seldom, and known keys go on.
	p.answers.Store(false)
	for range 3 {
		p.now, before = p.now.Add(fetchEvery), p.fetchs.Load()
		for range 5 {
			if got := status(p.asks(t, evil, "random")); got == http.StatusOK {
				t.Error("forged: let in")
			}
			if got := status(p.asks(t, p.key, "k1")); got != http.StatusOK {
				t.Errorf("a good token, the issuer away: %d", got)
			}
		}
		if n := p.fetchs.Load() - before; n != 1 {
			t.Errorf("%d fetches in 30 s", n)
		}
	}
}

// A new key of the issuer's is found, also by tokens that name none; a key that it
// has withdrawn counts for an hour at most.
func TestKeysChange(t *testing.T) {
	p := newProvider(t)
	second, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for _, kid := range []string{"k1", ""} {
		if got := status(p.asks(t, p.key, kid)); got != http.StatusOK {
			t.Fatalf("kid %q: %d", kid, got)
		}
	}
	p.mu.Lock()
	p.keys = []jose.JSONWebKey{
		{Key: second.Public(), KeyID: "k2", Algorithm: "RS256", Use: "sig"},
		{Key: p.key.Public(), KeyID: "k3", Algorithm: "RS256", Use: "enc"},
		{Key: p.key.Public(), KeyID: "k4", Algorithm: "RS512", Use: "sig"},
	}
	p.mu.Unlock()
	if got := status(p.asks(t, second, "k2")); got != http.StatusUnauthorized {
		t.Errorf("found before the issuer may be asked: %d", got)
	}
	p.now = p.now.Add(fetchEvery)
	if got := status(p.asks(t, second, "k2")); got != http.StatusOK {
		t.Errorf("the new key: %d", got)
	}
	for _, kid := range []string{"k1", "k3", "k4", ""} {
		if got := status(p.asks(t, p.key, kid)); got != http.StatusUnauthorized {
			t.Errorf("a key withdrawn, for encryption or for another algorithm, %q: %d", kid, got)
		}
	}
	p.mu.Lock()
	p.keys = p.keys[1:]
	p.mu.Unlock()
	if got := status(p.asks(t, second, "k2")); got != http.StatusOK {
		t.Errorf("a key within its hour: %d", got)
	}
	if p.now = p.now.Add(keepFor); status(p.asks(t, second, "k2")) != http.StatusUnauthorized {
		t.Error("a withdrawn key counts for ever")
	}
}

// A key that was withdrawn counts for as long as the issuer does not answer, as docs/operations/security.md
// says. Once the issuer answers, it does not.
func TestWithdrawnWhileTheIssuerIsAway(t *testing.T) {
	p := newProvider(t)
	if got := status(p.asks(t, p.key, "k1")); got != http.StatusOK {
		t.Fatalf("status %d", got)
	}
	p.mu.Lock()
	p.keys = []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "another", Algorithm: "RS256", Use: "sig"}}
	p.mu.Unlock()
	p.answers.Store(false)
	p.now = p.now.Add(24 * time.Hour)
	if got := status(p.asks(t, p.key, "k1")); got != http.StatusOK {
		t.Errorf("the issuer away: %d", got)
	}
	p.answers.Store(true)
	p.now = p.now.Add(fetchEvery)
	if got := status(p.asks(t, p.key, "k1")); got != http.StatusUnauthorized {
		t.Errorf("the issuer is back: %d", got)
	}
}

type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// An issuer that is asked over TLS must not lead us to where others listen, and
// cannot fill our memory.
func TestIssuerLeadsToNothingInTheClear(t *testing.T) {
	i := newIssuer(t)
	good, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: "k1"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, jwks, leads string
		keys              []byte
		want              int
	}{
		{"as it should be", "https://id.example/keys", "", good, 200},
		{"led on over TLS", "https://id.example/keys", "https://keys.example/", good, 200},
		{"keys in the clear", "http://id.example/keys", "", good, 503},
		{"no address", "/keys", "", good, 503},
		{"led on to the clear", "https://id.example/keys", "http://keys.example/", good, 503},
		{
			"without an end", "https://id.example/keys", "",
			append(bytes.Repeat([]byte(" "), maxIssuerAnswer), good...), 503,
		},
	} {
		var clear []string
		answer := func(r *http.Request) *http.Response {
			rec := httptest.NewRecorder()
			switch {
			case r.URL.Scheme != "https":
				clear = append(clear, r.URL.String())
				_, _ = rec.Write(c.keys)
			case r.URL.Path == "/.well-known/openid-configuration":
				_ = json.NewEncoder(rec).Encode(map[string]any{"issuer": "https://id.example", "jwks_uri": c.jwks})
			case r.URL.Path == "/keys" && c.leads != "":
				http.Redirect(rec, r, c.leads, http.StatusFound)
			default:
				_, _ = rec.Write(c.keys)
			}
			return rec.Result()
		}
		a, err := NewOIDC(OIDCOptions{
			Issuer: "https://id.example", Audience: audience, Client: &http.Client{Transport: roundTrip(answer)},
			Now: func() time.Time { return i.now },
		})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "/v1/triggers", nil)
		r.Header.Set("Authorization", "Bearer "+signed(t, jose.RS256, i.key, i.claims(nil)))
		if _, err := a.Authenticate(r); status(err) != c.want || len(clear) > 0 {
			t.Errorf("%s: error %v, asked in the clear: %v", c.name, err, clear)
		}
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
	r.Header.Set("Authorization", "Bearer "+signed(t, jose.RS256, newIssuer(t).key, nil))
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

func TestLeast(t *testing.T) {
	for right, want := range map[Rights]string{
		Read: "viewer", ReadPayloads: "reader", Act: "support", Write: "writer", Operate: "operator",
	} {
		if got := right.Least(); got != want {
			t.Errorf("%v: %q, want %q", right.Names(), got, want)
		}
	}
}
