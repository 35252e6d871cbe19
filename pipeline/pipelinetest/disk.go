package pipelinetest

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// disk is a node's file system. It can be full: then the process dies at its
// next write, as Pebble has it die when its log cannot be written.
type disk struct {
	vfs.FS
	full atomic.Bool
	die  func()      // of the node
	lock *sync.Mutex // of this disk's directory locks, and its copies
}

// Lock is MemFS's, which takes a read lock twice: were a copy begun between the
// two, both would wait for ever.
func (d *disk) Lock(name string) (io.Closer, error) {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.FS.Lock(name)
}

// write says whether there is room. If not, the process is no more when it
// returns: whatever it goes on to write, nobody will read.
func (d *disk) write() error {
	if d.full.Load() {
		d.die()
		return syscall.ENOSPC
	}
	return nil
}

func (d *disk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	_ = d.write()
	f, err := d.FS.Create(name, c)
	return d.opened(f, err)
}

func (d *disk) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.FS.OpenReadWrite(name, c, opts...)
	return d.opened(f, err)
}

func (d *disk) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.ReuseForWrite(oldname, newname, c)
	return d.opened(f, err)
}

func (d *disk) opened(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, d: d}, nil
}

// diskFile asks for room before it writes. The write itself goes through: it
// reaches a disk that was taken from the process when it died.
type diskFile struct {
	vfs.File
	d *disk
}

func (f *diskFile) Write(b []byte) (int, error) {
	_ = f.d.write()
	return f.File.Write(b)
}

func (f *diskFile) WriteAt(b []byte, at int64) (int, error) {
	_ = f.d.write()
	return f.File.WriteAt(b, at)
}

// tear cuts off files at random: of what was written after the last sync, a
// part has reached the disk, to the byte. synced is the same disk, copied later,
// without all that was not synced.
func tear(fs, synced *vfs.MemFS, dir string, rng *rand.Rand) error {
	return eachFile(fs, dir, func(path string) error {
		info, err := fs.Stat(path)
		if err != nil {
			return err
		}
		was, err := synced.Stat(path)
		if err != nil || info.Size() <= was.Size() || rng.IntN(2) == 0 {
			return nil // removed since fs was copied, or all of it is synced
		}
		return shorten(fs, path, was.Size()+rng.Int64N(info.Size()-was.Size()))
	})
}

// eachFile calls f with every file below a directory.
func eachFile(fs *vfs.MemFS, dir string, f func(path string) error) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	slices.Sort(names) // the seed decides, not the order of a map
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		switch {
		case err != nil:
		case info.IsDir():
			err = eachFile(fs, path, f)
		default:
			err = f(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func shorten(fs *vfs.MemFS, path string, size int64) error {
	f, err := fs.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, size)
	if _, err := io.ReadFull(f, b); err != nil {
		return err
	}
	out, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := out.Write(b); err != nil {
		return err
	}
	return out.Sync()
}

// fewHoles is how many of the logs with a hole keep it: one in so many.
const fewHoles = 8

// fillHoles ends most of Pebble's logs where the first block is missing. In the middle of
// one Pebble finds a chunk whose checksum is wrong, and looks for a flipped bit: it
// takes the checksum of up to 32 KiB a quarter of a million times. That was a sixth
// of what a life cost.
func fillHoles(fs, whole *vfs.MemFS, dir string, rng *rand.Rand) error {
	return eachFile(fs, dir, func(path string) error {
		if !strings.HasSuffix(path, ".log") || rng.IntN(fewHoles) == 0 {
			return nil
		}
		was, err := content(whole, path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		is, err2 := content(fs, path)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		for i := range is {
			if i >= len(was) || is[i] != was[i] {
				return shorten(fs, path, int64(i))
			}
		}
		return nil
	})
}

func content(fs *vfs.MemFS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}
