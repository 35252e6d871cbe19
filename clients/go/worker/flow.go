package worker

import (
	"context"
	"time"
)

// share returns how much of Buffer one partition may fill. mu is held.
func (w *worker) share() (records int, bytes int64) {
	n := max(len(w.parts), 1)
	return max(w.bufferRecords/n, minShareRecords), max(w.bufferBytes/int64(n), minShareBytes)
}

func (w *worker) isFull(p *partition) bool {
	records, bytes := w.share()
	return p.records >= records || p.bytes >= bytes
}

func (w *worker) hasRoom(p *partition) bool {
	records, bytes := w.share()
	return p.records <= records/2 && p.bytes <= bytes/2
}

// pollMax bounds a poll. All of its records may be from one partition.
func (w *worker) pollMax() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	records, _ := w.share()
	return min(records, maxPoll)
}

// pauseAfter is how long to stop polling because a partition is full, before it is paused and the
// others continue.
//
// A pause is expensive: the client discards what it has fetched of the partition, up to a whole
// fetch, and fetches it a second time later. Not polling costs nothing, and a busy worker frees a
// share within about ten milliseconds.
const pauseAfter = 50 * time.Millisecond

// pauseAfterHigh replaces pauseAfter if there is a high lane, because its events wait as long.
const pauseAfterHigh = 5 * time.Millisecond

// makeRoom waits for pauseAfter until every full partition has room. Then it pauses those that
// are still full.
func (w *worker) makeRoom(ctx context.Context) {
	if !w.markFull() {
		return
	}
	t := time.NewTimer(w.pauseAfter())
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			w.flow(true)
			return
		case <-w.freed:
			if !w.markFull() {
				return
			}
		}
	}
}

func (w *worker) pauseAfter() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.parts {
		if p.lane == laneHigh {
			return pauseAfterHigh
		}
	}
	return pauseAfter
}

// markFull reports whether a partition that is being fetched is full. A full partition counts as
// full until it has room.
func (w *worker) markFull() (full bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.parts {
		p.full = !p.paused && (p.full && !w.hasRoom(p) || w.isFull(p))
		full = full || p.full
	}
	return full
}

// flow resumes partitions that have room. If pause is true, it also pauses those that are full.
func (w *worker) flow(pause bool) {
	w.pausing.Lock()
	defer w.pausing.Unlock()
	full, free := w.decideFlow(pause)
	if len(full) > 0 {
		w.consumer.PauseFetchPartitions(full)
	}
	if len(free) > 0 {
		w.consumer.ResumeFetchPartitions(free)
	}
}

func (w *worker) decideFlow(pause bool) (full, free map[string][]int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	full, free = map[string][]int32{}, map[string][]int32{}
	for tp, p := range w.parts {
		switch {
		case pause && !p.paused && !w.hasRoom(p) && (p.full || w.isFull(p)):
			p.paused, p.full = true, false
			full[tp.topic] = append(full[tp.topic], tp.num)
		case p.paused && w.hasRoom(p):
			p.paused = false
			free[tp.topic] = append(free[tp.topic], tp.num)
		}
	}
	return full, free
}

// resumeLoop resumes partitions while poll waits. It also makes room if a handler hangs.
func (w *worker) resumeLoop(ctx context.Context) {
	tick := time.NewTicker(hangsAfter)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.room:
			w.flow(false)
		case <-tick.C:
			if w.shed() {
				signal(w.wake)
			}
		}
	}
}

// hangsAfter is how long a handler must run before others of its key, in a full partition, are
// answered with Overflow.
const hangsAfter = time.Second

// slowAfter is how long an event of a tenant waits, in a full partition, before most events of those that
// fill it are answered with Slow. With the default Buffer, a tenant with 2,000 events a second is not
// slow.
const slowAfter = 5 * time.Second

// shed makes room in partitions that are paused because they are full.
func (w *worker) shed() (some bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	for _, p := range w.parts {
		if p.paused && w.bulkhead.Overflow != nil {
			w.queue.shed(p, now.Add(-hangsAfter).UnixNano())
		}
		if p.paused && w.bulkhead.Slow != nil {
			w.queue.thin(p, now.Add(-slowAfter).UnixNano())
		}
	}
	return len(w.queue.overflow) > 0
}

// load returns what is in memory.
func (w *worker) load() Load {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := Load{
		Running: w.running, Ready: w.queue.waiting, Pending: w.pending, Assigned: len(w.parts),
		ClockAhead: w.clock.ahead(w.now()),
	}
	for _, p := range w.parts {
		l.Buffered += p.records
		l.Bytes += p.bytes
		if p.paused {
			l.Paused++
		}
		if !p.loaded {
			l.Held++
		}
	}
	return l
}
