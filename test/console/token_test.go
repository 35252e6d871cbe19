package console_test

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/waterclock/waterclock/test/issuer"
)

// A bearer of the company's issuer logs in as an API key does, with the tenant and the roles that it claims. The
// session ends with it.
func TestLoginByToken(t *testing.T) {
	i := issuer.New(t)
	s := dev(t, "auth.oidc.issuer="+i.URL, "auth.oidc.audience=waterclock", "auth.oidc.algorithms=ES256")
	token := func(role string, lasts time.Duration) string {
		return i.Token(t, map[string]any{
			"iss": i.URL, "aud": "waterclock", "sub": "sam", "tenant": "acme", "roles": []string{role},
			"iat": time.Now().Unix(), "exp": time.Now().Add(lasts).Unix(),
		})
	}
	s.call("PUT", "/v1/triggers/pills", daily, "Authorization", "Bearer "+token("writer", time.Hour))
	b := s.open(t, 1200, 900)
	b.allowed = []string{"status of 401"}
	in := func(with string) {
		t.Helper()
		b.visit("")
		b.await("main", "API key or token")
		b.fill("input[type=password]", with+kb.Enter)
	}
	in(issuer.Sign(t, issuer.NewKey(t), issuer.KeyID, map[string]any{"iss": i.URL, "aud": "waterclock", "sub": "eve"}))
	b.await("main .fault", "not known here")
	in(token("viewer", time.Hour))
	b.await(".who", "acme (viewer)")
	b.fill("header input", "pills"+kb.Enter)
	b.await("main", "pills")
	b.logout()
	in(token("support", 8*time.Second))
	b.await(".who", "acme (support)")
	b.await("main", "API key or token") // the token has ended
}
