package statestore

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestFill checks that a store in Fill collects sorted runs without merging any. Pebble must
// merge them at fillRuns, and when Fill ends.
func TestFill(t *testing.T) {
	s, err := Open(Options{Dir: t.TempDir() + "/p0", MemTableBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := s.NewBatch()
	run := func(n int) {
		for i := range 200 {
			b.Put(nil, benchRow(n*200+i))
		}
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := s.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	s.Fill()
	for n := range fillRuns - 2 {
		run(n)
	}
	if st := s.Stats(); st.Compactions != 0 || st.L0Sublevels < (fillRuns-2)/2 {
		t.Errorf("%d compactions and %d runs while it was filled", st.Compactions, st.L0Sublevels)
	}
	if err := s.Filled(); err != nil {
		t.Fatal(err)
	}
	merged(t, s)
	s.Fill()
	for n := range 2 * fillRuns {
		run(fillRuns + n)
	}
	for s.Stats().L0Sublevels > fillRuns {
		time.Sleep(time.Millisecond)
	}
	if err := s.Filled(); err != nil {
		t.Fatal(err)
	}
	merged(t, s)
	if want := int64(200 * (fillRuns - 2 + 2*fillRuns)); s.PendingCount() != want {
		t.Errorf("%d triggers, %d were put", s.PendingCount(), want)
	}
}

// merged waits until hardly any runs overlap. If nothing merges them, it waits for ever.
func merged(t *testing.T, s *Store) {
	t.Helper()
	for s.Stats().L0Sublevels >= 2 {
		time.Sleep(time.Millisecond)
	}
}

// TestBatchSort checks that ops are written in the order of their keys. It uses short keys, keys
// with long common prefixes, and repeated keys.
func TestBatchSort(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	prefixes := []string{"t", "tshared/", "tshared/longer-than-eight/", "t\x00\x00", ""}
	for range 500 {
		b := Batch{}
		var ops []op
		prefix := prefixes[r.IntN(len(prefixes))]
		for range r.IntN(40) {
			key := []byte(prefix)
			for range r.IntN(12) {
				key = append(key, "\x00\x01ab"[r.IntN(4)])
			}
			ops = append(ops, op{key: b.key(func(k []byte) []byte { return append(k, key...) })})
		}
		want := make([]uint32, len(ops))
		for i := range want {
			want[i] = uint32(i)
		}
		slices.SortStableFunc(want, func(x, y uint32) int {
			return bytes.Compare(b.bytes(ops[x].key),
				b.bytes(ops[y].key))
		})
		sorted, shared := b.sort(ops)
		for i, p := range sorted {
			if p.op != want[i] {
				t.Fatalf("%q: op %d at %d, want %d", prefix, p.op, i, want[i])
			}
			if !bytes.Equal(b.bytes(ops[p.op].key)[:shared], b.bytes(ops[0].key)[:shared]) {
				t.Fatalf("%q: not all keys share %d bytes", prefix, shared)
			}
		}
	}
}
