package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// eventually waits until f is true, for as long as a busy machine may need.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestAwaitRoom: with AwaitRoom a full disk stops nothing for good. What could not be kept
// is not acknowledged; when there is room, the broker serves on the same address, and has
// what it had acknowledged.
func TestAwaitRoom(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /dev/full")
	}
	var free atomic.Bool
	b := start(t, t.TempDir(), func(o *Options) {
		o.AwaitRoom, o.hasRoom = true, free.Load
		o.OnFatal = func(err error) { t.Errorf("stopped by %v", err) }
	})
	create(t, b, "a", 1)
	create(t, b, "b", 1)
	cl := client(t, b)
	for i := range 10 {
		produce(t, cl, rec("a", 0, "k", fmt.Sprint(i)))
	}
	path := filepath.Join(partitionDir(b.current().data, "b", 0), segmentName(0))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(path)
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	if err := brief(t, b, kgo.DisableIdempotentWrite()).ProduceSync(testContext(t),
		rec("b", 0, "k", "v")).FirstErr(); err == nil {
		t.Error("acknowledged on a full disk")
	}
	eventually(t, "it says that there is no room", func() bool { return b.NoRoom() != nil })
	if err := b.NoRoom(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("it waits for room: %v", err)
	}
	if err := brief(t, b).Ping(testContext(t)); err == nil {
		t.Error("still serves")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	addr := b.Addr()
	free.Store(true)
	eventually(t, "it serves again", func() bool { return b.NoRoom() == nil })
	if b.Addr() != addr || b.Err() != nil {
		t.Errorf("it serves on %s, was %s, error %v", b.Addr(), addr, b.Err())
	}
	produce(t, client(t, b), rec("a", 0, "k", "10"), rec("b", 0, "k", "later"))
	var want []string
	for i := range 11 {
		want = append(want, fmt.Sprint(i))
	}
	wantValues(t, read(t, b, "a", 0), want...)
	wantValues(t, read(t, b, "b", 0), "later")
}
