package worker

import (
	"context"
	"fmt"
)

// drain ends the worker within DrainTimeout. Nothing new starts. Handlers get three quarters of
// the time, receipts another eighth, and the last commit the rest.
func (w *worker) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.drainTimeout)
	defer cancel()
	parts := w.closeAll()
	work, stop := context.WithTimeout(ctx, w.drainTimeout*7/8)
	defer stop()
	if !w.waitUntil(work, w.drainTimeout*3/4, func() bool { return w.running == 0 }) {
		w.abandon(parts)
	}
	// Handlers that reacted to the end of their contexts, and receipts, also of partitions that have moved.
	w.waitUntil(work, w.drainTimeout, func() bool { return w.running == 0 && w.pending == 0 })
	running, pending := w.unfinished()
	w.commit(ctx, parts)
	w.leave(ctx)
	w.receipts.close()
	if running+pending > 0 {
		return fmt.Errorf("%w: after %v, %d handlers ran and %d receipts were not written; "+
			"these due events are delivered again", ErrUnfinished, w.drainTimeout, running, pending)
	}
	return nil
}

func (w *worker) closeAll() []*partition {
	w.mu.Lock()
	w.ending = true
	for _, p := range w.parts {
		p.gone = true
	}
	w.queue.purge()
	w.mu.Unlock()
	return w.assignedParts()
}

func (w *worker) unfinished() (running, pending int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running, w.pending
}

// leave leaves the group, so that other members get the partitions at once. If the group does not
// answer, they get them after the session timeout.
func (w *worker) leave(ctx context.Context) {
	w.mu.Lock()
	w.leaving = true
	w.mu.Unlock()
	left := make(chan struct{})
	go func() {
		defer close(left)
		w.consumer.CloseAllowingRebalance()
	}()
	select {
	case <-left:
	case <-ctx.Done():
	}
}
