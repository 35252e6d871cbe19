package node

import (
	"os"
	"path/filepath"
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
