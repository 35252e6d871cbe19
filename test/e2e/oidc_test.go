package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// TestOIDCSettings: each setting auth.oidc.* reaches what checks tokens; none
// has its default here.
func TestOIDCSettings(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	issuer := newIssuer(t, key)
	w := newDevWorld(t, "--set", "auth.oidc.issuer="+issuer, "--set", "auth.oidc.audience=clock", "--set",
		"auth.oidc.algorithms=ES256",
		"--set", "auth.oidc.tenant_claim=org", "--set", "auth.oidc.role_claim=may")
	bearer := func(change map[string]any) string {
		claims := map[string]any{
			"iss": issuer, "aud": "clock", "sub": "svc", "org": "acme", "may": []string{"writer"},
			"exp": time.Now().Add(time.Hour).Unix(),
		}
		for name, value := range change {
			claims[name] = value
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
			(&jose.SignerOptions{}).WithHeader("kid", "k1"))
		if err != nil {
			t.Fatal(err)
		}
		token, err := jwt.Signed(signer).Claims(claims).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + token
	}
	register := func(change map[string]any) answer {
		return w.call(t, http.MethodPut, "/v1/triggers/o", `{"delay":"1h"}`, "Authorization", bearer(change))
	}
	wants(t, "right", register(nil), 201, "trigger_id=o")
	wants(t, "another audience", register(map[string]any{"aud": "waterclock"}), 401, "code=unauthenticated")
	wants(t, "another issuer", register(map[string]any{"iss": issuer + "/"}), 401, "code=unauthenticated")
	wants(t, "expired", register(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), 401, "code=unauthenticated")
	wants(t, "the tenant under the default claim", register(map[string]any{"org": nil, "tenant": "acme"}), 401,
		"code=unauthenticated")
	wants(t, "a reader", register(map[string]any{"may": "reader"}), 403, "code=forbidden")
	wants(t, "no token", w.call(t, http.MethodGet, "/v1/triggers/o", ""), 401, "code=unauthenticated")
	wants(t, "another tenant", w.call(t, http.MethodGet, "/v1/triggers/o", "", "Authorization",
		bearer(map[string]any{"org": "blue"})), 404, "code=not_found")
}

// newIssuer serves discovery and the public key, and returns its URL.
func newIssuer(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	send := func(path string, v any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v)
		})
	}
	send("/.well-known/openid-configuration", map[string]any{
		"issuer": s.URL, "jwks_uri": s.URL + "/keys", "authorization_endpoint": s.URL,
		"token_endpoint": s.URL, "id_token_signing_alg_values_supported": []string{"RS256", "ES256"},
	})
	send("/keys", jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{
		Key: key.Public(), KeyID: "k1", Algorithm: "ES256",
		Use: "sig",
	}}})
	return s.URL
}
