// Package pacetest is a slow disk, to see in a synctest bubble who keeps a pace.
package pacetest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Disk is a file system in memory whose files take a while for every write.
type Disk struct {
	vfs.FS
	block  time.Duration
	worked atomic.Int64 // with sorted files
}

// New returns an empty Disk.
func New(block time.Duration) *Disk { return &Disk{FS: vfs.NewMem(), block: block} }

// Rests says whether what do writes to sorted files took much longer than the
// disk needs for it.
func (d *Disk) Rests(t testing.TB, do func() error) bool {
	t.Helper()
	before, begin := d.worked.Load(), time.Now()
	if err := do(); err != nil {
		t.Fatal(err)
	}
	worked := time.Duration(d.worked.Load() - before)
	if worked == 0 {
		t.Fatal("no sorted file was written")
	}
	return time.Since(begin) > 4*worked
}

// Create is vfs.FS's.
func (d *Disk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, category)
	if err != nil {
		return nil, err
	}
	return &file{f, d, category == "pebble-memtable-flush" || category == "pebble-compaction"}, nil
}

// Unwrap is for Pebble.
func (d *Disk) Unwrap() vfs.FS { return d.FS }

type file struct {
	vfs.File
	disk   *Disk
	sorted bool
}

func (f *file) Write(p []byte) (int, error) {
	time.Sleep(f.disk.block)
	if f.sorted {
		f.disk.worked.Add(int64(f.disk.block))
	}
	return f.File.Write(p)
}
