package decompress

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/rawbatch"
)

// TestOneRoom: the embedded broker, the engine and the history are one process in dev. They decompress
// large batches in the same memory, and a batch of 8 MiB takes no room of 64.
func TestOneRoom(t *testing.T) {
	src := records(t, "gzip", rawbatch.Record{Key: []byte("k"), Large: "value", Zeros: 8 << 20})
	var bounds []*Bound
	for _, batch := range []int{32 << 20, DefaultBatch, DefaultBatch} {
		b, err := New(batch)
		if err != nil {
			t.Fatal(err)
		}
		bounds = append(bounds, b)
	}
	workshop.buf = nil // what an earlier test left
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, b := range bounds {
		if _, err := b.Decompress(src, number("gzip")); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	// Each has 8 MiB of output, and up to 6 MiB for decoders that a collection has taken from their pools. Rooms of
	// their own would be 96 MiB, and of 64 MiB more.
	if took := after.TotalAlloc - before.TotalAlloc; took > medium+uint64(len(bounds))*15<<20 {
		t.Errorf("%d readers of 8 MiB allocated %d MiB", len(bounds), took>>20)
	}
}

// TestRoomIsGivenBack: it is there for the next batch, and not for ever.
func TestRoomIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w shop
		use := func(size int) {
			w.Lock()
			defer w.Unlock()
			defer w.close()
			if got := w.open(size); cap(got) != size || len(got) != 0 {
				t.Errorf("room of %d for %d", cap(got), size)
			}
		}
		kept := func() int {
			synctest.Wait()
			w.Lock()
			defer w.Unlock()
			return cap(w.buf)
		}
		use(medium)
		time.Sleep(keptFor - 1)
		use(1000)
		time.Sleep(keptFor - 1)
		if n := kept(); n != medium {
			t.Errorf("%d bytes are kept while it is used", n)
		}
		time.Sleep(time.Nanosecond)
		if n := kept(); n != 0 {
			t.Errorf("%d bytes are kept when nobody uses it", n)
		}
		use(2000)
	})
}
