package check_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestIndependent checks that the checker shares no code with the engine that it judges, not even
// indirectly. It reads topic state by the code that protoc generated.
func TestIndependent(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Skipf("go list: %v: %s", err, out)
	}
	const module = "github.com/waterclock/waterclock/"
	allowed := map[string]bool{"internal/check": true, "schemas/statepb": true}
	for _, pkg := range strings.Fields(string(out)) {
		if name, ours := strings.CutPrefix(pkg, module); ours && !allowed[name] {
			t.Errorf("internal/check depends on %s", name)
		}
		if strings.Contains(pkg, "rrule") {
			t.Errorf("internal/check depends on %s, which the engine uses", pkg)
		}
	}
}
