package pipeline

import (
	"container/heap"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// lane is one tenant's due timers, earliest first. The wheel lets them go in
// order, so most only join the queue; what comes out of order, as the next
// occurrence of a run that is caught up with does, goes to a heap beside it.
// That the earliest is known exactly matters: a successor reads the due index
// from there on (cursor).
type lane struct {
	tenant string
	queue  []statestore.DueKey // from head on, in order
	head   int
	late   dueHeap // joined after something later had
}

func before(a, b *statestore.DueKey) bool {
	return a.Due < b.Due || (a.Due == b.Due && a.Ref < b.Ref)
}

func (l *lane) len() int { return len(l.queue) - l.head + len(l.late) }

func (l *lane) push(d statestore.DueKey) {
	if n := len(l.queue); n == l.head || !before(&d, &l.queue[n-1]) {
		l.shift()
		l.queue = append(l.queue, d)
		return
	}
	heap.Push(&l.late, d)
}

// shift gives back the room of what has been taken, once it is half of all: a
// lane that is never empty must not grow.
func (l *lane) shift() {
	if l.head > 1024 && l.head > len(l.queue)/2 {
		n := copy(l.queue, l.queue[l.head:])
		clear(l.queue[n:])
		l.queue, l.head = l.queue[:n], 0
	}
}

// take appends the first n to out, fewer if there are no more.
func (l *lane) take(out []statestore.DueKey, n int) []statestore.DueKey {
	if len(l.late) == 0 { // nearly always
		n = min(n, len(l.queue)-l.head)
		out = append(out, l.queue[l.head:l.head+n]...)
		l.head += n
		return out
	}
	for ; n > 0 && l.len() > 0; n-- {
		if len(l.late) == 0 || (l.head < len(l.queue) && before(&l.queue[l.head], &l.late[0])) {
			out = append(out, l.queue[l.head])
			l.head++
			continue
		}
		out = append(out, heap.Pop(&l.late).(statestore.DueKey))
	}
	return out
}

// first is the earliest due time; the lane is not empty.
func (l *lane) first() trigger.Instant {
	if len(l.late) > 0 && (l.head == len(l.queue) || l.late[0].Due < l.queue[l.head].Due) {
		return l.late[0].Due
	}
	return l.queue[l.head].Due
}

// dueHeap is timers for container/heap.
type dueHeap []statestore.DueKey

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return before(&h[i], &h[j]) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(d any)        { *h = append(*h, d.(statestore.DueKey)) }

func (h *dueHeap) Pop() any {
	n := len(*h) - 1
	d := (*h)[n]
	*h = (*h)[:n]
	return d
}
