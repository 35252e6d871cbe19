package analytics

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// disk is all that an export does to a directory. Tests end it after any step.
type disk interface {
	MakeDir(name string) error // nil if it is there
	Create(name string) (file, error)
	Rename(from, to string) error
	Link(from, to string) error // fs.ErrExist if to is there
	Remove(name string) error
	SyncDir(name string) error
}

type file interface {
	io.WriteCloser
	Sync() error
}

// realDisk is the machine's.
type realDisk struct{}

func (realDisk) Create(name string) (file, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // analysts read it
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (realDisk) MakeDir(name string) error {
	if err := os.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // as Create
		return err
	}
	return nil
}

func (realDisk) Rename(from, to string) error { return os.Rename(from, to) }
func (realDisk) Link(from, to string) error   { return os.Link(from, to) }
func (realDisk) Remove(name string) error     { return os.Remove(name) }

func (realDisk) SyncDir(name string) error {
	d, err := os.Open(name) //nolint:gosec // a directory of the export
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// gone says that there is no such file.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
