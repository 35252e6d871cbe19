package statestore

import "testing"

// A cache becomes smaller as the filters of its stores grow, by a quarter at most, and has its room back when they
// close.
func TestFiltersTakeRoomFromTheCache(t *testing.T) {
	const size = 16 << 20
	cache := NewSharedCache(size)
	defer cache.Close()
	open := func(keys int) *Store {
		t.Helper()
		s, err := Open(Options{Dir: t.TempDir(), Cache: cache, MaxKeys: keys})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	small := open(0)
	if first := small.known.bytes(); cache.free != size/4-first {
		t.Fatalf("%d bytes are free, and a filter has %d", cache.free, first)
	}
	before := cache.free
	for i := range uint64(200_000) {
		small.known.add(i * 0x9e3779b97f4a7c15)
	}
	small.setCounts(small.counts) // as each commit does
	if grown := small.known.bytes(); cache.free != size/4-grown || cache.free >= before {
		t.Errorf("%d bytes are free, and the filter has grown to %d", cache.free, grown)
	}
	large := open(10 << 20)
	if cache.free != 0 {
		t.Errorf("%d bytes are free beside a filter of %d", cache.free, large.known.bytes())
	}
	if err := small.Close(); err != nil {
		t.Fatal(err)
	}
	large.setCounts(large.counts) // what the other gave back is taken up
	if large.reserved.bytes != size/4 || cache.free != 0 {
		t.Errorf("%d bytes are reserved, %d free", large.reserved.bytes, cache.free)
	}
	if err := large.Close(); err != nil {
		t.Fatal(err)
	}
	if cache.free != size/4 {
		t.Errorf("%d bytes are free when all stores are closed", cache.free)
	}
	plain := NewCache(size)
	defer plain.Close()
	var s reserved
	if plain.reserve(&s, 1<<20); s.bytes != 0 {
		t.Errorf("a cache that is not shared reserves %d bytes", s.bytes)
	}
}
