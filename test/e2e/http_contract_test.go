package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// call is one request of the contract and what must come back.
type contractCall struct {
	name, path, body string
	headers          []string
	status           int
	wants            []string // name=value of the body; name= for a field that is not there
	alone            bool     // only where there is one instance: each counts its own rate
}

// contractRow is a route of docs/api.md with its calls, in order.
type contractRow struct {
	route string
	calls []contractCall
}

// TestHTTPContract makes every call of the table, on dev and on three instances
// that share the partitions: there each call goes to any instance, so that
// most writes and reads come to one that does not own the trigger. A route that
// is served and has no row fails, and so does an error code that no call meets.
func TestHTTPContract(t *testing.T) {
	t.Run("dev", func(t *testing.T) {
		t.Parallel()
		keys := contractKeys(t)
		contract(t, newDevWorld(t, contractSettings(keys)...))
	})
	t.Run("three instances", func(t *testing.T) {
		t.Parallel()
		settings := contractSettings(contractKeys(t))
		w := newServeWorld(t, "engine,api", settings...)
		for _, name := range []string{"second", "third"} {
			p := start(t, name, append(append([]string{"serve", "--roles", "engine,api", "--data-dir", t.TempDir()},
				w.cluster.args...), settings...)...)
			p.ready(60 * time.Second)
			w.others = append(w.others, p)
		}
		awaitShared(t, w, 3)
		contract(t, w)
	})
}

// contractTenants are who calls: their API keys, by name.
var contractTenants = map[string]string{
	"acme": strings.Repeat("a", 40), "reader": strings.Repeat("r", 40), "blue": strings.Repeat("b", 40),
	"slow": strings.Repeat("s", 40),
}

func contractKeys(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	var text string
	for name, line := range map[string]string{
		"acme": "acme %s operator", "reader": "acme %s reader", "blue": "blue %s",
		"slow": "slow %s",
	} {
		text += fmt.Sprintf(line, contractTenants[name]) + "\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func contractSettings(keys string) []string {
	return []string{
		"--auth-keys-file", keys, "--set", "channels.auto_create=false", "--set",
		"channels.webhook.topic=waterclock.due.webhook",
		"--set", "webhook.allow=http://127.0.0.1:1",
		"--set", "tenants.blue.channels=default,elsewhere", "--set", "tenants.slow.rate=0.01",
	}
}

func awaitShared(t *testing.T, w *world, n int) {
	t.Helper()
	for deadline := time.Now().Add(100 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		owners, ready := map[string]bool{}, 0
		a := w.call(t, http.MethodGet, "/v1/partitions", "", "Authorization", "Bearer "+contractTenants["acme"])
		for _, p := range list(a, "items") {
			if p["ready"] == true {
				owners[fmt.Sprint(p["owner"])], ready = true, ready+1
			}
		}
		if len(owners) == n && ready == int(w.partitions) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("want %d owners: %v", n, a)
		}
	}
}

// awaitWatermark waits until all partitions have written their first one.
func awaitWatermark(t *testing.T, w *world) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		a := w.call(t, http.MethodGet, "/v1/watermark", "", "Authorization", "Bearer "+contractTenants["acme"])
		if a.str("fired_through") != "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no watermark: %v", a)
		}
	}
}

func contract(t *testing.T, w *world) {
	awaitWatermark(t, w)
	met := map[string]bool{}
	rows := append(contractTriggers(w), contractViews(w)...)
	for _, row := range rows {
		method, _, _ := strings.Cut(row.route, " ")
		for _, c := range row.calls {
			if c.alone && len(w.others) > 0 {
				continue
			}
			headers := append([]string{"Authorization", "Bearer " + contractTenants["acme"]}, c.headers...)
			a := w.call(t, method, c.path, c.body, headers...)
			wants(t, row.route+": "+c.name, a, c.status, c.wants...)
			if code := a.str("code"); code != "" {
				met[code] = true
			}
			for _, line := range ndjson(a) {
				met[fmt.Sprint(line["code"])] = true
			}
			if (a.status == 429 || a.status == 503) && a.header.Get("Retry-After") == "" {
				t.Errorf("%s: %s: no Retry-After", row.route, c.name)
			}
		}
	}
	served := servedRoutes(t, w)
	for _, route := range served {
		if !slices.ContainsFunc(rows, func(r contractRow) bool { return r.route == route && len(r.calls) > 0 }) {
			t.Errorf("%s is served, and the table has no call of it", route)
		}
	}
	for _, r := range rows {
		if !slices.Contains(served, r.route) {
			t.Errorf("%s is in the table, and /openapi.json does not have it", r.route)
		}
	}
	for code := range contractCodes {
		if !met[string(code)] {
			t.Errorf("no call meets %s", code)
		}
	}
}

func ndjson(a answer) (all []map[string]any) {
	if a.header.Get("Content-Type") != "application/x-ndjson" {
		return nil
	}
	for line := range strings.Lines(a.text) {
		var v map[string]any
		if json.Unmarshal([]byte(line), &v) == nil {
			all = append(all, v)
		}
	}
	return all
}

func servedRoutes(t *testing.T, w *world) (routes []string) {
	t.Helper()
	a := w.call(t, http.MethodGet, "/openapi.json", "")
	paths, _ := a.body["paths"].(map[string]any)
	for path, item := range paths {
		for method := range item.(map[string]any) {
			routes = append(routes, strings.ToUpper(method)+" "+path)
		}
	}
	if len(routes) < 30 {
		t.Fatalf("%d routes in /openapi.json", len(routes))
	}
	return routes
}

// contractCodes are the codes a call of the table must meet. unsupported is for mixed
// versions (pipeline.TestEscalationAmongVersions). The others of
// docs/formats/commands.md need what HTTP does not let happen (a record that is no
// command, on a wrong partition, or behind another), or an owner that is away
// (gateway.TestPartitionsMove).
var contractCodes = map[trigger.Code]bool{
	trigger.CodeInvalid: true, trigger.CodeInvalidKey: true, trigger.CodeUnknownField: true,
	trigger.CodeUnknownOp: true, trigger.CodeUnknownZone: true,
	trigger.CodeUnknownChannel: true, trigger.CodeForbiddenChannel: true, trigger.CodeForbiddenURL: true,
	trigger.CodeInvalidRule:    true,
	trigger.CodeDisputedRule:   true,
	trigger.CodePeriodTooShort: true, trigger.CodeNoOccurrences: true, trigger.CodeConflictingTime: true,
	trigger.CodeInThePast:     true,
	trigger.CodeBeyondHorizon: true, trigger.CodeTooLarge: true, trigger.CodeNotFound: true,
	trigger.CodeAlreadyFired: true, trigger.CodeConflict: true,
	trigger.CodeIdempotencyConflict: true, trigger.CodeQuotaExceeded: true,
	"malformed": true, "unauthenticated": true, "forbidden": true, "method_not_allowed": true,
}
