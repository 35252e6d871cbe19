package examples

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestPromtool lets Prometheus judge the alerts, and every query of the
// dashboard, which it knows only as rules.
func TestPromtool(t *testing.T) {
	if testing.Short() {
		t.Skip("needs promtool, which test/setup.sh installs")
	}
	queries := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(queries, dashboardRules(t), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{operations + "alerts.yml", queries} {
		if out, err := exec.CommandContext(t.Context(), "promtool", "check", "rules",
			file).CombinedOutput(); err != nil {
			t.Errorf("promtool check rules %s: %v\n%s", file, err, out)
		}
	}
}

// dashboardRules makes a recording rule of each query.
func dashboardRules(t *testing.T) []byte {
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(read(t, operations+"grafana-dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	type rule struct{ Record, Expr string }
	var rules []rule
	for _, p := range dashboard.Panels {
		for _, q := range p.Targets {
			rules = append(rules, rule{
				fmt.Sprintf("query%d", len(rules)),
				strings.ReplaceAll(q.Expr, "$__rate_interval", "1m"),
			})
		}
	}
	if len(rules) < 20 {
		t.Fatalf("only %d queries", len(rules))
	}
	b, err := yaml.Marshal(map[string]any{"groups": []map[string]any{{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAlertsOfUserWork runs alerts against series that must raise them, and against those that must not.
func TestAlertsOfUserWork(t *testing.T) {
	if testing.Short() {
		t.Skip("needs promtool, which test/setup.sh installs")
	}
	alerts, err := filepath.Abs(operations + "alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	type values struct{ Series, Values string }
	type firing struct {
		Labels map[string]string `yaml:"exp_labels"`
		Notes  map[string]string `yaml:"exp_annotations"`
	}
	const content = `waterclock_history_content_lag_records{topic="due.push",instance="a"}`
	const erasures = `waterclock_erasures_oldest_seconds{instance="a"}`
	const breaker = `waterclock_breaker_state{endpoint="https://a.example",instance="a"}`
	none := [2]string{}
	leadTo := map[string]string{
		"WaterclockBreakerOpen": "a-customer-got-nothing", "WaterclockZoneMovesFail": "clocks-change",
	}
	stuck := func(age string) string { return "a user has been waiting for an erasure for " + age }
	tests := []map[string]any{}
	for _, c := range []struct {
		alert, series, values string
		summary               string    // "": no alert
		label                 [2]string // of the alert, too
	}{
		{"WaterclockErasuresStuck", erasures, "3000+60x180", stuck("3h 50m 0s"), none},
		{"WaterclockErasuresStuck", erasures, "0+10x180", "", none},
		{
			"WaterclockZoneMovesFail", `waterclock_zone_move_failures_total{instance="a"}`, "0+2x180",
			"moving users' triggers to a new zone failed 30 times in 15 minutes: they fire by the old zone", none,
		},
		{"WaterclockZoneMovesFail", `waterclock_zone_move_failures_total{instance="a"}`, "0+0x100 1+0x80", "", none},
		{
			"WaterclockContentBehind", content, "0+100x180",
			"what 18000 notifications of due.push said is not in the history; the topic drops it after its retention",
			[2]string{"topic", "due.push"},
		},
		{
			"WaterclockContentBehind", content, "5+0x180",
			"what 5 notifications of due.push said is not in the history; the topic drops it after its retention",
			[2]string{"topic", "due.push"},
		},
		{"WaterclockContentBehind", content, "0+0x180", "", none},
		{"WaterclockContentBehind", content, "9000-50x180", "", none},
		{
			"WaterclockBreakerOpen", breaker, strings.Repeat("2 2 1 ", 61), // a few calls test it
			"webhooks to https://a.example have failed for 15 minutes; what comes due is postponed, for up to 7 days",
			[2]string{"endpoint", "https://a.example"},
		},
		{"WaterclockBreakerOpen", breaker, "2+0x100 1+0x80", "", none}, // nothing has come for it since
	} {
		want := []firing{}
		if c.summary != "" {
			labels := map[string]string{"severity": "ticket"}
			if c.label != none {
				labels[c.label[0]] = c.label[1]
			}
			notes := map[string]string{
				"summary": c.summary, "runbook": "docs/operations/runbook.md#" + strings.ToLower(c.alert),
			}
			if what := leadTo[c.alert]; what != "" {
				notes["see"] = "docs/operations/runbook.md#" + what
			}
			want = append(want, firing{labels, notes})
		}
		tests = append(tests, map[string]any{
			"interval": "1m", "input_series": []values{{c.series, c.values}},
			"alert_rule_test": []map[string]any{{"eval_time": "3h", "alertname": c.alert, "exp_alerts": want}},
		})
	}
	b, err := yaml.Marshal(map[string]any{"rule_files": []string{alerts}, "evaluation_interval": "1m", "tests": tests})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "alerts_test.yml")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "promtool", "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool test rules: %v\n%s", err, out)
	}
}
