package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/gateway/auth"
)

const (
	keyA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	keyB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	keyR = "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr"
	keyO = "oooooooooooooooooooooooooooooooooooooooo"
	keyD = "dddddddddddddddddddddddddddddddddddddddd"
)

func testKeys(t testing.TB) *auth.Keys {
	sum := sha256.Sum256([]byte(keyB))
	k, err := auth.ReadKeys(strings.NewReader(`# keys
acme ` + keyA + `
blue sha256:` + hex.EncodeToString(sum[:]) + ` writer blue-service
acme ` + keyR + ` reader

acme ` + keyO + ` operator
default ` + keyD + `
`))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestRoles(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth = testKeys(t) })
	for _, c := range []struct {
		name, key, method, path, body string
		want                          int
	}{
		{"nobody", "", "GET", "/v1/triggers", "", 401},
		{"wrong key", keyA + "x", "GET", "/v1/triggers", "", 401},
		{
			"its hash is no key", func() string { s := sha256.Sum256([]byte(keyA)); return hex.EncodeToString(s[:]) }(),
			"GET", "/v1/triggers", "", 401,
		},
		{"writer writes", keyA, "PUT", "/v1/triggers/r", at(""), 201},
		{"reader reads", keyR, "GET", "/v1/triggers/r", "", 200},
		{"reader previews", keyR, "POST", "/v1/preview", `{"delay":"1m"}`, 200},
		{"reader does not write", keyR, "PUT", "/v1/triggers/r", at(""), 403},
		{"reader does not cancel", keyR, "DELETE", "/v1/triggers/r", "", 403},
		{"reader sends no batch", keyR, "POST", "/v1/triggers:batch", "", 403},
		{"writer sees no partitions", keyA, "GET", "/v1/partitions", "", 403},
		{"writer does not reconcile", keyA, "POST", "/v1/reconcile", "", 403},
		{"writer puts no calendar of all tenants", keyA, "PUT", "/v1/calendars/c?scope=cluster", `{"dates":[]}`, 403},
		{"writer deletes no calendar of all tenants", keyA, "DELETE", "/v1/calendars/c?scope=cluster", "", 403},
		{"writer tests no endpoint", keyA, "POST", "/v1/endpoints:test", `{"url":"https://a.example"}`, 403},
		{"reader puts no calendar", keyR, "PUT", "/v1/calendars/c", `{"dates":[]}`, 403},
		{"operator sees partitions", keyO, "GET", "/v1/partitions", "", 200},
		{"description is public", "", "GET", "/openapi.json", "", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := w.on(t)
			a := w.call(c.method, c.path, c.body, "Authorization", "Bearer "+c.key)
			if a.status != c.want {
				t.Errorf("status %d, want %d: %s", a.status, c.want, a.body)
			}
			if (a.status == 401) != (a.header.Get("WWW-Authenticate") != "") {
				t.Errorf("WWW-Authenticate %q at %d", a.header.Get("WWW-Authenticate"), a.status)
			}
		})
	}
	w.must(http.StatusOK, "GET", "/v1/triggers/r", "", "X-API-Key", keyR)
}

// A cursor of one tenant says nothing to another.
func TestCursorsAreATenants(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth = testKeys(t) })
	for _, id := range []string{"a", "b"} {
		w.must(http.StatusCreated, "PUT", "/v1/triggers/"+id, at(""), "Authorization", "Bearer "+keyA)
	}
	cursor := w.must(http.StatusOK, "GET", "/v1/triggers?limit=1", "", "Authorization", "Bearer "+keyA).get(t,
		"next_cursor")
	w.must(http.StatusOK, "GET", "/v1/triggers?limit=1&cursor="+cursor, "", "Authorization", "Bearer "+keyA)
	w.must(http.StatusBadRequest, "GET", "/v1/triggers?limit=1&cursor="+cursor, "", "Authorization", "Bearer "+keyB)
}

type quotaListener struct {
	NoListener
	met *string
}

func (l quotaListener) QuotaRejected(limit string) { *l.met = limit }

func TestRateLimit(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	met := ""
	w := newWorld(t, func(o *Options) {
		o.Auth, o.Now, o.Listener = testKeys(t), func() time.Time { return now }, quotaListener{met: &met}
		o.Rate = func(tenant string) float64 { return map[string]float64{"acme": 2}[tenant] }
	})
	put := func(key string) answer {
		return w.call("PUT", "/v1/triggers/x", at(""), "Authorization", "Bearer "+key)
	}
	for i := range 2 {
		if a := put(keyA); a.status >= 300 {
			t.Fatalf("command %d: %d %s", i, a.status, a.body)
		}
	}
	a := put(keyA)
	if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != "1" ||
		a.get(t, "code") != "quota_exceeded" || met != "rate" {
		t.Errorf("third: %d %s, limit %q", a.status, a.body, met)
	}
	if a := put(keyB); a.status != http.StatusCreated {
		t.Errorf("another tenant: %d", a.status)
	}
	if b := w.must(http.StatusOK, "POST", "/v1/triggers:batch", `{"id":"y","delay":"1m"}`, "Authorization",
		"Bearer "+keyA); b.get(t, "status") != "429" {
		t.Errorf("batch: %s", b.body)
	}
	now = now.Add(time.Second)
	if a := put(keyA); a.status != http.StatusOK {
		t.Errorf("a second later: %d", a.status)
	}
}
