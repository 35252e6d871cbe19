//go:build unix

package analytics

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// lockDir locks a directory for as long as this process lives. It fails if another one has
// it, or if there is no lock to take and none is to be made.
func lockDir(dir string, create bool) (io.Closer, error) {
	flags := os.O_RDWR
	if create {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), flags, 0o644) //nolint:gosec // as the rest
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	ours, err1 := f.Stat()
	there, err2 := os.Stat(f.Name())
	if err := errors.Join(err1, err2); err != nil || !os.SameFile(ours, there) {
		_ = f.Close()
		return nil, fmt.Errorf("%s was removed meanwhile: %w", f.Name(), err)
	}
	return f, nil
}
