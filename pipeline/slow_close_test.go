package pipeline_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// slowClose is a disk that takes long to close a store's log, while slow is set.
type slowClose struct {
	vfs.FS
	slow   atomic.Bool
	took   time.Duration
	closes atomic.Int64
}

func (d *slowClose) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, category)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return &slowlyClosed{f, d}, nil
}

type slowlyClosed struct {
	vfs.File
	disk *slowClose
}

func (f *slowlyClosed) Close() error {
	if f.disk.slow.Load() {
		f.disk.closes.Add(1)
		time.Sleep(f.disk.took)
	}
	return f.File.Close()
}

// TestStoreClosesSlowly: a rebalance takes partitions from a member whose disk needs longer
// to close a store than the rebalance may last. The member stays in the group and goes on
// with what it keeps. The new owner does not wait for that disk.
func TestStoreClosesSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowClose{took: 20 * time.Second} // four times the rebalance timeout
		w := sim.New(t, sim.Options{Seed: 35, Partitions: 4, Change: func(name string, o *pipeline.Options) {
			if name == "a" {
				disk.FS = o.StoreFS
				o.StoreFS = disk
			}
		}})
		w.Start("a")
		w.AwaitOwners()
		due := time.Now().Add(40 * time.Second)
		for i := range 100 {
			w.Register(fmt.Sprintf("k%d", i), due.Add(time.Duration(i)*50*time.Millisecond))
		}
		time.Sleep(10 * time.Second)
		before := terms(w)

		disk.slow.Store(true)
		w.Start("b")
		shared(t, w, 2, disk.took/2)
		time.Sleep(disk.took / 2) // longer than the session may be silent
		if n := disk.closes.Load(); n != 2 {
			t.Errorf("%d stores are being closed slowly, want 2", n)
		}
		moved := 0
		for p, term := range terms(w) {
			switch owner := w.Owner(p); {
			case owner == nil:
				t.Errorf("nobody owns partition %d", p)
			case owner.Name == "b":
				moved++
			case term != before[p]:
				t.Errorf("a opened partition %d anew: its membership had ended", p)
			}
		}
		if moved != 2 {
			t.Errorf("%d partitions moved, want 2", moved)
		}
		rest(w)
		for i := range 100 {
			w.RequireDelivered(fmt.Sprintf("k%d", i), 1)
		}
		disk.slow.Store(false)
	})
}
