package analytics

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/test/services"
)

// The program of docs/analytics/iceberg.md registers the sealed files, once each, also when
// it runs once more after a further export.
func TestIcebergProgram(t *testing.T) {
	python := services.Python(t, "venv-iceberg")
	page, err := os.ReadFile("../docs/analytics/iceberg.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(page), "```python iceberg\n")
	program, _, ok := strings.Cut(program, "```")
	if !ok {
		t.Fatal("the page has no program")
	}
	dir := t.TempDir()
	lake := filepath.Join(dir, "lake")
	w := newWorld(t, 2)
	for range 2 {
		w.fill(12)
		w.export(lake)
		for range 2 {
			sealed, _, manifests := read(t, lake)
			rows, files := 0, 0
			for _, list := range sealed {
				rows += len(list)
			}
			for i := range manifests {
				files += len(manifests[i].Files)
			}
			cmd := exec.CommandContext(t.Context(), python, "-c", program)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			want := fmt.Sprintf("%d events in %d files\n", rows, files)
			if err != nil || !strings.HasSuffix(string(out), want) {
				t.Fatalf("%v: %s, want %s", err, out, want)
			}
		}
	}
}
