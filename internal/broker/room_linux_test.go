package broker

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestSmallDisk fills a real file system, twice, and makes it larger.
func TestSmallDisk(t *testing.T) {
	dir := smallDisk(t, "16m")
	b := start(t, dir, func(o *Options) {
		o.AwaitRoom, o.SegmentBytes = true, 1<<20
		o.OnFatal = func(err error) { t.Errorf("stopped by %v", err) }
	})
	create(t, b, "a", 1)
	var want []string
	for round, size := range []string{"32m", "64m"} {
		cl := brief(t, b, kgo.DisableIdempotentWrite()) // an idempotent one waits for the broker
		for i := 0; b.NoRoom() == nil; i++ {
			v := fmt.Sprintf("%d-%d-%s", round, i, strings.Repeat("x", 100<<10))
			if err := cl.ProduceSync(testContext(t), rec("a", 0, "k", v)).FirstErr(); err == nil {
				want = append(want, v)
			}
		}
		remount(t, dir, size)
		eventually(t, "it serves again", func() bool { return b.NoRoom() == nil })
	}
	produce(t, client(t, b), rec("a", 0, "k", "end"))
	got := read(t, b, "a", 0)
	have := map[string]bool{}
	for _, v := range values(got) {
		have[v] = true
	}
	for _, v := range want {
		if !have[v] {
			t.Fatalf("%s… was acknowledged and is gone", v[:8])
		}
	}
	if !have["end"] || len(want) < 50 {
		t.Errorf("%d records were acknowledged; the last is there: %v", len(want), have["end"])
	}
}

// smallDisk is a file system in memory of so many bytes.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return filepath.Join(dir, "data")
}

// remount gives the file system of a directory another size.
func remount(t *testing.T, dir, size string) {
	t.Helper()
	at := filepath.Dir(dir)
	if err := syscall.Mount("tmpfs", at, "tmpfs", syscall.MS_REMOUNT, "mode=0700,size="+size); err != nil {
		t.Fatal(err)
	}
}
