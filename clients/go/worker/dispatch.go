package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// errAbandoned is the cancellation cause for a handler whose answer is no longer needed.
var errAbandoned = errors.New("worker: the partition has moved, or the worker is stopping")

// batchLinger is how long to wait for a batch while nearly all handlers are busy. Otherwise each
// handler that ends would start a batch of one.
const batchLinger = 5 * time.Millisecond

// started is an event whose handler will be called next.
type started struct {
	it  *item
	ctx context.Context //nolint:containedctx // passed on from pick to execute, one of many
}

// dispatchLoop starts handlers until helpers ends. base is the parent of each handler's context.
func (w *worker) dispatchLoop(helpers, base context.Context) {
	for {
		select {
		case <-helpers.Done():
			return
		case <-w.wake:
		}
		for w.dispatch(helpers, base) {
		}
	}
}

// dispatch starts one batch. It returns false if nothing can start.
func (w *worker) dispatch(helpers, base context.Context) bool {
	if w.onBatch != nil && w.busy() {
		pause(helpers, batchLinger)
	}
	batch, ended := w.pick(base)
	w.answerOverflow()
	for _, it := range ended {
		w.answer(it, Result{Outcome: OutcomeSuppressed, Code: CodeExpired})
		w.finish(it)
	}
	if len(batch) == 0 {
		return len(ended) > 0
	}
	value, failed := w.callHook(base, batch)
	for _, s := range batch {
		switch {
		case w.dropAbandoned(s.ctx, s.it): // while the hook ran
		case failed != nil:
			go w.end(s.it, *failed)
		default:
			go w.execute(context.WithValue(s.ctx, eventKey, s.it.event), s.it, value)
		}
	}
	return true
}

// busy reports whether more than three quarters of the handlers are running.
func (w *worker) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.queue.waiting > 0 && w.concurrency-w.running < max(w.concurrency/4, 1)
}

// pick takes as many events as may start now. It returns expired events separately, and finishes
// events that need no handling.
func (w *worker) pick(base context.Context) (batch []started, expired []*item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	most := w.concurrency
	if w.onBatch != nil {
		most = min(most, w.batchMax)
	}
	if w.ending {
		return nil, nil
	}
	brokers := w.clock.now(w.now())
	for len(batch) < most && len(expired) < maxPoll && w.running < w.concurrency {
		it := w.queue.next()
		if it == nil {
			break
		}
		if w.skip(it, brokers) {
			continue
		}
		w.running++
		it.part.running[it] = struct{}{}
		if e := it.event.Expires; !e.IsZero() && brokers.After(e) {
			expired = append(expired, it)
			continue
		}
		ctx, cancel := context.WithCancelCause(base)
		it.cancel, it.started = cancel, w.now().UnixNano()
		batch = append(batch, started{it, ctx})
	}
	return batch, expired
}

// skip finishes an event that needs no handling. If its answer is a receipt that the brokers do
// not have yet, its offset waits for that receipt. mu is held.
func (w *worker) skip(it *item, brokers time.Time) bool {
	reason := w.known(it, brokers)
	if reason == SkipNot {
		return false
	}
	w.metrics.Skipped(reason)
	w.queue.finish(it)
	if u := w.unacked[it.event.ID]; u.check(it.event) != SkipNot {
		u.copies = append(u.copies, it)
		it.part.pending++
		return true
	}
	w.done(it)
	return true
}

// known returns why an event needs no handling. mu is held.
func (w *worker) known(it *item, brokers time.Time) SkipReason {
	if reason := w.memoryOf(it.event).check(it.event); reason != SkipNot {
		return reason
	}
	if reason := w.unacked[it.event.ID].check(it.event); reason != SkipNot {
		return reason
	}
	if by := it.event.ReceiptBy; !by.IsZero() && brokers.After(by) {
		return SkipReceiptBy
	}
	return SkipNot
}

// answerOverflow answers events that exceed their bulkhead. An answer may release the next event
// of the same key.
func (w *worker) answerOverflow() {
	for {
		w.mu.Lock()
		items := w.queue.takeOverflow()
		live := items[:0]
		for _, it := range items {
			if it.part.gone {
				w.queue.finish(it)
				continue
			}
			if w.skip(it, w.clock.now(w.now())) {
				continue
			}
			w.running++
			it.part.running[it] = struct{}{}
			live = append(live, it)
		}
		w.mu.Unlock()
		if len(items) == 0 {
			return
		}
		for _, it := range live {
			w.end(it, w.overflowResult(it))
		}
	}
}

// overflowResult returns the answer for an event that exceeds its bulkhead, or is of a slow tenant.
func (w *worker) overflowResult(it *item) Result {
	say := w.bulkhead.Overflow
	if it.slow {
		say = w.bulkhead.Slow
	}
	r := Call(context.Background(), func(_ context.Context, e *DueEvent) (Result, error) {
		return say(e), nil
	}, it.event)
	w.metrics.Handled(r.Outcome, r.Code, 0)
	return r
}

// callHook calls OnBatch. If it panics, failed is the answer to the whole batch.
func (w *worker) callHook(base context.Context, batch []started) (value any, failed *Result) {
	if w.onBatch == nil {
		return nil, nil
	}
	events := make([]*DueEvent, len(batch))
	for i, s := range batch {
		events[i] = s.it.event
	}
	ctx, cancel := context.WithTimeout(base, w.handlerTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			w.log.Error("OnBatch panicked", "panic", p, "stack", string(debug.Stack()))
			failed = &Result{Outcome: OutcomeRetry, Code: CodePanic, Detail: "OnBatch panicked"}
		}
	}()
	return w.onBatch(ctx, events), nil
}

// dropAbandoned drops an event that another worker has by now. Without a receipt its offset is not committed.
func (w *worker) dropAbandoned(ctx context.Context, it *item) bool {
	if !isAbandoned(ctx) {
		return false
	}
	w.drop(it)
	return true
}

func isAbandoned(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errAbandoned) }

func (w *worker) drop(it *item) {
	w.metrics.Abandoned()
	w.finish(it)
}

// execute calls the handler and answers the event.
func (w *worker) execute(ctx context.Context, it *item, batch any) {
	if batch != nil {
		ctx = WithBatchValue(ctx, batch)
	}
	abandoned := ctx
	ctx, stop := context.WithTimeout(ctx, w.handlerTimeout)
	defer stop()
	ctx, endSpan := w.tracer.Start(ctx, it.event)
	begin := time.Now()
	r, f := call(ctx, w.handle, it.event)
	took := time.Since(begin)
	if f.panicked != nil {
		w.log.Error("the handler panicked; its due event is retried", "ce_id", it.event.ID,
			"panic", fmt.Sprint(f.panicked), "stack", f.stack)
	}
	if (f.err != nil || f.panicked != nil) && isAbandoned(abandoned) {
		endSpan(Result{Outcome: OutcomeAbandoned})
		w.drop(it)
		return
	}
	endSpan(r)
	w.metrics.Handled(r.Outcome, r.Code, took)
	w.end(it, r)
}

// end answers an event and lets the next one of its key start.
func (w *worker) end(it *item, r Result) {
	w.answer(it, r)
	w.finish(it)
}

// finish releases what a running event held.
func (w *worker) finish(it *item) {
	if it.cancel != nil { // expired ones and overflow have no context
		it.cancel(nil)
	}
	w.mu.Lock()
	w.running--
	delete(it.part.running, it)
	w.queue.finish(it)
	w.mu.Unlock()
	signal(w.wake)
}

// answer writes the receipt. Before the next event of the same key starts, the receipt is known
// and the producer has queued it.
func (w *worker) answer(it *item, r Result) {
	w.mu.Lock()
	receipt := it.event.Receipt(w.channel, r, w.clock.now(w.now()))
	u := &unacked{history: newHistory(receipt.Outcome, receipt.Attempt, receipt.Postponed, unknownOffset)}
	if w.memoryOf(it.event) != nil {
		w.unacked[receipt.DueID] = u
	}
	w.pending++
	it.part.pending++
	w.mu.Unlock()
	w.receipts.write(it.event.Key, receipt.Append(nil), func(partition int32, offset int64) {
		w.acked(it, &receipt, u, partition, offset)
	})
}

// acked is called once the brokers have a receipt. Of one in another partition, which the engine
// forwards, the offset says nothing.
func (w *worker) acked(it *item, receipt *Receipt, u *unacked, partition int32, offset int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if partition != w.receiptsOf(it.event) || offset < 0 {
		offset = unknownOffset
	}
	if m := w.memoryOf(it.event); m != nil {
		m.add(receipt.DueID, receipt.Outcome, receipt.Attempt, receipt.Postponed, offset)
	}
	if w.unacked[receipt.DueID] == u {
		delete(w.unacked, receipt.DueID)
	}
	w.pending--
	for _, it := range append(u.copies, it) {
		it.part.pending--
		w.done(it)
	}
}

// failure describes what went wrong in a handler.
type failure struct {
	err      error
	panicked any
	stack    string
}

// Call calls a handler like Run: errors, panics and the zero Result become retries. It is for
// tests; package workertest is more convenient.
func Call(ctx context.Context, handle Handler, e *DueEvent) Result {
	r, _ := call(context.WithValue(ctx, eventKey, e), handle, e)
	return r
}

func call(ctx context.Context, handle Handler, e *DueEvent) (r Result, f failure) {
	defer func() {
		if p := recover(); p != nil {
			f = failure{panicked: p, stack: string(debug.Stack())}
			r = Result{Outcome: OutcomeRetry, Code: CodePanic, Detail: clip(fmt.Sprint(p), maxDetail)}
		}
	}()
	r, err := handle(ctx, e)
	switch {
	case err == nil:
		return r.checked(), f
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		r = Result{Outcome: OutcomeRetry, Code: CodeTimeout}
	default:
		r = Result{Outcome: OutcomeRetry, Code: CodeError}
	}
	r.Detail = clip(err.Error(), maxDetail)
	return r, failure{err: err}
}
