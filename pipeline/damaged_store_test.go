package pipeline_test

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// TestDamagedBlock flips a bit of every sorted file where opening does not look:
// among the states of what is due later. The damage is found when they fall due,
// and the store is rebuilt then, as one that cannot be opened is.
func TestDamagedBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{
			Seed: 11, Partitions: 1,
			Change: func(_ string, o *pipeline.Options) { o.Machine.Horizon = 10 * time.Minute },
		})
		w.Start("a")
		w.AwaitOwners()
		const n = 200
		begin := time.Now()
		for i := range n {
			at := begin.Add(20 * time.Minute).UTC().Format(time.RFC3339Nano)
			payload := strings.Repeat(fmt.Sprint(w.Rand.Uint64()), 50)
			w.Send(fmt.Sprint("k", i), fmt.Sprintf(`{"op":"register","fire_at":%q,"payload":%q}`, at, payload))
		}
		time.Sleep(5 * time.Second)
		for range 2 { // opening a store writes what its log holds to a sorted file
			_ = w.Stop("a")
			w.Start("a")
			w.AwaitOwners()
			time.Sleep(time.Second)
		}
		_ = w.Stop("a")
		flipSorted(t, w, "store/0")
		a := w.Start("a")
		if time.Sleep(time.Minute); w.Owner(0) == nil {
			t.Fatalf("nobody owns the partition: %v", a.Engine.Unready())
		}
		time.Sleep(21 * time.Minute)
		fired := map[string]int{}
		for _, r := range w.Dump(w.Names.Due("default")) {
			fired[string(r.Key)]++
		}
		for i := range n {
			if k := fmt.Sprint("k", i); fired[k] != 1 {
				t.Fatalf("%s fired %d times, %d of %d fired; unready: %v", k, fired[k], len(fired), n,
					a.Engine.Unready())
			}
		}
	})
}

func flipSorted(t *testing.T, w *sim.World, dir string) {
	t.Helper()
	names, err := w.Disk("a").List(dir)
	if err != nil {
		t.Fatal(err)
	}
	flipped := 0
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			flipFile(t, w.Disk("a"), dir+"/"+name)
			flipped++
		}
	}
	if flipped == 0 {
		t.Fatal("there is no sorted file")
	}
}

// TestUnreadableSector: a file that the disk does not give back any more is
// damage as well. It does not pass by itself.
func TestUnreadableSector(t *testing.T) {
	for name, where := range map[string]int64{"at opening": 0, "later": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var broken atomic.Int64 // reads until it is; 0: never
				w := sim.New(t, sim.Options{Seed: 12, Partitions: 1, Change: func(_ string, o *pipeline.Options) {
					o.StoreFS = errorfs.Wrap(o.StoreFS, errorfs.InjectorFunc(func(op errorfs.Op) error {
						switch {
						case op.Kind == errorfs.OpRename && op.Path == "store/0":
							broken.Store(0)
						case broken.Load() == 0, !strings.HasSuffix(op.Path, ".sst"),
							!strings.HasPrefix(op.Path, "store/0/"):
						case op.Kind == errorfs.OpFileReadAt && op.Offset < broken.Load():
							return &os.PathError{Op: "read", Path: op.Path, Err: syscall.EIO}
						}
						return nil
					}))
				}})
				w.Start("a")
				w.AwaitOwners()
				for i := range 100 {
					at := time.Now().Add(20 * time.Minute).UTC().Format(time.RFC3339Nano)
					payload := strings.Repeat(fmt.Sprint(w.Rand.Uint64()), 50)
					w.Send(fmt.Sprint("k", i), fmt.Sprintf(`{"op":"register","fire_at":%q,"payload":%q}`, at, payload))
				}
				time.Sleep(5 * time.Second)
				for range 2 {
					_ = w.Stop("a")
					w.Start("a")
					w.AwaitOwners()
					time.Sleep(time.Second)
				}
				_ = w.Stop("a")
				broken.Store(1 << 40)
				if where > 0 {
					broken.Store(where) // the first block: what is due
				}
				a := w.Start("a")
				if time.Sleep(time.Minute); w.Owner(0) == nil {
					t.Fatalf("nobody owns the partition: %v", a.Engine.Unready())
				}
				time.Sleep(21 * time.Minute)
				for i := range 100 {
					w.RequireDelivered(fmt.Sprint("k", i), 1)
				}
			})
		})
	}
}
