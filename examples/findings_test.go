package examples

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// TestFindingsOfOperators: each finding in docs/testing.md names a test. Whether the
// tests exist is TestNamedTests' to check.
func TestFindingsOfOperators(t *testing.T) {
	const findings = 11
	_, list, _ := strings.Cut(read(t, "../docs/testing.md"), "## Findings of operators")
	list, _, _ = strings.Cut(list, "\n## ")
	named := regexp.MustCompile("`[a-z0-9/]+\\.Test[A-Za-z0-9]+`")
	for i := 1; i <= findings; i++ {
		_, item, found := strings.Cut(list, fmt.Sprintf("\n%d. ", i))
		item, _, _ = strings.Cut(item, fmt.Sprintf("\n%d. ", i+1))
		if !found || !named.MatchString(item) {
			t.Errorf("finding %d has no test", i)
		}
	}
	alerts := read(t, operations+"alerts.yml")
	for _, metric := range []string{"waterclock_dead_letters_total", "waterclock_pending_limit_triggers"} {
		if !strings.Contains(alerts, metric) {
			t.Errorf("no alert reads %s", metric)
		}
	}
}
