package pipeline

import (
	"container/heap"
	"math"

	"github.com/waterclock/waterclock/trigger"
)

// dueTimes holds due times, earliest first, each once where they come in a row.
type dueTimes struct{ heap instants }

func (d *dueTimes) add(due trigger.Instant) {
	if n := len(d.heap); n > 0 && (d.heap[0] == due || d.heap[n-1] == due) {
		return
	}
	heap.Push(&d.heap, due)
}

// first is the earliest, or later than all instants if there is none.
func (d *dueTimes) first() trigger.Instant {
	if len(d.heap) == 0 {
		return math.MaxInt64
	}
	return d.heap[0]
}

// passed forgets those up to an instant.
func (d *dueTimes) passed(to trigger.Instant) {
	for d.first() <= to {
		heap.Pop(&d.heap)
	}
}

// instants is for container/heap.
type instants []trigger.Instant

func (h instants) Len() int           { return len(h) }
func (h instants) Less(i, j int) bool { return h[i] < h[j] }
func (h instants) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *instants) Push(at any)       { *h = append(*h, at.(trigger.Instant)) }

func (h *instants) Pop() any {
	n := len(*h) - 1
	at := (*h)[n]
	*h = (*h)[:n]
	return at
}
