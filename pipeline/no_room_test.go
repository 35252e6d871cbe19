package pipeline_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// noRoom makes writes fail with an error, while there is one.
type noRoom struct{ err atomic.Pointer[syscall.Errno] }

func (n *noRoom) wrap(fs vfs.FS) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		writes := op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpFileSync ||
			op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpReuseForWrite || op.Kind == errorfs.OpRename
		if err := n.err.Load(); err != nil && writes {
			return *err
		}
		return nil
	}))
}

func (n *noRoom) set(err syscall.Errno) {
	if err == 0 {
		n.err.Store(nil)
		return
	}
	n.err.Store(&err)
}

// A disk that takes nothing more costs its member the partitions, at once, and
// nobody else anything: another member has them, and the process goes on. Once
// there is room it takes its share again.
func TestNoRoom(t *testing.T) {
	for _, err := range []syscall.Errno{syscall.ENOSPC, syscall.EROFS} {
		t.Run(err.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var disk noRoom
				w := sim.New(t, sim.Options{Seed: 21, Partitions: 2, Change: func(name string, o *pipeline.Options) {
					if name == "a" {
						o.StoreFS = disk.wrap(o.StoreFS)
					}
				}})
				a, b := w.Start("a"), w.Start("b")
				w.AwaitOwners()
				time.Sleep(30 * time.Second) // until each has its share
				if n := len(a.Engine.Partitions()); n != 1 {
					t.Fatalf("a owns %d of 2 partitions", n)
				}
				for i := range 40 {
					w.Register(fmt.Sprintf("before%d", i), time.Now().Add(time.Minute))
				}
				time.Sleep(time.Second)
				disk.set(err)
				defer disk.set(0)
				load(w)
				awaitWithin(t, 2*time.Second, "a says that its disk is full", func() bool {
					return strings.Contains(fmt.Sprint(a.Engine.Unready()), "is full") && a.Engine.Disk().Full
				})
				awaitWithin(t, 15*time.Second, "b has all partitions", func() bool { return ready(b) == 2 })
				awaitWithin(t, 5*time.Second, "a speaks of none", func() bool {
					return len(a.Engine.Partitions()) == 0
				})
				time.Sleep(5 * time.Minute) // beyond hang_after: nobody ends the process
				disk.set(0)
				awaitWithin(t, time.Minute, "a has its share again", func() bool {
					return ready(a) == 1 && ready(b) == 1
				})
				if err := a.Engine.Unready(); err != nil {
					t.Errorf("with room, not ready: %v", err)
				}
				for i := range 40 {
					w.RequireDelivered(fmt.Sprintf("before%d", i), 1)
				}
				for i := range during {
					w.RequireDelivered(fmt.Sprintf("during%d", i), 1)
				}
				w.CheckInvariants()
			})
		})
	}
}

// Alone, nobody else can have them: it says so of each, and goes on when it can.
func TestNoRoomAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disk noRoom
		w := sim.New(t, sim.Options{Seed: 22, Change: func(_ string, o *pipeline.Options) {
			o.StoreFS = disk.wrap(o.StoreFS)
		}})
		a := w.Start("a")
		w.AwaitOwners()
		w.Register("k", time.Now().Add(time.Minute))
		time.Sleep(time.Second)
		disk.set(syscall.ENOSPC)
		defer disk.set(0)
		load(w)
		awaitWithin(t, 10*time.Second, "each is refused", func() bool {
			n := 0
			for _, s := range a.Engine.Partitions() {
				if s.Refused == pipeline.RefusedDisk && strings.Contains(s.RefusedBecause, "no space left") {
					n++
				}
			}
			return n == int(w.P)
		})
		time.Sleep(5 * time.Minute)
		disk.set(0)
		awaitWithin(t, time.Minute, "it fires again", func() bool { return ready(a) == int(w.P) })
		time.Sleep(10 * time.Second)
		w.RequireDelivered("k", 1)
		for i := range during {
			w.RequireDelivered(fmt.Sprintf("during%d", i), 1)
		}
		w.CheckInvariants()
	})
}

// during is how many registers make a store write: Pebble collects 32 KiB of its
// log before it does.
const during = 600

func load(w *sim.World) {
	for i := range during {
		w.Register(fmt.Sprintf("during%d", i), time.Now().Add(time.Minute))
	}
}

func ready(n *sim.Node) (parts int) {
	for _, s := range n.Engine.Partitions() {
		if s.Ready {
			parts++
		}
	}
	return parts
}

func awaitWithin(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Since(begun) > within {
			t.Errorf("not within %v: %s", within, what)
			t.FailNow()
		}
	}
}
