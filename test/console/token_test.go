package console_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
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

// Log-in says that the browser does not keep the session: over plain http it drops the cookie without a word. Whoever
// sees no partitions learns, too, that what is due has not gone out.
func TestSessionIsNotKept(t *testing.T) {
	file, key := filepath.Join(t.TempDir(), "keys"), strings.Repeat("s", 40)
	if err := os.WriteFile(file, []byte("acme "+key+" support sam\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := dev(t, "auth.keys_file="+file)
	b := s.open(t, 1200, 900)
	b.allowed = []string{"status of 401"}
	b.visit("")
	b.await("main", "API key or token")
	b.do(chromedp.Evaluate(`window.kept = window.fetch`, nil))
	b.stub("GET", "v1/whoami", 401, `{"code":"unauthenticated"}`)
	b.fill("input[type=password]", key)
	b.enter()
	b.await("main .fault", "This browser does not keep the session.")
	b.do(chromedp.Evaluate(`window.fetch = window.kept`, nil))
	b.enter()
	b.await("#health", "Healthy: every partition fires on time.")
	b.do(chromedp.Evaluate(`setInterval(() => new BroadcastChannel('waterclock live `+s.url+`/').postMessage({
		kind: 'state', data: {partitions: 4, ready: 4, silent_partitions: [], late: true, fires: 0}}), 50)`, nil))
	b.await("#health", "Late: what is due has not gone out.")
}
