//go:build !unix

package analytics

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// lockDir cannot lock here, so what dead exporters have left is never removed.
func lockDir(dir string, create bool) (io.Closer, error) {
	if !create {
		return nil, errors.ErrUnsupported
	}
	return os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
}
