package examples

import (
	"os/exec"
	"strings"
	"testing"
)

// TestPreferences runs the guide's blocks as one program, and looks for what its
// lines promise, in order.
func TestPreferences(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	d := startDev(t)
	blocks := blocksOf(read(t, "../docs/api/preferences.md"), "sh run")
	if len(blocks) != 5 {
		t.Fatalf("%d blocks", len(blocks))
	}
	program := strings.ReplaceAll(strings.Join(blocks, "\n"), "http://127.0.0.1:8080", d.url)
	cmd := shell(t, d, program)
	cmd.Dir = t.TempDir()
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	rest := string(text)
	for _, want := range promised(program) {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("%q is not in what is left of the output:\n%s\nall of it:\n%s", want, rest, text)
		}
		rest = after
	}
}
