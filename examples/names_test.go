package examples

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/waterclock/waterclock/clients/go/worker/workerprom"
	"github.com/waterclock/waterclock/engine"
	"github.com/waterclock/waterclock/internal/memory"
	"github.com/waterclock/waterclock/internal/metrics"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/sinks/webhook"
)

const operations = "../docs/operations/"

// TestLinks follows every relative link of every document.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for path, text := range markdown(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, ":") {
				continue
			}
			file := path
			if target != "" {
				file = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s, which is not there", path, m[1])
			} else if anchor != "" && !slices.Contains(anchors(t, file), anchor) {
				t.Errorf("%s links to %s, and no heading there is called so", path, m[1])
			}
		}
	}
}

func read(t *testing.T, path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// anchors are what GitHub makes of a document's headings.
func anchors(t *testing.T, path string) (out []string) {
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, line := range strings.Split(read(t, path), "\n") {
		if heading := strings.TrimLeft(line, "#"); heading != line && strings.HasPrefix(heading, " ") {
			out = append(out, strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), ""),
				" ", "-"))
		}
	}
	return out
}

// TestMetricNames holds documents, alerts and dashboard against what the code
// exports, both ways: no name that is not exported, none exported that
// metrics.md leaves out.
func TestMetricNames(t *testing.T) {
	exported := exportedMetrics()
	if len(exported) < 10 {
		t.Fatalf("only %d metrics are exported: %v", len(exported), exported)
	}
	for _, file := range []string{
		"metrics.md", "alerts.yml", "grafana-dashboard.json", "runbook.md", "running.md",
		"sizing.md", "history.md",
	} {
		for _, name := range namesIn(read(t, operations+file)) {
			if !slices.Contains(exported, name) {
				t.Errorf("%s speaks of %s, which nothing exports", file, name)
			}
		}
	}
	page := namesIn(read(t, operations+"metrics.md"))
	for _, name := range exported {
		if !slices.Contains(page, name) {
			t.Errorf("metrics.md does not explain %s", name)
		}
	}
}

// namesIn finds metric names, without what a histogram adds to its own.
func namesIn(text string) (out []string) {
	for _, name := range regexp.MustCompile(`waterclock_[a-z_]+`).FindAllString(text, -1) {
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			name = strings.TrimSuffix(name, suffix)
		}
		out = append(out, name)
	}
	return out
}

// exportedMetrics asks the registry that /metrics serves.
func exportedMetrics() (out []string) {
	m := metrics.New()
	m.Watch(func() []pipeline.Status { return nil }, func() []engine.StandbyStatus { return nil })
	m.WatchThrottle(func() (time.Duration, int64) { return 0, 0 })
	m.WatchDisk(func() engine.DiskStatus { return engine.DiskStatus{} })
	m.WatchEndpoints(func() []webhook.Status { return nil })
	workerprom.New(m.Registry, "webhook")
	m.WatchMemory(func() memory.Usage { return memory.Usage{} })
	ch := make(chan *prometheus.Desc)
	go func() { defer close(ch); m.Registry.Describe(ch) }()
	name := regexp.MustCompile(`fqName: "(waterclock_[a-z_]+)"`)
	for d := range ch {
		if found := name.FindStringSubmatch(d.String()); found != nil {
			out = append(out, found[1])
		}
	}
	return out
}

// TestAlertsAndDashboard reads both as their programs would, and holds every alert to a section of the runbook. What
// users notice has a section, too: the alerts about its causes lead there, in their annotations and in their sections.
func TestAlertsAndDashboard(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, operations+"alerts.yml")), &rules); err != nil {
		t.Fatal(err)
	}
	runbook := anchors(t, operations+"runbook.md")
	sections := strings.Split(read(t, operations+"runbook.md"), "\n## ")
	seen := map[string]bool{"the-nine-oclock-herd": false, "clocks-change": false, "a-customer-got-nothing": false}
	n := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			n++
			if r.Expr == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("alert %s lacks an expression, a severity or a summary", r.Alert)
			}
			if !slices.Contains(runbook, strings.ToLower(r.Alert)) {
				t.Errorf("the runbook has no heading for alert %s", r.Alert)
			}
			if want := "docs/operations/runbook.md#" + strings.ToLower(r.Alert); r.Annotations["runbook"] != want {
				t.Errorf("alert %s leads to %q, want %q", r.Alert, r.Annotations["runbook"], want)
			}
			if r.Annotations["see"] == "" {
				continue
			}
			_, what, _ := strings.Cut(r.Annotations["see"], "docs/operations/runbook.md#")
			if seen[what] = true; !slices.Contains(runbook, what) {
				t.Errorf("alert %s leads to %q, which is no heading", r.Alert, r.Annotations["see"])
			}
			if !slices.ContainsFunc(sections, func(s string) bool {
				return strings.HasPrefix(s, r.Alert+"\n") && strings.Contains(s, "(#"+what+")")
			}) {
				t.Errorf("section %s of the runbook does not lead to #%s", r.Alert, what)
			}
		}
	}
	if n == 0 {
		t.Error("no alerts")
	}
	for what, leads := range seen {
		if !leads {
			t.Errorf("no alert leads to #%s", what)
		}
	}
	var dashboard struct{ Panels []map[string]any }
	if err := json.Unmarshal([]byte(read(t, operations+"grafana-dashboard.json")), &dashboard); err != nil ||
		len(dashboard.Panels) == 0 {
		t.Errorf("the dashboard has %d panels: %v", len(dashboard.Panels), err)
	}
}

// TestNamedTests finds every test that a document names as `package.TestName`.
func TestNamedTests(t *testing.T) {
	named := regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz)[A-Za-z0-9]+)`")
	known := map[string][]string{}
	n := 0
	for path, text := range markdown(t) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			n++
			if known[m[1]] == nil {
				known[m[1]] = testsOf(t, m[1])
			}
			if !slices.Contains(known[m[1]], m[2]) {
				t.Errorf("%s names %s.%s, and there is no such test", path, m[1], m[2])
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d tests are named", n)
	}
}

func testsOf(t *testing.T, pkg string) []string {
	files, err := filepath.Glob("../" + pkg + "/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	out := []string{""}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				out = append(out, fn.Name.Name)
			}
		}
	}
	return out
}

// TestNamedFiles finds every source file that a document names by its path
// from the root.
func TestNamedFiles(t *testing.T) {
	named := regexp.MustCompile("`((?:[a-z]+/)*[a-z]+/[A-Za-z0-9_]+\\.(?:go|sh|txt|proto))`")
	n := 0
	for path, text := range markdown(t) {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			n++
			if _, err := os.Stat("../" + m[1]); err != nil {
				t.Errorf("%s names %s, which is not there", path, m[1])
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d files are named", n)
	}
}
