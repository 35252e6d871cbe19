package embedded

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/waterclock/waterclock/preferences"
)

// TestNoRoom checks that a full disk does not end the process. A change waits for space.
func TestNoRoom(t *testing.T) {
	var full atomic.Bool
	var heard atomic.Int64
	s, err := Open(Options{
		Dir: "/preferences",
		FS: errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			writes := op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpFileSync
			if full.Load() && writes {
				return fmt.Errorf("write %s: %w", op.Path, syscall.ENOSPC)
			}
			return nil
		})),
		NoRoom: func(error) { heard.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	full.Store(true)
	done := make(chan error, 1)
	user := preferences.User{Tenant: "acme", ID: "u"}
	go func() { done <- s.Put(t.Context(), user, &preferences.Preferences{Locale: "de"}) }()
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
		t.Fatal("there is room, and the change does not come")
	}
	if got, err := s.Get(t.Context(), []preferences.User{user}); err != nil || got[0].Locale != "de" {
		t.Errorf("%+v, %v", got, err)
	}
}
