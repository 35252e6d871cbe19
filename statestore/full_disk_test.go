package statestore

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/waterclock/waterclock/trigger"
)

// countingWriter counts lines.
type countingWriter struct{ lines atomic.Int64 }

func (w *countingWriter) Write(p []byte) (int, error) {
	w.lines.Add(int64(bytes.Count(p, []byte("\n"))))
	return len(p), nil
}

// TestFullDisk lets no sorted file be written. Pebble then retries, but must use neither a whole
// core nor the space that is left for the log. All data must be there once there is space.
func TestFullDisk(t *testing.T) {
	var full atomic.Bool
	var tries atomic.Int64
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && strings.HasSuffix(op.Path, ".sst") &&
			(op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpFileWrite) {
			tries.Add(1)
			return syscall.ENOSPC
		}
		return nil
	}))
	log := &countingWriter{}
	s := mustOpen(t, Options{
		Dir: "/p0", FS: fs, MemTableBytes: minMemTableBytes,
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	full.Store(true)
	b := s.NewBatch()
	const n = 100
	for i := range n {
		row := pending(trigger.Key(fmt.Sprint("k", i)), trigger.Instant(i+1))
		row.Value = bytes.Repeat([]byte("x"), minMemTableBytes/50)
		b.Put(nil, row)
		if i%10 == 0 {
			mustCommit(t, b)
		}
	}
	mustCommit(t, b)
	time.Sleep(500 * time.Millisecond)
	if tries.Load() == 0 || tries.Load() > 50 || log.lines.Load() > 50 {
		t.Errorf("in half a second Pebble tried %d times, and %d lines were logged", tries.Load(), log.lines.Load())
	}
	full.Store(false)
	for i := range n {
		if v, err := s.Get(trigger.Key(fmt.Sprint("k", i)), nil); err != nil || len(v) == 0 {
			t.Fatalf("k%d: %d bytes, %v", i, len(v), err)
		}
	}
}
