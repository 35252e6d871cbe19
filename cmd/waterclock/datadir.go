package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// layoutVersion is what the data directory holds; another one is not opened.
const layoutVersion = "waterclock data 1"

// dataDir is a locked data directory.
type dataDir struct{ lock *os.File }

// openDataDir makes the directory private to this user, checks who wrote it,
// and keeps every other process out of it.
func openDataDir(dir string) (*dataDir, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, failf("cannot make the data directory %s: %v. Choose another with --data-dir", dir, cause(err))
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, failf("the data directory %s is not ours: %v. Choose another with --data-dir", dir, cause(err))
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, failf("cannot write to the data directory %s: %v. Choose another with --data-dir", dir, cause(err))
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, failf("another waterclock runs on %s. Stop it, or choose another directory with --data-dir", dir)
	}
	if err := checkLayout(dir); err != nil {
		lock.Close()
		return nil, err
	}
	return &dataDir{lock}, nil
}

func (d *dataDir) close() { d.lock.Close() }

// checkLayout writes the version into a new directory and compares it in an
// old one.
func checkLayout(dir string) error {
	file := filepath.Join(dir, "VERSION")
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return os.WriteFile(file, []byte(layoutVersion+"\n"), 0o600)
	}
	if err != nil {
		return failf("cannot read the data directory %s: %v. Choose another with --data-dir", dir, cause(err))
	}
	if got := strings.TrimSpace(string(b)); got != layoutVersion {
		return failf("the data directory %s was written by another version (%q, this one writes %q). Run that version, or choose another directory with --data-dir", dir, got, layoutVersion)
	}
	return nil
}

// cause is an error without the path that the sentence around it names.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// newID is 8 random bytes in hex.
func newID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
