package embedded

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/waterclock/waterclock/sinks"
)

// fullFS is an in-memory file system whose writes fail while full returns true.
func fullFS(full func(path string) bool) vfs.FS {
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		writes := op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpFileSync
		if writes && full(op.Path) {
			return fmt.Errorf("write %s: %w", op.Path, syscall.ENOSPC)
		}
		return nil
	}))
}

// TestNoRoom checks that a full disk does not end the process. Events wait for space, whichever
// file runs out of it, and then all of them are stored.
func TestNoRoom(t *testing.T) {
	for _, where := range []string{"", ".log", "MANIFEST", ".sst"} {
		t.Run("files "+where, func(t *testing.T) {
			var full atomic.Bool
			var heard atomic.Int64
			s, err := Open(Options{
				Dir: "/history", SweepEvery: -1, Now: func() time.Time { return start.Add(24 * time.Hour) },
				FS: fullFS(func(path string) bool { return full.Load() && strings.Contains(path, where) }),
				NoRoom: func(err error) {
					if errors.Is(err, syscall.ENOSPC) {
						heard.Add(1)
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			full.Store(true)
			const n = 200
			done := make(chan error, 1)
			go func() {
				for i := range n {
					large := event(i, strings.Repeat("x", 4<<10))
					if err := s.Apply(context.Background(), []sinks.EventRecord{large}); err != nil {
						done <- err
						return
					}
				}
				done <- s.db.Flush()
			}()
			for deadline := time.Now().Add(time.Minute); heard.Load() == 0; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("nobody heard that the disk is full")
				}
			}
			full.Store(false)
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
			case <-time.After(time.Minute):
				t.Fatal("there is room, and the events do not come")
			}
			if got := count(t, s, tableEvents); got != n {
				t.Errorf("%d of %d events are there", got, n)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
