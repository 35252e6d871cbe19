package examples

import (
	"testing"

	"github.com/waterclock/waterclock/test/services"
)

// TestExportGuide runs "Your first hour with the data": its commands, and then its program.
func TestExportGuide(t *testing.T) {
	python := services.Python(t, "venv-data")
	page := read(t, "../docs/analytics/export.md")
	d, dir := startDev(t), t.TempDir()
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
