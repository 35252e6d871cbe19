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

// TestUsedBetweenChecks: a partition that came and went between two checks was in use until it went, and one whose
// store still closes is in use.
func TestUsedBetweenChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		for _, name := range []string{"0", "1"} {
			if err := fs.MkdirAll("store/"+name, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		e := &Engine{uses: map[int32]*use{}, process: &pipeline.Process{Options: pipeline.Options{
			Dir: "store", StoreFS: fs, Partitions: 2, MaxAway: 12 * time.Hour, Logger: slog.New(slog.DiscardHandler),
		}}}
		since := map[string]time.Time{}
		check := func(after time.Duration, want ...string) {
			t.Helper()
			time.Sleep(after)
			e.checkUnused(since)
			if got, err := fs.List("store"); err != nil || !slices.Equal(slices.Sorted(slices.Values(got)), want) {
				t.Errorf("there are %q, want %q, %v", got, want, err)
			}
		}
		check(0, "0", "1")
		time.Sleep(10 * time.Minute)
		e.hold(0) // and back before the next check
		e.hold(1) // its turns have ended, and its disk is slow
		time.Sleep(20 * time.Minute)
		e.release(0)
		check(30*time.Minute, "0", "1")
		check(11*time.Hour, "0", "1")
		check(30*time.Minute, "1")
		e.release(1)
		check(12*time.Hour-time.Second, "1")
		check(time.Second)
	})
}
