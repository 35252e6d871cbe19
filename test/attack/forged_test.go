package attack

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/issuer"
)

const audience = "waterclock"

// issuerSettings make a node trust an issuer.
func issuerSettings(i *issuer.Issuer) []string {
	return []string{"--auth-oidc-issuer", i.URL, "--auth-oidc-audience", audience}
}

// attackersToken is one of the attacker's tenant, signed by a key under a kid.
func attackersToken(t *testing.T, i *issuer.Issuer, key *ecdsa.PrivateKey, kid string) string {
	return issuer.Sign(t, key, kid, map[string]any{
		"iss": i.URL, "aud": audience, "sub": "mallory", "exp": time.Now().Add(time.Hour).Unix(),
		"iat": time.Now().Unix(), "tenant": "attacker", "roles": []string{"reader"},
	})
}

// trusted shows that the issuer is one of the node's: else its flood is none.
func trusted(t *testing.T, a *tenant) {
	i := a.n.issuer
	right, wrong := attackersToken(t, i, i.Key, issuer.KeyID), attackersToken(t, i, issuer.NewKey(t), issuer.KeyID)
	a.with(right).must(t, http.StatusOK, "GET", "/v1/triggers", "")
	a.with(wrong).must(t, http.StatusUnauthorized, "GET", "/v1/triggers", "")
}

// mostAsked is how often the node may ask the issuer in a round: every 30 s, of which a round that
// a busy machine draws out has a second.
const mostAsked = 2

// forgedTokens sends tokens of keys that the issuer has never had (security 4).
func forgedTokens(ctx context.Context, t *testing.T, a *tenant) {
	i, evil, before := a.n.issuer, issuer.NewKey(t), a.n.issuer.Asked.Load()
	var made atomic.Int64
	got := a.many(ctx, 40, func(int) answer {
		kid := fmt.Sprint("random", made.Add(1))
		if made.Load()%4 == 0 {
			kid = issuer.KeyID
		}
		return a.with(attackersToken(t, i, evil, kid)).try(ctx, "GET", "/v1/triggers", "")
	})
	t.Logf("answers: %v", got)
	onlyAnswered(t, got, http.StatusUnauthorized)
	if n := i.Asked.Load() - before; n > mostAsked {
		t.Errorf("the issuer was asked %d times for %d forged tokens", n, made.Load())
	}
}
