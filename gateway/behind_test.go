package gateway

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/trigger"
)

// While a tenant's triggers fall due faster than they fire, the API takes none of its registers, singly or in
// batches. It takes its other commands, and what other tenants write.
func TestTenantIsBehind(t *testing.T) {
	now := time.Now()
	w := newWorld(t, func(o *Options) {
		o.Auth = testKeys(t)
		o.Now = func() time.Time { return now }
	})
	const register = `{"delay":"1h"}`
	a, b := []string{"Authorization", "Bearer " + keyA}, []string{"Authorization", "Bearer " + keyB}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/a", register, a...)
	w.engine.set(func() { w.engine.behind = map[string]time.Duration{"acme": 90 * time.Second} })
	w.must(http.StatusCreated, "PUT", "/v1/triggers/b", register, a...) // the owner's answer says so
	for _, c := range []struct{ method, path string }{{"PUT", "/v1/triggers/c"}, {"POST", "/v1/triggers"}} {
		got := w.must(http.StatusTooManyRequests, c.method, c.path, register, a...)
		if got.header.Get("Retry-After") != "5" || got.get(t, "code") != "overloaded" ||
			!strings.Contains(got.get(t, "detail"), "1m30s late, limits.behind") {
			t.Errorf("%s %s: %v %s", c.method, c.path, got.header, got.body)
		}
	}
	lines := strings.Split(strings.TrimSpace(w.must(http.StatusOK, "POST", "/v1/triggers:batch",
		`{"id":"d","delay":"1h"}`+"\n"+`{"op":"cancel","id":"a"}`, a...).body), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"status":429`) || !strings.Contains(lines[1], `"status":200`) {
		t.Errorf("a batch: %q", lines)
	}
	w.must(http.StatusOK, "PATCH", "/v1/triggers/b", `{"payload":"new"}`, a...)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/c", register, b...)

	w.engine.set(func() { w.engine.behind = nil })
	now = now.Add(behindFor + time.Second)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/c", register, a...)
}

// A tenant that is behind is forgotten when it no longer is and another one comes.
func TestBehindForgets(t *testing.T) {
	now := time.Now()
	b := newBehind(func() time.Time { return now })
	say := func(tenant string) {
		b.note([]peer.Question{{}, {Key: trigger.Key(tenant + "/k"), Decision: peer.Decision{Behind: time.Minute}}})
	}
	say("a")
	now = now.Add(2 * behindFor)
	say("b")
	if len(b.by) != 1 || b.refusal("a") != nil || b.refusal("b") == nil {
		t.Errorf("%v", b.by)
	}
}
