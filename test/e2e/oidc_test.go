package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/issuer"
)

// TestOIDCSettings: each setting auth.oidc.* reaches what checks tokens; none
// has its default here.
func TestOIDCSettings(t *testing.T) {
	t.Parallel()
	by := issuer.New(t)
	w := newDevWorld(t, "--set", "auth.oidc.issuer="+by.URL, "--set", "auth.oidc.audience=clock", "--set",
		"auth.oidc.algorithms=ES256",
		"--set", "auth.oidc.tenant_claim=org", "--set", "auth.oidc.role_claim=may")
	bearer := func(change map[string]any) string {
		claims := map[string]any{
			"iss": by.URL, "aud": "clock", "sub": "svc", "org": "acme", "may": []string{"writer"},
			"exp": time.Now().Add(time.Hour).Unix(),
		}
		for name, value := range change {
			claims[name] = value
		}
		return "Bearer " + by.Token(t, claims)
	}
	register := func(change map[string]any) answer {
		return w.call(t, http.MethodPut, "/v1/triggers/o", `{"delay":"1h"}`, "Authorization", bearer(change))
	}
	wants(t, "right", register(nil), 201, "trigger_id=o")
	wants(t, "another audience", register(map[string]any{"aud": "waterclock"}), 401, "code=unauthenticated")
	wants(t, "another issuer", register(map[string]any{"iss": by.URL + "/"}), 401, "code=unauthenticated")
	wants(t, "expired", register(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), 401, "code=unauthenticated")
	wants(t, "the tenant under the default claim", register(map[string]any{"org": nil, "tenant": "acme"}), 401,
		"code=unauthenticated")
	wants(t, "a reader", register(map[string]any{"may": "reader"}), 403, "code=forbidden")
	wants(t, "no token", w.call(t, http.MethodGet, "/v1/triggers/o", ""), 401, "code=unauthenticated")
	wants(t, "another tenant", w.call(t, http.MethodGet, "/v1/triggers/o", "", "Authorization",
		bearer(map[string]any{"org": "blue"})), 404, "code=not_found")
}
