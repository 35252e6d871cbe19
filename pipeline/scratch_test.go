package pipeline

import (
	"bytes"
	"testing"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/trigger"
)

// TestScratch: pieces of a turn never overlap, however long; the next turn
// begins with the same memory and keeps nothing of the last alive.
func TestScratch(t *testing.T) {
	var s scratch
	for turn := range 3 {
		s.reset()
		var pieces [][]byte
		for i := range 3000 {
			n := (i * 97) % 1500
			if i%500 == 499 {
				n = slabBytes + i // longer than a chunk
			}
			fill := byte(i + turn)
			b, err := s.encode(func(b []byte) ([]byte, error) {
				return append(b, bytes.Repeat([]byte{fill}, n)...),
					nil
			})
			if err != nil || len(b) != n {
				t.Fatalf("piece %d: %d bytes, %v", i, len(b), err)
			}
			pieces = append(pieces, b)
		}
		for i, b := range pieces {
			if bytes.Count(b, []byte{byte(i + turn)}) != len(b) {
				t.Fatalf("turn %d: piece %d was overwritten", turn, i)
			}
		}
	}
}

func TestScratchLetsGo(t *testing.T) {
	var s scratch
	for range s.records.size(slabChunks)*slabChunks + 5000 {
		s.record().Value = []byte("held")
		s.entry(trigger.Key("k")).state = &trigger.State{}
	}
	s.reset()
	if n := len(s.records.chunks); n != slabChunks {
		t.Errorf("%d chunks of records kept, want %d", n, slabChunks)
	}
	for _, c := range s.records.chunks {
		for i := range c {
			if c[i].Value != nil {
				t.Fatal("a record of the last turn is still held")
			}
		}
	}
	for turn, want := range []int{19, 14, 10, 7, 5, 3, 2, 1, 1} {
		s.record()
		s.reset()
		if n := len(s.records.chunks); n != want {
			t.Errorf("%d chunks of records kept after %d small turns, want %d", n, turn+1, want)
		}
	}
}

// TestScratchBeginsSmall: a partition that fires a few triggers a second holds no memory for
// the turns of a herd.
func TestScratchBeginsSmall(t *testing.T) {
	var s scratch
	for range 10 {
		s.record()
		s.state()
		s.entry("k")
		s.key("k")
	}
	held := len(s.bytes.chunks[0]) + len(s.records.chunks[0])*int(unsafe.Sizeof(kgo.Record{})) +
		len(s.states.chunks[0])*int(unsafe.Sizeof(trigger.State{})) +
		len(s.entries.chunks[0])*int(unsafe.Sizeof(entry{}))
	if n := len(s.records.chunks); held > 4*slabFirst || n != 1 {
		t.Errorf("ten items of four kinds take %d bytes, records %d chunks; want at most %d and 1",
			held, n, 4*slabFirst)
	}
}
