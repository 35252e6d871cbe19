// Package wholefile writes files atomically: a reader sees the old file or the new one, never a
// part. It does not sync, so after a power cut the file may be empty.
package wholefile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces a file by what write writes. If that fails, the old file stays as it was. The
// folder must exist.
func Write(name string, mode fs.FileMode, write func(io.Writer) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), ".waterclock-*")
	if err != nil {
		return err
	}
	err = errors.Join(write(tmp), tmp.Chmod(mode), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}
