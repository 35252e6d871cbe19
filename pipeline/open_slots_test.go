package pipeline

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/statestore"
)

// openingOf is an opening with what its slots need.
func openingOf(t *testing.T, o *Process) *opening {
	t.Helper()
	st, err := statestore.Open(statestore.Options{Dir: "/p0", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return &opening{Partition: &Partition{opts: o, store: st, kept: &Kept{}}}
}

// TestOneCountsAtATime: a partition waits with its count for another one of the process, and no longer than it is open.
func TestOneCountsAtATime(t *testing.T) {
	for _, closed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := &Process{counting: make(chan struct{}, 1)}
			o.counting <- struct{}{} // another one counts
			p := openingOf(t, o)
			p.countRetries()
			if synctest.Wait(); p.retries.all() != nil {
				t.Fatal("two count at once")
			}
			p.retries.end()
			synctest.Wait()
			if !closed {
				p.countRetries() // as if it had been opened anew
			}
			<-o.counting
			synctest.Wait()
			if counted := p.retries.all() != nil; counted == closed {
				t.Errorf("closed %v, counted %v", closed, counted)
			}
			if len(o.counting) != 0 {
				t.Error("nobody counts, and the others wait")
			}
			if err := p.store.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestFewRestoreAtATime: more wait, and no longer than they are to open.
func TestFewRestoreAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &Process{restoring: make(chan struct{}, restoreAtOnce)}
		p := openingOf(t, o)
		var ends []func()
		for range restoreAtOnce {
			done, err := p.mayRestore(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, done)
		}
		left := 0
		p.kept.OnRestore(func() { left++ })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := p.mayRestore(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("one more restores: %v", err)
		}
		if left != 1 {
			t.Error("one that waits to restore keeps others from opening")
		}
		restores := false
		go func() {
			done, err := p.mayRestore(t.Context())
			if restores = err == nil; restores {
				done()
			}
		}()
		if synctest.Wait(); restores {
			t.Error("one more restores")
		}
		for _, done := range ends {
			done()
		}
		if synctest.Wait(); !restores {
			t.Error("it does not restore though nobody else does")
		}
		if err := p.store.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
