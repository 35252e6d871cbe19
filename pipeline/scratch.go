package pipeline

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/trigger"
)

// scratch is the memory of a partition's turns. What a turn encodes and
// produces lives until its transaction has ended: kgo holds a record until its
// promise, the store's batch until Commit, and nobody longer. So the next turn
// uses the same memory, and a turn of a thousand fires allocates nothing per
// record. After a turn that failed the partition is opened again, with a
// scratch of its own.
type scratch struct {
	bytes   slab[byte]
	records slab[kgo.Record]
	headers slab[kgo.RecordHeader]
	entries slab[entry]
}

// reset begins the next turn.
func (s *scratch) reset() {
	s.bytes.reset()
	s.records.reset()
	s.headers.reset()
	s.entries.reset()
}

// encode appends to the turn's memory; what it appended is the result.
func (s *scratch) encode(appendTo func([]byte) ([]byte, error)) ([]byte, error) {
	b, err := appendTo(s.bytes.room(encodeRoom))
	s.bytes.take(len(b))
	return b[:len(b):len(b)], err
}

// encodeRoom is more than most values need; a longer one is moved by append.
const encodeRoom = 1 << 10

// key copies a trigger's key.
func (s *scratch) key(k trigger.Key) []byte {
	b := append(s.bytes.room(len(k)), k...)
	s.bytes.take(len(b))
	return b[:len(b):len(b)]
}

// record is an empty record.
func (s *scratch) record() *kgo.Record {
	r := &s.records.room(1)[:1][0]
	s.records.take(1)
	*r = kgo.Record{}
	return r
}

// entry is a trigger that the turn touches.
func (s *scratch) entry(k trigger.Key) *entry {
	e := &s.entries.room(1)[:1][0]
	s.entries.take(1)
	*e = entry{key: k}
	return e
}

// kgoHeaders is the function of that name, in the turn's memory.
func (s *scratch) kgoHeaders(headers []trigger.Header) []kgo.RecordHeader {
	out := appendHeaders(s.headers.room(len(headers)), headers)
	s.headers.take(len(out))
	return out[:len(out):len(out)]
}

// slab hands out pieces of chunks, and the same chunks again after reset.
type slab[T any] struct {
	chunks [][]T
	chunk  int // the one in use
	used   int // of it
}

// What a chunk holds, and how many chunks outlive a turn: of bytes 2 MiB.
const (
	slabBytes  = 256 << 10
	slabItems  = 1024
	slabChunks = 8
)

// room is an empty piece with room for n items at least. It is not taken
// until take says how much of it was used.
func (s *slab[T]) room(n int) []T {
	for s.chunk < len(s.chunks) {
		if c := s.chunks[s.chunk]; len(c)-s.used >= n {
			return c[s.used:s.used:len(c)]
		}
		s.chunk, s.used = s.chunk+1, 0
	}
	s.chunks = append(s.chunks, make([]T, max(n, s.size())))
	return s.chunks[s.chunk][:0]
}

func (s *slab[T]) size() int {
	if s.ofBytes() {
		return slabBytes
	}
	return slabItems
}

// ofBytes says that the items hold no pointers.
func (s *slab[T]) ofBytes() bool {
	_, ok := any((*T)(nil)).(*byte)
	return ok
}

// take says that n items of the last room are in use. More than there was
// room for means that append went elsewhere: nothing of the chunk is.
func (s *slab[T]) take(n int) {
	if n <= len(s.chunks[s.chunk])-s.used {
		s.used += n
	}
}

// reset takes everything back, and lets go of what it points to. It keeps no
// more chunks than were in use, so that after a herd an idle partition is small.
func (s *slab[T]) reset() {
	touched := s.chunks[:min(s.chunk+1, len(s.chunks))]
	if n := len(touched); n > 0 && !s.ofBytes() {
		for _, c := range touched[:n-1] {
			clear(c)
		}
		clear(touched[n-1][:s.used])
	}
	kept := min(len(touched), slabChunks)
	clear(s.chunks[kept:])
	s.chunks = s.chunks[:kept]
	s.chunk, s.used = 0, 0
}
