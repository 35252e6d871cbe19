package pipeline

import (
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
	late   []statestore.DueKey // a heap: joined after something later had
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
	l.late = append(l.late, d)
	for i := len(l.late) - 1; i > 0; {
		parent := (i - 1) / 2
		if !before(&l.late[i], &l.late[parent]) {
			return
		}
		l.late[i], l.late[parent] = l.late[parent], l.late[i]
		i = parent
	}
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
		out = append(out, l.late[0])
		l.dropLate()
	}
	return out
}

func (l *lane) dropLate() {
	n := len(l.late) - 1
	l.late[0] = l.late[n]
	l.late = l.late[:n]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < n; child++ {
			if before(&l.late[child], &l.late[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		l.late[i], l.late[least] = l.late[least], l.late[i]
		i = least
	}
}

// first is the earliest due time; the lane is not empty.
func (l *lane) first() trigger.Instant {
	if len(l.late) > 0 && (l.head == len(l.queue) || l.late[0].Due < l.queue[l.head].Due) {
		return l.late[0].Due
	}
	return l.queue[l.head].Due
}
