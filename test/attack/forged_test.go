package attack

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// issuer issues tokens, and counts how often it is asked for its keys.
type issuer struct {
	url   string
	key   *ecdsa.PrivateKey
	asked atomic.Int64
}

const audience = "waterclock"

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{key: newKey(t)}
	h := httptest.NewServer(i)
	t.Cleanup(h.Close)
	i.url = h.URL
	return i
}

// settings make a node trust it.
func (i *issuer) settings() []string {
	return []string{"--auth-oidc-issuer", i.url, "--auth-oidc-audience", audience}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/keys" {
		i.asked.Add(1)
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{
			Key: i.key.Public(), KeyID: "known", Algorithm: "ES256", Use: "sig",
		}}})
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"issuer": i.url, "jwks_uri": i.url + "/keys", "authorization_endpoint": i.url, "token_endpoint": i.url,
		"id_token_signing_alg_values_supported": []string{"ES256"},
	})
}

// token is one of the attacker's tenant, signed by a key under a kid.
func (i *issuer) token(t *testing.T, key *ecdsa.PrivateKey, kid string) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
		(&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", kid))
	if err != nil {
		t.Error(err)
		return ""
	}
	token, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": i.url, "aud": audience, "sub": "mallory", "exp": time.Now().Add(time.Hour).Unix(),
		"iat": time.Now().Unix(), "tenant": "attacker", "roles": []string{"reader"},
	}).Serialize()
	if err != nil {
		t.Error(err)
	}
	return token
}

// trusted shows that the issuer is one of the node's: else its flood is none.
func trusted(t *testing.T, a *tenant) {
	i := a.n.issuer
	a.with(i.token(t, i.key, "known")).must(t, http.StatusOK, "GET", "/v1/triggers", "")
	a.with(i.token(t, newKey(t), "known")).must(t, http.StatusUnauthorized, "GET", "/v1/triggers", "")
}

// mostAsked is how often the node may ask the issuer in a round: every 30 s, of which a round that
// a busy machine draws out has a second.
const mostAsked = 2

// forgedTokens sends tokens of keys that the issuer has never had (security 4).
func forgedTokens(ctx context.Context, t *testing.T, a *tenant) {
	i, evil, before := a.n.issuer, newKey(t), a.n.issuer.asked.Load()
	var made atomic.Int64
	got := a.many(ctx, 40, func(int) answer {
		kid := fmt.Sprint("random", made.Add(1))
		if made.Load()%4 == 0 {
			kid = "known"
		}
		return a.with(i.token(t, evil, kid)).try(ctx, "GET", "/v1/triggers", "")
	})
	t.Logf("answers: %v", got)
	onlyAnswered(t, got, http.StatusUnauthorized)
	if n := i.asked.Load() - before; n > mostAsked {
		t.Errorf("the issuer was asked %d times for %d forged tokens", n, made.Load())
	}
}
