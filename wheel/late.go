package wheel

// late holds what was added behind the hand: a run of entries that came in
// ascending order, and a 4-ary heap of those that did not.
type late struct {
	run  []entry
	pos  int // entries of run before it are used up and cleared
	heap []entry
}

// keepLate is how many slots of the run and of the heap are kept for reuse
// once they are empty.
const keepLate = 1 << 14

func (l *late) len() int    { return len(l.run) - l.pos + len(l.heap) }
func (l *late) empty() bool { return l.pos == len(l.run) && len(l.heap) == 0 }

func (l *late) add(e entry) {
	if n := len(l.run); n == l.pos || !e.less(l.run[n-1]) {
		l.extend(e)
		return
	}
	l.heap = append(l.heap, e)
	l.up(len(l.heap) - 1)
}

// extend appends to the run; when it would grow, what is used up makes room
// first, so that a run which never empties does not grow for ever.
func (l *late) extend(e entry) {
	if len(l.run) == cap(l.run) && l.pos > len(l.run)/2 {
		n := copy(l.run, l.run[l.pos:])
		clear(l.run[n:])
		l.run, l.pos = l.run[:n], 0
	}
	l.run = append(l.run, e)
}

// peek is the earliest entry; late must not be empty.
func (l *late) peek() entry {
	if l.fromRun() {
		return l.run[l.pos]
	}
	return l.heap[0]
}

// pop removes what peek returned.
func (l *late) pop() {
	if l.fromRun() {
		l.popRun()
		return
	}
	l.popHeap()
}

func (l *late) fromRun() bool {
	return l.pos < len(l.run) && (len(l.heap) == 0 || !l.heap[0].less(l.run[l.pos]))
}

func (l *late) popRun() {
	l.run[l.pos] = entry{}
	if l.pos++; l.pos < len(l.run) {
		return
	}
	l.run, l.pos = reuse(l.run), 0
}

func (l *late) popHeap() {
	n := len(l.heap) - 1
	l.heap[0] = l.heap[n]
	l.heap[n] = entry{}
	l.heap = l.heap[:n]
	if n == 0 {
		l.heap = reuse(l.heap)
		return
	}
	l.down()
}

// reuse empties a slice of cleared entries, or drops it when it is large.
func reuse(s []entry) []entry {
	if cap(s) > keepLate {
		return nil
	}
	return s[:0]
}

func (l *late) up(i int) {
	h := l.heap
	e := h[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !e.less(h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}

func (l *late) down() {
	h := l.heap
	e := h[0]
	i := 0
	for {
		best := 4*i + 1
		if best >= len(h) {
			break
		}
		for c := best + 1; c < min(4*i+5, len(h)); c++ {
			if h[c].less(h[best]) {
				best = c
			}
		}
		if !h[best].less(e) {
			break
		}
		h[i] = h[best]
		i = best
	}
	h[i] = e
}
