package node

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// LayoutVersion is what the data directory holds; another one is not opened.
const LayoutVersion = "waterclock data 1"

// dataDir is a locked data directory.
type dataDir struct{ lock *os.File }

// openDataDir makes the directory private to this user, checks who wrote it,
// and keeps every other process out of it.
func openDataDir(dir string) (*dataDir, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the data directory %s: %w. Choose another with --data-dir", dir, cause(err))
	}
	if err := mayAdopt(dir, os.Geteuid()); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("the data directory %s is not ours: %w. Choose another with --data-dir", dir, cause(err))
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot write to the data directory %s: %w. Choose another with --data-dir", dir,
			cause(err))
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("another waterclock runs on %s. Stop it, or choose another directory with --data-dir",
			dir)
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
		return os.WriteFile(file, []byte(LayoutVersion+"\n"), 0o600)
	}
	if err != nil {
		return fmt.Errorf("cannot read the data directory %s: %w. Choose another with --data-dir", dir, cause(err))
	}
	if got := strings.TrimSpace(string(b)); got != LayoutVersion {
		return fmt.Errorf("the data directory %s was written by another version (%q, this one writes %q). "+
			"Run that version, or choose another directory with --data-dir", dir, got, LayoutVersion)
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

// instanceID is what makes a member static: the same data directory is the
// same member, and a quick restart moves no partitions. It is made once.
func (n *node) instanceID() string {
	file := filepath.Join(n.cfg.DataDir, "instance-id")
	if b, err := os.ReadFile(file); err == nil && len(b) > 0 {
		return string(b)
	}
	host, _ := os.Hostname()
	id := fmt.Sprintf("%s-%s", host, NewID())
	if err := os.WriteFile(file, []byte(id), 0o600); err != nil {
		n.log.Warn("no static membership: the instance id cannot be kept", "error", err)
		return ""
	}
	return id
}

// NewID is 8 random bytes in hex.
func NewID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
