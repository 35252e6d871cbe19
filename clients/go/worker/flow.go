package worker

import "context"

// share is how much of Buffer one partition may fill. mu is held.
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

// pollMax bounds a poll, which may be of one partition alone.
func (w *worker) pollMax() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	records, _ := w.share()
	return min(records, maxPoll)
}

// flow pauses partitions that are full, and resumes those with room.
func (w *worker) flow() {
	w.pausing.Lock()
	defer w.pausing.Unlock()
	full, free := w.decideFlow()
	if len(full) > 0 {
		w.consumer.PauseFetchPartitions(full)
	}
	if len(free) > 0 {
		w.consumer.ResumeFetchPartitions(free)
	}
}

func (w *worker) decideFlow() (full, free map[string][]int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	full, free = map[string][]int32{}, map[string][]int32{}
	for tp, p := range w.parts {
		switch {
		case !p.paused && w.isFull(p):
			p.paused = true
			full[tp.topic] = append(full[tp.topic], tp.num)
		case p.paused && w.hasRoom(p):
			p.paused = false
			free[tp.topic] = append(free[tp.topic], tp.num)
		}
	}
	return full, free
}

// resumeLoop resumes while poll waits.
func (w *worker) resumeLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.room:
			w.flow()
		}
	}
}

// load is what is in memory.
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
