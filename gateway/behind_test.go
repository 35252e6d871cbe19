package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// While a tenant's triggers fall due faster than they fire on a partition, the API takes none of its registers there,
// singly or in batches. It takes its other commands, what it registers elsewhere, and what other tenants write.
func TestTenantIsBehind(t *testing.T) {
	now := time.Now()
	w := newWorld(t, func(o *Options) {
		o.Auth = testKeys(t)
		o.Now = func() time.Time { return now }
	})
	ids := map[int32][]string{} // of acme, by partition
	for i := range 100 {
		id := fmt.Sprint("x", i)
		p := topics.Partition([]byte("acme/"+id), testPartitions)
		ids[p] = append(ids[p], id)
	}
	here, elsewhere := ids[0], ids[1]
	const register = `{"delay":"1h"}`
	a, b := []string{"Authorization", "Bearer " + keyA}, []string{"Authorization", "Bearer " + keyB}
	w.engine.set(func() { w.engine.behind = map[string]time.Duration{"acme": 90 * time.Second} })
	w.must(http.StatusCreated, "PUT", "/v1/triggers/"+here[0], register, a...) // the owner's answer says so
	w.engine.set(func() { w.engine.behind = nil })

	got := w.must(http.StatusTooManyRequests, "PUT", "/v1/triggers/"+here[1], register, a...)
	if got.header.Get("Retry-After") != "5" || got.get(t, "code") != "overloaded" ||
		!strings.Contains(got.get(t, "detail"), "1m30s late, limits.behind") {
		t.Errorf("%v %s", got.header, got.body)
	}
	w.must(http.StatusOK, "PATCH", "/v1/triggers/"+here[0], `{"payload":"new"}`, a...)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/"+elsewhere[0], register, a...)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/"+here[1], register, b...)
	batch := fmt.Sprintf(`{"id":%q,"delay":"1h"}`+"\n"+`{"op":"cancel","id":%q}`+"\n"+`{"id":%q,"delay":"1h"}`,
		here[2], here[0], elsewhere[1])
	answer := w.must(http.StatusOK, "POST", "/v1/triggers:batch", batch, a...).body
	lines := strings.Split(strings.TrimSpace(answer), "\n")
	for i, want := range []string{`"status":429`, `"status":200`, `"status":201`} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d: %s; want %s", i, lines[i], want)
		}
	}

	now = now.Add(behindFor + time.Second)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/"+here[1], register, a...)
}

// A tenant that is behind is forgotten when it no longer is and another one comes.
func TestBehindForgets(t *testing.T) {
	now := time.Now()
	b := newBehind(func(trigger.Key) int32 { return 1 }, func() time.Time { return now })
	say := func(tenant string) {
		b.note(1, []peer.Question{{}, {Key: trigger.Key(tenant + "/k"), Decision: peer.Decision{Behind: time.Minute}}})
	}
	register := func(key trigger.Key) *command { return &command{op: trigger.OpRegister, key: key} }
	say("a")
	now = now.Add(2 * behindFor)
	say("b")
	if len(b.by) != 1 || b.refusal(register("a/k")) != nil || b.refusal(register("b/k")) == nil {
		t.Errorf("%v", b.by)
	}
}
