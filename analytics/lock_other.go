//go:build !unix

package analytics

import (
	"io"
	"os"
	"path/filepath"
)

// lockDir cannot lock here, so it never finds what a dead exporter has left: the file is
// there as soon as the directory is in use.
func lockDir(dir string) (io.Closer, error) {
	return os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
}
