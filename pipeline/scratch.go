package pipeline

import (
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkarec"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// scratch is the memory of a partition's turns. What a turn encodes and produces is in use
// until its transaction has ended. kgo holds a record until its promise, the store's batch
// until Commit, and nothing holds it longer. So the next turn uses the same memory, and a
// turn of a thousand fires allocates nothing per record. After a failed turn the partition
// opens anew, with a new scratch.
type scratch struct {
	bytes   slab[byte]
	records slab[kgo.Record]
	headers slab[kgo.RecordHeader]
	entries slab[entry]
	states  slab[trigger.State]
	timers  slab[trigger.Timer]

	inputs slab[topics.Record] // commands and receipts
	given  slab[trigger.Header]
}

// reset begins the next turn.
func (s *scratch) reset() {
	s.bytes.reset()
	s.records.reset()
	s.headers.reset()
	s.entries.reset()
	s.states.reset()
	s.timers.reset()
	s.inputs.reset()
	s.given.reset()
}

// encode appends to the turn's memory and returns what was appended.
func (s *scratch) encode(appendTo func([]byte) ([]byte, error)) ([]byte, error) {
	b, err := appendTo(s.bytes.room(encodeRoom))
	s.bytes.take(len(b))
	return b[:len(b):len(b)], err
}

// encodeRoom is more than most values need; append moves a longer one.
const encodeRoom = 1 << 10

// key copies a trigger's key.
func (s *scratch) key(k trigger.Key) []byte {
	b := append(s.bytes.room(len(k)), k...)
	s.bytes.take(len(b))
	return b[:len(b):len(b)]
}

// record returns an empty record.
func (s *scratch) record() *kgo.Record { return s.records.one() }

// entry returns an empty entry of a trigger.
func (s *scratch) entry(k trigger.Key) *entry {
	e := s.entries.one()
	e.key = k
	return e
}

// state returns memory for a state that is read from the store. Its strings are not in the
// turn's memory, because outcomes and metrics keep them for longer.
func (s *scratch) state() *trigger.State { return s.states.one() }

// timersOf returns the timers that the due index must hold for st.
func (s *scratch) timersOf(st *trigger.State) []trigger.Timer {
	out := st.Timers(s.timers.room(1 + len(st.Live)))
	s.timers.take(len(out))
	return out[:len(out):len(out)]
}

// input converts a command or receipt for package topics.
func (s *scratch) input(r *kgo.Record) *topics.Record {
	rec := s.inputs.one()
	*rec = kafkarec.With(r, s.given.room(len(r.Headers)))
	s.given.take(len(rec.Headers))
	return rec
}

// due returns the key and the headers of f's due event.
func (s *scratch) due(f *trigger.Fire, env topics.DueEnv) (key []byte, headers []kgo.RecordHeader) {
	var given []trigger.Header // without their memory: they are copied here
	_, _ = s.encode(func(b []byte) ([]byte, error) {
		b, key, given = topics.AppendDue(b, s.given.room(dueHeaders), f, env)
		return b, nil
	})
	headers = kafkarec.AppendHeaders(s.headers.room(len(given)), given)
	s.headers.take(len(headers))
	return key, headers[:len(headers):len(headers)]
}

// dueHeaders is more headers than most due events have.
const dueHeaders = 32

// slab hands out pieces of chunks. After reset it hands out the same chunks.
type slab[T any] struct {
	chunks [][]T
	chunk  int // index of the chunk in use
	used   int // items in use of that chunk
	kept   int // chunks that outlive a turn: those that it used, and three quarters of what outlived the last one
}

// These are the size of a chunk, and how many chunks outlive a turn: about what the largest
// turn encodes. The first chunks are smaller, because most partitions never need more.
const (
	slabFirst  = 8 << 10
	slabGrowth = 2 // powers of two by which the next chunk is larger
	slabBytes  = 256 << 10
	slabChunks = 26
)

// room returns an empty piece with room for at least n items. They are in use only after
// take.
func (s *slab[T]) room(n int) []T {
	for s.chunk < len(s.chunks) {
		if c := s.chunks[s.chunk]; len(c)-s.used >= n {
			return c[s.used:s.used:len(c)]
		}
		s.chunk, s.used = s.chunk+1, 0
	}
	s.chunks = append(s.chunks, make([]T, max(n, s.size(len(s.chunks)))))
	return s.chunks[s.chunk][:0]
}

// size is how many items chunk i holds.
func (s *slab[T]) size(i int) int {
	var item T
	return min(slabFirst<<min(slabGrowth*i, 16), slabBytes) / int(unsafe.Sizeof(item))
}

// one returns the next item, zeroed.
func (s *slab[T]) one() *T {
	item := &s.room(1)[:1][0]
	s.take(1)
	return item
}

// ofBytes reports whether the items hold no pointers.
func (s *slab[T]) ofBytes() bool {
	_, ok := any((*T)(nil)).(*byte)
	return ok
}

// take marks n items of the last room as used. If n is more than the room, append has moved
// the data elsewhere, and no item of the chunk is used.
func (s *slab[T]) take(n int) {
	if n <= len(s.chunks[s.chunk])-s.used {
		s.used += n
	}
}

// reset takes all items back and drops what they point to. It keeps the chunks that were in use, and for a few
// turns those of larger turns before. So a small turn between large ones costs nothing, and an idle partition is
// small soon after a herd.
func (s *slab[T]) reset() {
	touched := s.chunks[:min(s.chunk+1, len(s.chunks))]
	if n := len(touched); n > 0 && !s.ofBytes() {
		for _, c := range touched[:n-1] {
			clear(c)
		}
		clear(touched[n-1][:s.used])
	}
	s.kept = min(max(len(touched), s.kept*3/4), slabChunks, len(s.chunks))
	clear(s.chunks[s.kept:])
	s.chunks = s.chunks[:s.kept]
	s.chunk, s.used = 0, 0
}
