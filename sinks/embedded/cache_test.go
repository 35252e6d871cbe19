package embedded

import (
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/sinks/sinktest"
)

// Memtables of full size leave the block cache its room: what was read is read from memory the
// next time.
func TestCacheBesideFullMemtable(t *testing.T) {
	s, g := openTest(t, Options{Dir: "h", FS: vfs.NewMem(), SweepEvery: -1}), sinktest.NewStream(3)
	apply(t, s, g.Batch()...)
	// Each memtable has twice the size of the one before, up to 16 MiB: 160 MiB fill them and some more.
	for i := range byte(160) {
		if err := s.db.Set([]byte{0xff, i}, make([]byte, 1<<20), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if size := s.db.Metrics().MemTable.Size; size < memTableBytes {
		t.Fatalf("the memtable has %d bytes of %d", size, memTableBytes)
	}
	table := []byte{tableEvents}
	read := func() (missed int64) {
		before := s.db.Metrics().BlockCache.Misses
		err := s.scan(table, after(table), func([]byte, []byte) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return s.db.Metrics().BlockCache.Misses - before
	}
	first := read()
	if next := read(); first == 0 || next > 0 {
		t.Errorf("%d blocks were read at first, and %d the next time", first, next)
	}
}

// While a flush is slow, a memtable waits, one is full and one fills. A flood makes the process grow by
// no more than that.
func TestMemtablesAreBounded(t *testing.T) {
	s := openTest(t, Options{Dir: "h", FS: vfs.NewMem(), SweepEvery: -1})
	const most = 48 << 20
	for i := range byte(250) {
		out := s.db.NewBatch()
		if err := out.Set([]byte{0xff, i}, make([]byte, 1<<20), nil); err != nil {
			t.Fatal(err)
		}
		if err := s.commit(out); err != nil {
			t.Fatal(err)
		}
		out.Close()
		if size := s.db.Metrics().MemTable.Size; size > most {
			t.Fatalf("after %d MiB the memtables have %d MiB, may have %d", i, size>>20, most>>20)
		}
	}
}
