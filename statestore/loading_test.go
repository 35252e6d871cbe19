package statestore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/trigger"
)

// loadingStore is a store of n triggers that was opened, and reads no key before the test lets it.
func loadingStore(t *testing.T, n int) (s *Store, let func()) {
	t.Helper()
	o := Options{Dir: "/p0", FS: vfs.NewMem(), KeysAtOnce: 1}
	first := mustOpen(t, o)
	b := first.NewBatch()
	for i := range n {
		b.Put(nil, pending(nth(i), 1000))
	}
	mustCommit(t, b)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	loadingSlot <- struct{}{}
	held := true
	let = func() {
		if held {
			<-loadingSlot
			held = false
		}
	}
	t.Cleanup(let)
	return mustOpen(t, o), let
}

func nth(i int) trigger.Key { return trigger.Key(fmt.Sprintf("default/k%d", i)) }

// TestUseWhileLoading: a large store is used before its filter has read all keys, and afterwards the filter knows
// what came and went meanwhile.
func TestUseWhileLoading(t *testing.T) {
	const n = 5000
	s, let := loadingStore(t, n)
	get := func(i int) bool {
		t.Helper()
		v, err := s.Get(nth(i), nil)
		if err != nil {
			t.Fatal(err)
		}
		return v != nil
	}
	if !get(0) || !get(n-1) || get(n) {
		t.Error("it does not know its keys while it is loading")
	}
	b := s.NewBatch()
	b.Delete(pending(nth(0), 1000))
	b.Put(nil, pending(nth(n), 2000))
	moved := pending(nth(1), 1000)
	b.Put(&moved, pending(nth(1), 3000))
	mustCommit(t, b)
	b.Delete(pending(nth(n), 2000))
	b.Put(nil, pending(nth(0), 4000)) // once more
	b.Put(nil, pending(nth(n+1), 5000))
	mustCommit(t, b)
	b.Delete(pending(nth(2), 1000))
	mustCommit(t, b)
	if s.loading == nil {
		t.Fatal("it has read its keys though it may not yet")
	}
	let()
	<-s.loading.ended
	mustCommit(t, b)
	if s.loading != nil {
		t.Fatal("what was read is not used")
	}
	for i := range n + 2 {
		is := i != 2 && i != n
		if get(i) != is {
			t.Errorf("key %d: %v", i, !is)
		}
		if known, _ := s.knows(nth(i)); is && !known {
			t.Errorf("key %d is there, and the filter does not know it", i)
		}
	}
	wrong := 0
	for i := n + 2; i < 11*n; i++ {
		if known, _ := s.knows(nth(i)); known {
			wrong++
		}
	}
	if wrong > 9*n/100 {
		t.Errorf("of %d unknown keys the filter knows %d", 9*n, wrong)
	}
	if known, _ := s.knows(nth(2)); known {
		t.Error("a key that was deleted meanwhile is known")
	}
	if got := s.Stats(); got.Pending != n || got.FilterBytes != s.known.bytes() {
		t.Errorf("%+v, %d bytes of filter", got, s.known.bytes())
	}
}

// TestCloseWhileLoading: whether it waits for another store, or reads.
func TestCloseWhileLoading(t *testing.T) {
	for _, reading := range []bool{false, true} {
		s, let := loadingStore(t, 50_000)
		if reading {
			let()
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		let()
		select {
		case loadingSlot <- struct{}{}:
			<-loadingSlot
		default:
			t.Error("a closed store is still loading")
		}
	}
}

// TestDamageWhileLoading: keys that are missing are damage, also where that is found later.
func TestDamageWhileLoading(t *testing.T) {
	s, let := loadingStore(t, 100)
	s.loading.total++
	let()
	<-s.loading.ended
	b := s.NewBatch()
	b.Put(nil, pending(nth(1000), 1))
	if err := b.Commit(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%v", err)
	}
}
