package worker

import "github.com/twmb/franz-go/pkg/kgo"

// mark is one polled record of a partition.
type mark struct {
	offset int64
	epoch  int32
	done   bool
}

// tracker finds the offset up to which everything in a partition is done. Only that offset may be
// committed. Records may be done in any order.
type tracker struct {
	open      fifo[*mark] // in the order of offsets; the first one is not done
	next      kgo.EpochOffset
	committed int64
}

// noOffset means that nothing in a partition is done yet.
var noOffset = kgo.EpochOffset{Epoch: -1, Offset: -1}

// add adds a polled record. Offsets rise, but not always by 1, because markers and aborted
// records are not visible.
func (t *tracker) add(m *mark) { t.open.push(m) }

// finish is called when a record needs no more work.
func (t *tracker) finish(m *mark) {
	m.done = true
	for t.open.len() > 0 && t.open.first().done {
		m := t.open.pop()
		t.next = kgo.EpochOffset{Epoch: m.epoch, Offset: m.offset + 1}
	}
}

// commit returns the offset to commit. ok is false if it is committed already.
func (t *tracker) commit() (at kgo.EpochOffset, ok bool) {
	return t.next, t.next.Offset > t.committed
}

// fifo is a queue that reuses its memory.
type fifo[T any] struct {
	items []T
	head  int
}

func (f *fifo[T]) len() int { return len(f.items) - f.head }
func (f *fifo[T]) first() T { return f.items[f.head] }
func (f *fifo[T]) all() []T { return f.items[f.head:] }
func (f *fifo[T]) push(v T) { f.items = append(f.items, v) }

func (f *fifo[T]) pop() T {
	var zero T
	v := f.items[f.head]
	f.items[f.head] = zero
	f.head++
	if f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	} else if f.head >= 1024 && 2*f.head >= len(f.items) {
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	return v
}

func (f *fifo[T]) popLast() T {
	var zero T
	last := len(f.items) - 1
	v := f.items[last]
	f.items[last] = zero
	f.items = f.items[:last]
	return v
}

// filter keeps the items for which keep returns true.
func (f *fifo[T]) filter(keep func(T) bool) {
	kept := f.items[:0]
	for _, v := range f.items[f.head:] {
		if keep(v) {
			kept = append(kept, v)
		}
	}
	clear(f.items[len(kept):])
	f.items, f.head = kept, 0
}
