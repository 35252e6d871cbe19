package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/services"
)

// A user moves, and the gateway that moves the triggers is killed in the middle:
// the next one finishes. Each trigger has moved once, which its revision says.
func TestFollowUserAfterAKill(t *testing.T) {
	const n = 2000
	settings := []string{"--set", "postgres.url=" + services.PostgresDatabase(t)}
	w := newServeWorld(t, "engine")
	engine := w.node
	gateway := func(name string) *process {
		p := start(t, name, append(append([]string{"serve", "--roles", "api", "--data-dir", t.TempDir()},
			w.cluster.args...), settings...)...)
		p.ready(60 * time.Second)
		return p
	}
	w.node = gateway("first")
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, `{"id":"t%04d","fire_at":"2060-07-01T09:00","timezone":"Europe/Berlin","user_id":"ada",`+
			`"follow_user":true}`+"\n", i)
	}
	wants(t, "register", w.call(t, http.MethodPost, "/v1/triggers:batch", lines.String()), 200)
	wants(t, "move", w.call(t, http.MethodPut, "/v1/preferences/ada", `{"timezone":"Asia/Tokyo"}`), 200,
		"timezone=Asia/Tokyo")
	for w.call(t, http.MethodGet, "/v1/triggers/t0000", "").str("timezone") != "Asia/Tokyo" {
		if w.node.ended() || engine.ended() {
			t.Fatal("a process ended")
		}
	}
	w.node.kill()
	w.node = gateway("second")
	wants(t, "kept", w.call(t, http.MethodGet, "/v1/preferences/ada", ""), 200, "timezone=Asia/Tokyo")
	t.Logf("%d of %d had moved when the first was killed", moved(t, w), n)
	for deadline := time.Now().Add(100 * time.Second); moved(t, w) < n; time.Sleep(500 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d have moved", moved(t, w), n)
		}
	}
	for _, one := range ofAda(t, w) {
		if one["revision"] != float64(2) || one["fire_at"] != "2060-07-01T00:00:00.000Z" {
			t.Errorf("%v: revision %v, fires at %v", one["trigger_id"], one["revision"], one["fire_at"])
		}
	}
	w.judge(t)
}

// moved counts the user's triggers that are in the new zone.
func moved(t *testing.T, w *world) (n int) {
	for _, one := range ofAda(t, w) {
		if one["timezone"] == "Asia/Tokyo" {
			n++
		}
	}
	return n
}

func ofAda(t *testing.T, w *world) (all []map[string]any) {
	t.Helper()
	for cursor := ""; ; {
		a := w.call(t, http.MethodGet, "/v1/triggers?user_id=ada&limit=1000"+cursor, "")
		wants(t, "list", a, 200)
		all = append(all, list(a, "items")...)
		if a.str("next_cursor") == "" {
			return all
		}
		cursor = "&cursor=" + a.str("next_cursor")
	}
}
