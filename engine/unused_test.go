package engine

import (
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/pipeline"
)

// TestUnusedStores: a store that this process neither owns nor tails, and one that was put aside,
// are removed after MaxAway, with what was erased since. Others stay, also if they were unused for
// a while.
func TestUnusedStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		for _, name := range []string{"0", "1", "2", "3", "1.quarantine", "3.unused", "9", "2.backup", "other"} {
			if err := fs.MkdirAll("store/"+name, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		e := &Engine{
			process: &pipeline.Process{Options: pipeline.Options{
				Dir: "store", StoreFS: fs, Partitions: 4, MaxAway: 12 * time.Hour,
				Logger: slog.New(slog.DiscardHandler),
			}},
			owned: map[int32]*ownership{1: {}}, tails: map[int32]*tail{2: {}},
		}
		left := func() []string {
			names, err := fs.List("store")
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(names)
			return names
		}
		since := map[string]time.Time{}
		check := func(after time.Duration) {
			time.Sleep(after)
			e.checkUnused(since)
		}
		all := left()
		check(0)
		check(6 * time.Hour)
		e.owned[3] = &ownership{}
		check(0)
		delete(e.owned, 3)
		check(6*time.Hour - time.Second)
		if got := left(); !slices.Equal(got, all) {
			t.Errorf("before MaxAway has passed there are %q", got)
		}
		check(time.Second)
		if got := left(); !slices.Equal(got, []string{"1", "2", "2.backup", "3", "9", "other"}) {
			t.Errorf("after MaxAway there are %q; the store of 3 was in use meanwhile", got)
		}
		check(12 * time.Hour)
		if got := left(); !slices.Equal(got, []string{"1", "2", "2.backup", "9", "other"}) {
			t.Errorf("later there are %q", got)
		}
	})
}
