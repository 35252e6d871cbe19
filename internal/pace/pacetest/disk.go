// Package pacetest is a slow disk, to see in a synctest bubble who keeps a pace.
package pacetest

import (
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Disk is a file system in memory whose files take Block for every write.
type Disk struct {
	vfs.FS
	Block time.Duration

	worked atomic.Int64
}

// New returns an empty Disk.
func New(block time.Duration) *Disk { return &Disk{FS: vfs.NewMem(), Block: block} }

// Worked is how long the disk was busy with sorted files.
func (d *Disk) Worked() time.Duration { return time.Duration(d.worked.Load()) }

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
	time.Sleep(f.disk.Block)
	if f.sorted {
		f.disk.worked.Add(int64(f.disk.Block))
	}
	return f.File.Write(p)
}
