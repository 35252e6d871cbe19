//go:build !unix

package broker

import (
	"os"
	"path/filepath"
)

// lockDir cannot lock here; the data directory's own lock keeps others out.
func lockDir(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
}
