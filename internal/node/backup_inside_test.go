package node

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A copy inside the data directory would be lost with it.
func TestBackupInsideTheData(t *testing.T) {
	root := t.TempDir()
	data := filepath.Join(root, "data")
	if err := os.MkdirAll(filepath.Join(data, brokerDir), 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(root, "link")
	if err := os.Symlink(data, link); err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	for _, row := range []struct {
		from, to string
		ok       bool
	}{
		{data, filepath.Join(data, "copy"), false},
		{data, filepath.Join(data, "a", "b", "copy"), false},
		{data, filepath.Join(link, "copy"), false},
		{link, filepath.Join(data, "copy"), false},
		{"data", filepath.Join("data", "copy"), false},
		{data, data, false},
		{data, filepath.Join(data, "..", "data-copy"), true},
		{"data", "copy", true},
	} {
		err := mayBackUp(row.from, row.to)
		if (err == nil) != row.ok {
			t.Errorf("from %s to %s: %v", row.from, row.to, err)
		}
		if _, err := os.Stat(row.to); !row.ok && row.to != data && err == nil {
			t.Errorf("%s was made", row.to)
		}
	}
}

// A data directory may be named by a symbolic link.
func TestBackupThroughALink(t *testing.T) {
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, brokerDir), 0o700),
		os.WriteFile(filepath.Join(dir, brokerDir, "segment"), []byte("abc"), 0o600),
		os.Symlink(dir, link)); err != nil {
		t.Fatal(err)
	}
	files, err := filesOfStopped(link)
	if err != nil || len(files) != 1 || files[0].Path != filepath.Join(brokerDir, "segment") || files[0].Size != 3 {
		t.Errorf("files %v, %v", files, err)
	}
	if err := syncTree(link); err != nil {
		t.Error(err)
	}
	if err := verifyBackup(t.Context(), nil, t.TempDir(), slog.Default()); err == nil ||
		!strings.Contains(err.Error(), "nothing of the broker was copied") {
		t.Errorf("a copy without a broker: %v", err)
	}
}
