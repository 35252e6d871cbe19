// Package issuer is an OpenID Connect issuer for tests: it serves discovery and its keys, and signs tokens.
package issuer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// KeyID names the issuer's key.
const KeyID = "known"

// Issuer issues tokens, and counts how often it is asked for its keys.
type Issuer struct {
	URL   string
	Key   *ecdsa.PrivateKey
	Asked atomic.Int64
}

// New starts an issuer that lives as long as its test.
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{Key: NewKey(t)}
	h := httptest.NewServer(i)
	t.Cleanup(h.Close)
	i.URL = h.URL
	return i
}

// NewKey makes a key that signs tokens.
func NewKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/keys" {
		i.Asked.Add(1)
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{
			Key: i.Key.Public(), KeyID: KeyID, Algorithm: "ES256", Use: "sig",
		}}})
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL, "token_endpoint": i.URL,
		"id_token_signing_alg_values_supported": []string{"RS256", "ES256"},
	})
}

// Token is a token with these claims, signed by the issuer.
func (i *Issuer) Token(t testing.TB, claims map[string]any) string {
	return Sign(t, i.Key, KeyID, claims)
}

// Sign makes a token that says it is signed by the key that kid names.
func Sign(t testing.TB, key *ecdsa.PrivateKey, kid string, claims map[string]any) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
		(&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", kid))
	if err != nil {
		t.Error(err)
		return ""
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Error(err)
	}
	return token
}
