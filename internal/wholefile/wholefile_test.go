package wholefile_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/waterclock/waterclock/internal/wholefile"
)

// TestWrite: a write that fails leaves the old file, and nothing beside it.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "report.html")
	text := func(s string, then error) func(io.Writer) error {
		return func(w io.Writer) error {
			_, err := io.WriteString(w, s)
			return errors.Join(err, then)
		}
	}
	full := errors.New("the disk is full")
	for _, step := range []struct {
		write func(io.Writer) error
		fails error
		want  string
	}{{text("old", nil), nil, "old"}, {text("half", full), full, "old"}, {text("new", nil), nil, "new"}} {
		if err := wholefile.Write(name, 0o640, step.write); !errors.Is(err, step.fails) {
			t.Errorf("writing %q: %v, want %v", step.want, err, step.fails)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != step.want {
			t.Errorf("the file has %q (%v), want %q", got, err, step.want)
		}
	}
	if info, err := os.Stat(name); err != nil || info.Mode() != fs.FileMode(0o640) {
		t.Errorf("the file's mode is %v (%v)", info.Mode(), err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("%d files are in the folder (%v), want 1", len(all), err)
	}
	if err := wholefile.Write(filepath.Join(dir, "none", "x"), 0o600, text("x", nil)); err == nil {
		t.Error("a file in a folder that does not exist was written")
	}
}
