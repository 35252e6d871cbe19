package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/waterclock/waterclock/internal/forecast"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// ownership is one partition for as long as the group assigns it to this process. It opens
// the partition, runs it, and opens it anew after every failure. The group only hints at
// who should own a partition. The real owner initialised the partition's transactional id
// last: the brokers fence all others.
type ownership struct {
	cancel     context.CancelFunc
	turnsEnded chan struct{} // closed after the last turn
	closed     chan struct{} // closed when the store is closed, too
	kept       *pipeline.Kept

	mu           sync.Mutex
	current      *pipeline.View  // nil while it opens
	lastStatus   pipeline.Status // status of the view before current
	lastUnfired  trigger.Instant // due time of its next timer
	failure      error
	refused      string            // why the partition must not be opened; "": nothing is known against it
	standbyStore *statestore.Store // store that our standby left open

	expects [2]atomic.Pointer[forecast.Picture] // by place in forecast.Frames; nil: not made yet
}

// onAssigned begins to open and run partitions that the group has assigned to this process.
func (e *Engine) onAssigned(partitions []int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range partitions {
		if e.owned[id] != nil || e.stopping {
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		own := &ownership{
			cancel: cancel, turnsEnded: make(chan struct{}), closed: make(chan struct{}),
			kept: e.process.NewKept(id),
		}
		e.owned[id] = own
		e.holdLocked(id)
		go func() {
			defer close(own.closed)
			defer e.release(id)
			own.standbyStore = e.stopTail(id) // no other goroutine uses own yet
			e.run(ctx, own, id)
			own.markTurnsEnded()
			own.closeStandbyStore()
		}()
	}
}

// onRevoked ends the turns of partitions and waits for that, because the rebalance must not
// go on before. It does not wait for stores to close: a slow disk could outlast the
// rebalance timeout and end our membership.
func (e *Engine) onRevoked(partitions []int32) {
	var deadline <-chan struct{}
	if e.Disk().Full { // a turn may wait for room; a member with room fences us
		ctx, cancel := context.WithTimeout(context.Background(), fullDiskTimeout)
		defer cancel()
		deadline = ctx.Done()
	}
	e.await(e.stopOwning(partitions), (*ownership).untilTurnsEnded, deadline)
}

// fullDiskTimeout is less than the rebalance timeout.
const fullDiskTimeout = 3 * time.Second

// onLost handles partitions that the group took from us without notice. Usually the brokers
// are away, and nobody else owns these partitions either. So this process still reports
// what waits in them, until it is a member as before.
func (e *Engine) onLost(partitions []int32) {
	e.mu.Lock()
	for _, id := range partitions {
		if own := e.owned[id]; own != nil {
			e.lost[id] = own
		}
	}
	e.mu.Unlock()
	e.onRevoked(partitions)
}

// onRejoined ends the reports that onLost began.
func (e *Engine) onRejoined() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.Disk().Full { // on a full disk forgetTaken ends them
		clear(e.lost)
	}
}

// stopOwning ends ownerships and returns them. They may still be closing.
func (e *Engine) stopOwning(partitions []int32) map[int32]*ownership {
	e.mu.Lock()
	defer e.mu.Unlock()
	ending := map[int32]*ownership{}
	for _, id := range partitions {
		if own := e.owned[id]; own != nil {
			ending[id] = own
			delete(e.owned, id)
			own.cancel()
		}
	}
	return ending
}

// await waits until the event of every ownership has come, or until deadline is closed. It logs
// which partitions take long, and at which step.
func (e *Engine) await(ending map[int32]*ownership, event func(*ownership) <-chan struct{}, deadline <-chan struct{}) {
	tick := time.NewTicker(closeWarn)
	defer tick.Stop()
	for id, own := range ending {
		for happened := false; !happened; {
			select {
			case <-event(own):
				happened = true
			case <-deadline:
				return
			case <-tick.C:
				e.process.Logger.Warn("a partition takes long to close", "partition", id, "step", own.kept.Doing())
			}
		}
	}
}

// untilTurnsEnded and untilClosed are events for await.
func (o *ownership) untilTurnsEnded() <-chan struct{} { return o.turnsEnded }
func (o *ownership) untilClosed() <-chan struct{}     { return o.closed }

// markTurnsEnded closes turnsEnded. Only the goroutine that runs the turns calls it.
func (o *ownership) markTurnsEnded() {
	select {
	case <-o.turnsEnded:
	default:
		close(o.turnsEnded)
	}
}

// closeWarn is the time between two log lines about a partition that does not close.
const closeWarn = 5 * time.Second

// run opens and runs a partition until the group takes it away.
func (e *Engine) run(ctx context.Context, own *ownership, id int32) {
	log := e.process.Logger.With("partition", id)
	pause, assigned := backoff{}, time.Now()
	for ctx.Err() == nil {
		began := time.Now()
		err := e.openAndRun(ctx, own, id)
		e.process.Recovery().QuarantineDamaged(id, log, err)
		if ctx.Err() != nil {
			return
		}
		if pipeline.EndsProcess(err) {
			e.fail(err)
		}
		pausing := pause.next(err, time.Since(began))
		reason := pipeline.Refusal(err)
		own.refuse(reason, err)
		if reason != "" {
			own.kept.Step(pipeline.StepRefused)
			log.Error("this partition is refused; the others go on", "reason", reason, "error", err)
			if reason == pipeline.RefusedWriter {
				<-ctx.Done() // each try would fence the other owner, and the other would fence us
				return
			}
			wait.For(ctx, refusedRetry)
			continue
		}
		if time.Since(assigned) < unknownFor && errors.Is(err, kerr.UnknownTopicOrPartition) {
			log.Debug("not all brokers know the topics yet; opening the partition again", "error", err)
			pausing = 200 * time.Millisecond
		} else if errors.Is(err, statestore.ErrInUse) {
			log.Debug("its store is still being closed; opening the partition again", "error", err)
			pausing = 50 * time.Millisecond
		} else {
			log.Warn("partition failed; opening it again", "error", err)
		}
		own.kept.Step(pipeline.StepWaitToReopen)
		wait.For(ctx, pausing)
	}
}

// unknownFor is how long brokers may take to learn of a new topic.
const unknownFor = 10 * time.Second

// fail makes Run return an error; the first one counts.
func (e *Engine) fail(err error) {
	select {
	case e.fatal <- err:
	default:
	}
}

func (e *Engine) openAndRun(ctx context.Context, own *ownership, id int32) error {
	begun := time.Now()
	p, err := e.open(ctx, id, own)
	if err != nil {
		own.set(nil, err)
		return fmt.Errorf("open, %s: %w", own.kept.Doing(), err)
	}
	defer p.Close()
	e.agreeOnce(ctx)
	defer func() {
		if ctx.Err() != nil {
			own.markTurnsEnded()
		}
	}()
	p.LogOpen(begun)
	own.set(p.View(), nil)
	defer own.set(nil, nil)
	return p.Run(ctx)
}

func (e *Engine) open(ctx context.Context, id int32, own *ownership) (*pipeline.Partition, error) {
	own.kept.Step(pipeline.StepWaitToOpen)
	e.awaitRoom(ctx)
	e.opening.Add(1)
	defer e.opening.Add(-1)
	select {
	case e.opener <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	leave := sync.OnceFunc(func() { <-e.opener })
	defer leave()
	own.kept.OnRestore(leave) // those that need no restore open meanwhile
	return e.process.Open(ctx, id, own.kept, own.takeStandbyStore())
}

func (o *ownership) set(v *pipeline.View, err error) {
	var last pipeline.Status
	var next trigger.Instant
	was, _ := o.get()
	if was != nil { // without our lock, because its store may hang
		last, next = was.Status(), was.NextUnfired()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if was != nil {
		o.lastStatus, o.lastUnfired = last, next
	}
	o.current, o.failure = v, err
	if v != nil {
		o.refused = ""
	}
}

// lastKnown returns the status as of the last time the partition was open. What waits in a
// partition still waits while it cannot be opened, and operators need to see it.
func (o *ownership) lastKnown(now trigger.Instant) (s pipeline.Status, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s = o.lastStatus
	s.Ready, s.OldestOverdue = false, max(0, now.Sub(o.lastUnfired))
	s.Restored, s.RestoreTotal = o.kept.Restored()
	return s, s.Term > 0
}

func (o *ownership) get() (*pipeline.View, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.current, o.failure
}

// refusedRetry is the time between two tries of a refused partition.
const refusedRetry = time.Minute

// refuse notes why the partition is refused; "" if it will be tried.
func (o *ownership) refuse(reason string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refused, o.failure = reason, err
}

// refusal returns why the partition is refused, and the error in words.
func (o *ownership) refusal() (reason, detail string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refused != "" && o.failure != nil {
		detail = o.failure.Error()
	}
	return o.refused, detail
}

// takeStandbyStore returns the store that our standby left open, once; nil if there is none.
func (o *ownership) takeStandbyStore() *statestore.Store {
	o.mu.Lock()
	defer o.mu.Unlock()
	st := o.standbyStore
	o.standbyStore = nil
	return st
}

func (o *ownership) closeStandbyStore() {
	if st := o.takeStandbyStore(); st != nil {
		_ = st.Close()
	}
}

// backoff spaces the openings of a partition that keeps failing. A fenced owner waits
// longer for the group to decide; else two owners would fence each other in turn.
type backoff struct{ tries int }

func (b *backoff) next(err error, ran time.Duration) time.Duration {
	if ran > 30*time.Second {
		b.tries = 0
	}
	b.tries++
	switch {
	case errors.Is(err, kerr.ProducerFenced), errors.Is(err, kerr.InvalidProducerEpoch):
		return 3 * time.Second
	}
	return min(50*time.Millisecond<<min(b.tries-1, 7), 5*time.Second)
}
