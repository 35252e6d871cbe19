package examples

import (
	"os/exec"
	"strings"
	"testing"
)

// TestErasure runs the guide's block and looks for what its lines promise.
func TestErasure(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	d := startDev(t)
	blocks := blocksOf(read(t, "../docs/api/erasure.md"), "sh run")
	if len(blocks) != 1 {
		t.Fatalf("%d blocks", len(blocks))
	}
	program := strings.ReplaceAll(blocks[0], "http://127.0.0.1:8080", d.url)
	cmd := shell(t, d, program)
	cmd.Dir = t.TempDir()
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	requirePromised(t, program, string(text))
}
