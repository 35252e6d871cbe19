package pipelinetest

import (
	"io"
	"math/rand/v2"
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
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		if err != nil {
			return err
		}
		if info.IsDir() {
			if err := tear(fs, synced, path, rng); err != nil {
				return err
			}
			continue
		}
		was, err := synced.Stat(path)
		if err != nil || info.Size() <= was.Size() || rng.IntN(2) == 0 {
			continue // removed since fs was copied, or all of it is synced
		}
		if err := shorten(fs, path, was.Size()+rng.Int64N(info.Size()-was.Size())); err != nil {
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
