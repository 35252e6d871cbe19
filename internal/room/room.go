// Package room keeps databases alive while their disk takes nothing more: it is full, over
// its quota, or has become read-only. Pebble ends the process where its log or its manifest
// cannot be written.
//
// # Promises
//
//   - A write that finds no room waits until there is some, and loses nothing.
//   - Whoever opened the file system hears of each such write at once.
package room

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Lacking says that an error is a disk that takes nothing more.
func Lacking(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EROFS)
}

// every is how often a write that found no room is tried again.
const every = 200 * time.Millisecond

// Wrap is a file system whose writes wait for room while serving is set. Before that, while
// a database opens, they fail: that error is for who opens it. A sorted file that cannot be
// written is an error too: Pebble tries it again later. lacking hears of each such write.
func Wrap(fs vfs.FS, lacking func(error), serving *atomic.Bool) vfs.FS {
	return &roomFS{fs, lacking, serving}
}

type roomFS struct {
	vfs.FS
	lacking func(error)
	serving *atomic.Bool
}

// try calls op until it does not fail for want of room.
func (f *roomFS) try(name string, op func() error) error {
	for {
		err := op()
		if err == nil || !Lacking(err) {
			return err
		}
		f.lacking(err)
		if !f.serving.Load() || strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob") {
			return err
		}
		time.Sleep(every)
	}
}

func (f *roomFS) Create(name string, c vfs.DiskWriteCategory) (file vfs.File, err error) {
	err = f.try(name, func() (err error) { file, err = f.FS.Create(name, c); return err })
	return f.opened(name, file, err)
}

func (f *roomFS) OpenReadWrite(
	name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption,
) (file vfs.File, err error) {
	err = f.try(name, func() (err error) { file, err = f.FS.OpenReadWrite(name, c, opts...); return err })
	return f.opened(name, file, err)
}

func (f *roomFS) ReuseForWrite(from, name string, c vfs.DiskWriteCategory) (file vfs.File, err error) {
	err = f.try(name, func() (err error) { file, err = f.FS.ReuseForWrite(from, name, c); return err })
	return f.opened(name, file, err)
}

func (f *roomFS) opened(name string, file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &roomFile{file, f, name}, nil
}

func (f *roomFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	return f.opened(name, file, err)
}

func (f *roomFS) Link(from, name string) error {
	return f.try(name, func() error { return f.FS.Link(from, name) })
}

func (f *roomFS) Rename(from, name string) error {
	return f.try(name, func() error { return f.FS.Rename(from, name) })
}

func (f *roomFS) Remove(name string) error {
	return f.try(name, func() error { return f.FS.Remove(name) })
}

func (f *roomFS) Unwrap() vfs.FS { return f.FS }

type roomFile struct {
	vfs.File
	fs   *roomFS
	name string
}

// Write goes on behind what a first try has written.
func (f *roomFile) Write(b []byte) (n int, err error) {
	err = f.fs.try(f.name, func() error {
		wrote, err := f.File.Write(b[n:])
		n += wrote
		return err
	})
	return n, err
}

func (f *roomFile) WriteAt(b []byte, at int64) (n int, err error) {
	err = f.fs.try(f.name, func() error {
		wrote, err := f.File.WriteAt(b[n:], at+int64(n))
		n += wrote
		return err
	})
	return n, err
}

// Preallocate takes nothing. Pebble would take the size of a full memtable for each of its logs,
// though its first memtables hold 256 KB: a new process with four partitions took 72 MB, and
// 320 MB for 4 MB of payloads. The gain is in syncs of a growing file, and our logs are not synced.
func (f *roomFile) Preallocate(int64, int64) error { return nil }

func (f *roomFile) Sync() error     { return f.fs.try(f.name, f.File.Sync) }
func (f *roomFile) SyncData() error { return f.fs.try(f.name, f.File.SyncData) }

func (f *roomFile) SyncTo(length int64) (all bool, err error) {
	err = f.fs.try(f.name, func() (err error) { all, err = f.File.SyncTo(length); return err })
	return all, err
}
