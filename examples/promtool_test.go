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
