package fair

import (
	"container/heap"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// lane is one tenant's due timers, earliest first. The wheel delivers them in order, so
// most just join the queue. A timer out of order goes to a heap, such as the next
// occurrence of a series that catches up. The earliest must be known exactly, because a
// successor reads the due index from there (cursor).
type lane struct {
	tenant string
	queue  dueQueue // in due order
	late   dueHeap  // came after a later one
}

// Before is the order of the due index.
func Before(a, b *statestore.DueKey) bool {
	return a.Due < b.Due || (a.Due == b.Due && a.Ref < b.Ref)
}

func (l *lane) len() int { return l.queue.n + len(l.late) }

func (l *lane) push(d statestore.DueKey) {
	if l.follows(&d) {
		l.queue.push(d)
		return
	}
	heap.Push(&l.late, d)
}

// follows reports whether a timer comes after all of the queue.
func (l *lane) follows(d *statestore.DueKey) bool {
	return l.queue.n == 0 || !Before(d, l.queue.last())
}

// take appends the first n to out, or all if there are fewer.
func (l *lane) take(out []statestore.DueKey, n int) []statestore.DueKey {
	if len(l.late) == 0 { // the usual case
		return l.queue.take(out, n)
	}
	for ; n > 0 && l.len() > 0; n-- {
		if len(l.late) == 0 || (l.queue.n > 0 && Before(l.queue.first(), &l.late[0])) {
			out = l.queue.take(out, 1)
			continue
		}
		out = append(out, heap.Pop(&l.late).(statestore.DueKey))
	}
	return out
}

// pass moves what is due before a time to another lane, and returns how much that was.
func (l *lane) pass(to *lane, before trigger.Instant) (n int) {
	had := l.len()
	for l.queue.n > 0 && l.queue.first().Due < before {
		if piece := l.queue.piece(); piece[len(piece)-1].Due < before && to.follows(&piece[0]) {
			to.queue.join(piece)
			l.queue.skip(len(piece))
			continue
		}
		to.push(*l.queue.first())
		l.queue.skip(1)
	}
	for len(l.late) > 0 && l.late[0].Due < before {
		to.push(heap.Pop(&l.late).(statestore.DueKey))
	}
	return had - l.len()
}

// first is the earliest due time. The lane must not be empty.
func (l *lane) first() trigger.Instant {
	if len(l.late) > 0 && (l.queue.n == 0 || l.late[0].Due < l.queue.first().Due) {
		return l.late[0].Due
	}
	return l.queue.first().Due
}

// dueQueue is first in, first out, in pieces. A herd that joins at once is not copied while
// the queue grows, and used pieces are freed.
type dueQueue struct {
	pieces [][]statestore.DueKey
	head   int // of the first piece
	n      int
}

// These are the length of the first piece, which doubles for the next, and the greatest
// length.
const (
	firstPiece   = 16
	longestPiece = 1024
)

func (q *dueQueue) first() *statestore.DueKey { return &q.pieces[0][q.head] }

func (q *dueQueue) last() *statestore.DueKey {
	piece := q.pieces[len(q.pieces)-1]
	return &piece[len(piece)-1]
}

func (q *dueQueue) push(d statestore.DueKey) {
	k := len(q.pieces) - 1
	if k < 0 || len(q.pieces[k]) == cap(q.pieces[k]) {
		size := firstPiece
		if k >= 0 {
			size = min(2*cap(q.pieces[k]), longestPiece)
		}
		q.pieces = append(q.pieces, make([]statestore.DueKey, 0, size))
		k++
	}
	q.pieces[k] = append(q.pieces[k], d)
	q.n++
}

// take appends the first n to out, or all if there are fewer.
func (q *dueQueue) take(out []statestore.DueKey, n int) []statestore.DueKey {
	for n > 0 && q.n > 0 {
		rest := q.piece()
		k := min(n, len(rest))
		out = append(out, rest[:k]...)
		q.skip(k)
		n -= k
	}
	return out
}

// piece is what the first piece holds.
func (q *dueQueue) piece() []statestore.DueKey { return q.pieces[0][q.head:] }

// skip drops the first k, which are in the first piece.
func (q *dueQueue) skip(k int) {
	q.head, q.n = q.head+k, q.n-k
	if q.head == len(q.pieces[0]) {
		q.pieces[0], q.pieces, q.head = nil, q.pieces[1:], 0
	}
}

// join adds a piece at the end. It is the queue's from then on.
func (q *dueQueue) join(piece []statestore.DueKey) {
	q.pieces, q.n = append(q.pieces, piece), q.n+len(piece)
}

// dueHeap holds timers for container/heap.
type dueHeap []statestore.DueKey

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return Before(&h[i], &h[j]) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(d any)        { *h = append(*h, d.(statestore.DueKey)) }

func (h *dueHeap) Pop() any {
	n := len(*h) - 1
	d := (*h)[n]
	*h = (*h)[:n]
	return d
}
