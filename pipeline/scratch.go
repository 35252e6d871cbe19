package pipeline

import (
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
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
func (s *scratch) record() *kgo.Record { return s.records.one() }

// entry is a trigger that the turn touches.
func (s *scratch) entry(k trigger.Key) *entry {
	e := s.entries.one()
	e.key = k
	return e
}

// state is room for one that is read from the store. Its texts are not in the
// turn's memory: who asks for an outcome, and metrics, keep them for longer.
func (s *scratch) state() *trigger.State { return s.states.one() }

// timersOf is what the due index must hold for st.
func (s *scratch) timersOf(st *trigger.State) []trigger.Timer {
	out := st.Timers(s.timers.room(1 + len(st.Live)))
	s.timers.take(len(out))
	return out[:len(out):len(out)]
}

// input is a command or receipt as topics see it.
func (s *scratch) input(r *kgo.Record) *topics.Record {
	rec := s.inputs.one()
	*rec = recordWith(r, s.given.room(len(r.Headers)))
	s.given.take(len(rec.Headers))
	return rec
}

// due is the key and the headers of f's due event.
func (s *scratch) due(f *trigger.Fire, env topics.DueEnv) (key []byte, headers []kgo.RecordHeader) {
	var given []trigger.Header // their room is not taken: they are copied here
	_, _ = s.encode(func(b []byte) ([]byte, error) {
		b, key, given = topics.AppendDue(b, s.given.room(dueHeaders), f, env)
		return b, nil
	})
	headers = appendHeaders(s.headers.room(len(given)), given)
	s.headers.take(len(headers))
	return key, headers[:len(headers):len(headers)]
}

// dueHeaders is more than most due events have.
const dueHeaders = 32

// slab hands out pieces of chunks, and the same chunks again after reset.
type slab[T any] struct {
	chunks [][]T
	chunk  int // the one in use
	used   int // of it
}

// What a chunk takes, and how many chunks outlive a turn: about what the
// largest turn encodes.
const (
	slabBytes  = 256 << 10
	slabChunks = 24
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

// size is how many items a chunk holds.
func (s *slab[T]) size() int {
	var item T
	return slabBytes / int(unsafe.Sizeof(item))
}

// one is the next item, as zero as a new one.
func (s *slab[T]) one() *T {
	item := &s.room(1)[:1][0]
	s.take(1)
	return item
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
