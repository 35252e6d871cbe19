package examples

import (
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/services"
)

// TestExportGuide runs "Your first hour with the data" beside a demo: its commands, and then its program.
func TestExportGuide(t *testing.T) {
	python := services.Python(t, "venv-data")
	page := read(t, "../docs/analytics/export.md")
	d, dir := startDev(t, "--demo"), t.TempDir()
	d.awaitDemo(t)
	commands := oneBlock(t, page, "sh export")
	cmd := shell(t, d, commands)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	requirePromised(t, commands, string(out))
	program := oneBlock(t, page, "python export")
	cmd = d.command(t, python, "-c", program)
	cmd.Dir = dir
	if out, err = cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(promised(program)) < 4 {
		t.Fatal("the page promises little")
	}
	requirePromised(t, program, string(out))
}

// awaitDemo waits until dev --demo has done its last step: it cancels the meeting.
func (d *dev) awaitDemo(t *testing.T) {
	t.Helper()
	var out []byte
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		out, _ = d.command(t, d.bin, "get", "demo-meeting").CombinedOutput() // fails until it is registered
		if strings.Contains(string(out), "CANCELLED") {
			return
		}
	}
	t.Fatalf("the demo did not end: %s", out)
}
