package analytics

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
)

// open makes the directory, and a directory of its own for files that are not finished.
func (e *Exporter) open() error {
	if e.lock != nil {
		return nil
	}
	if err := os.MkdirAll(e.opts.Dir, 0o755); err != nil { //nolint:gosec // analysts read it
		return fmt.Errorf("make the directory of the export: %w", err)
	}
	for _, name := range []string{manifestDir, eventsDir, tailDir, snapshotDir, tmpDir} {
		if err := e.makeDir(name); err != nil {
			return err
		}
	}
	e.removeLeft()
	for try := 1; ; try++ { // another exporter may take a directory without a lock for left over
		id := make([]byte, 8)
		_, _ = rand.Read(id) // never fails
		e.tmpDir = filepath.Join(e.opts.Dir, tmpDir, hex.EncodeToString(id))
		if err := e.disk.MakeDir(e.tmpDir); err != nil {
			return err
		}
		lock, err := lockDir(e.tmpDir, true)
		if err == nil {
			e.lock = lock
			return nil
		}
		if try == mostTries {
			return err
		}
	}
}

const mostTries = 10

// removeLeft removes unfinished files of exporters that died. A lock is held by one that
// lives. A directory without one is empty: somebody is about to lock it, or to remove it.
func (e *Exporter) removeLeft() {
	entries, err := os.ReadDir(filepath.Join(e.opts.Dir, tmpDir))
	if err != nil {
		return
	}
	for _, entry := range entries {
		name := filepath.Join(e.opts.Dir, tmpDir, entry.Name())
		lock, err := lockDir(name, false)
		switch {
		case err == nil:
			_ = e.removeTmp(name)
			_ = lock.Close()
		case gone(err):
			_ = e.disk.Remove(name)
		}
	}
}

// removeTmp removes the lock last, and then the directory, which somebody else may have done.
func (e *Exporter) removeTmp(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, f := range entries {
		if f.Name() != lockFile {
			err = errors.Join(err, e.disk.Remove(filepath.Join(dir, f.Name())))
		}
	}
	for _, name := range []string{filepath.Join(dir, lockFile), dir} {
		if e := e.disk.Remove(name); !gone(e) {
			err = errors.Join(err, e)
		}
	}
	return err
}

func (e *Exporter) close() error {
	e.file.drop()
	if e.lock == nil {
		return nil
	}
	err := e.removeTmp(e.tmpDir)
	err = errors.Join(err, e.lock.Close())
	e.lock = nil
	return err
}

// scratch is a new name for a file that is not finished.
func (e *Exporter) scratch() string {
	e.tmps++
	return filepath.Join(e.tmpDir, fmt.Sprintf("%d", e.tmps))
}

// makeDir makes a directory below Dir, durably, with those above it.
func (e *Exporter) makeDir(name string) error {
	if name == "." || e.made[name] {
		return nil
	}
	if err := e.makeDir(path.Dir(name)); err != nil {
		return err
	}
	full := filepath.Join(e.opts.Dir, filepath.FromSlash(name))
	if err := e.disk.MakeDir(full); err != nil {
		return err
	}
	if err := e.disk.SyncDir(filepath.Dir(full)); err != nil {
		return err
	}
	e.made[name] = true
	return nil
}
