package statestore

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/waterclock/waterclock/internal/logtest"
	"github.com/waterclock/waterclock/trigger"
)

// TestNoRoom lets each kind of file run out of space. The store must report it at once and must
// not end the process. It must have all data once there is space. No log line may have a stack
// trace.
func TestNoRoom(t *testing.T) {
	for _, c := range []struct {
		name  string
		where string
		err   error
	}{
		{"all", "", syscall.ENOSPC},
		{"log", ".log", syscall.EDQUOT},
		{"manifest", "MANIFEST", syscall.ENOSPC},
		{"sorted files", ".sst", syscall.EROFS},
	} {
		t.Run(c.name, func(t *testing.T) {
			var full atomic.Bool
			var heard atomic.Int64
			fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
				writes := op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpFileSync
				if full.Load() && writes && strings.Contains(op.Path, c.where) {
					return fmt.Errorf("write %s: %w", op.Path, c.err)
				}
				return nil
			}))
			log := &logtest.Buffer{}
			o := Options{
				Dir: "/p0", FS: fs, MemTableBytes: minMemTableBytes, Logger: slog.New(slog.NewTextHandler(log, nil)),
				NoRoom: func(err error) {
					if errors.Is(err, c.err) {
						heard.Add(1)
					}
				},
			}
			s := mustOpen(t, o)
			full.Store(true)
			const n = 400
			written := make(chan error, 1)
			go func() { // it may have to wait for space
				b := s.NewBatch()
				var err error
				for i := 0; i < n && err == nil; i++ {
					row := pending(trigger.Key(fmt.Sprint("k", i)), trigger.Instant(i+1))
					row.Value = bytes.Repeat([]byte("x"), minMemTableBytes/100)
					b.Put(nil, row)
					if i%10 == 9 {
						err = b.Commit()
					}
				}
				written <- err
			}()
			for begun := time.Now(); heard.Load() == 0; time.Sleep(time.Millisecond) {
				if time.Since(begun) > 20*time.Second {
					t.Fatal("nobody was told")
				}
			}
			time.Sleep(100 * time.Millisecond)
			full.Store(false)
			if err := <-written; err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = mustOpen(t, o)
			for i := range n {
				if v, err := s.Get(trigger.Key(fmt.Sprint("k", i)), nil); err != nil || len(v) == 0 {
					t.Fatalf("k%d: %d bytes, %v", i, len(v), err)
				}
			}
			if text := log.String(); strings.Contains(text, "goroutine") || strings.Contains(text, ".go:") {
				t.Errorf("a stack trace in the log: %.2000s", text)
			}
		})
	}
}
