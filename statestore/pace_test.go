package statestore

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/pace/pacetest"
	"github.com/waterclock/waterclock/trigger"
)

// TestFlushesRest checks that flushes and compactions are paced, unless the store is in Fill or
// closes.
func TestFlushesRest(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2)) // with many cores, a flush may use one without pauses
	for _, c := range []struct {
		name  string
		ready func(*Store) error
		rests bool
	}{
		{"at work", (*Store).Filled, true},
		{"being filled", func(*Store) error { return nil }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := pacetest.New(time.Millisecond)
				s := mustOpen(t, Options{Dir: "/p0", FS: disk, MemTableBytes: maxMemTableBytes / 64})
				if err := c.ready(s); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				b := s.NewBatch()
				for i := range 20 {
					b.Put(nil, pending(trigger.Key(rune('a'+i)), trigger.Instant(i+1)))
				}
				mustCommit(t, b)
				if got := disk.Rests(t, s.db.Flush); got != c.rests {
					t.Errorf("a flush rests: %v", got)
				}
			})
		})
	}
}
