package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// ownership is one partition as long as the group says it is ours: opened,
// run, and opened again after every failure. The group only hints at who should
// own what. The owner is whoever initialised the partition's transactional id
// last: the brokers fence every other one.
type ownership struct {
	cancel     context.CancelFunc
	turnsEnded chan struct{} // closed when no turn of it comes any more
	closed     chan struct{} // closed when its store is, too
	kept       *pipeline.Kept

	mu      sync.Mutex
	current *pipeline.View  // nil while it opens
	last    pipeline.Status // of the one before it, as it was left
	next    trigger.Instant
	failure error
	refused string            // why the partition must not be opened; "": nothing is known against it
	warm    *statestore.Store // left open by our standby
}

func (e *Engine) take(partitions []int32) {
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
		e.opening.Add(1)
		go func() {
			defer close(own.closed)
			defer e.opening.Add(-1)
			own.warm = e.stopTail(id) // nobody else looks at it yet
			e.own(ctx, own, id)
			own.turnsOver()
			own.closeWarm()
		}()
	}
}

// release ends the turns of partitions and waits for that: only then may the
// rebalance go on. It does not wait for stores to close: a disk that takes long
// would outlast the rebalance timeout, and cost us our membership.
func (e *Engine) release(partitions []int32) {
	var patience <-chan struct{}
	if e.Disk().Full { // a turn may wait for room; who has some fences us
		ctx, cancel := context.WithTimeout(context.Background(), fullPatience)
		defer cancel()
		patience = ctx.Done()
	}
	e.await(e.give(partitions), (*ownership).lastTurn, patience)
}

// fullPatience is less than the rebalance timeout.
const fullPatience = 3 * time.Second

// lose releases what the group has taken from us unheard: nearly always since
// the brokers are away, and then nobody else has it either. So we go on telling
// what waits there until we are a member again.
func (e *Engine) lose(partitions []int32) {
	e.mu.Lock()
	for _, id := range partitions {
		if own := e.owned[id]; own != nil {
			e.lost[id] = own
		}
	}
	e.mu.Unlock()
	e.release(partitions)
}

// rejoined ends what lose began.
func (e *Engine) rejoined() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.Disk().Full { // then watchDisk knows
		clear(e.lost)
	}
}

// give ends ownerships, and returns those that are still ending.
func (e *Engine) give(partitions []int32) map[int32]*ownership {
	e.mu.Lock()
	defer e.mu.Unlock()
	gone := map[int32]*ownership{}
	for _, id := range partitions {
		if own := e.owned[id]; own != nil {
			gone[id] = own
			delete(e.owned, id)
			own.cancel()
		}
	}
	return gone
}

// await waits for what ownerships come to; patience may end it first. It says
// which take long, and over what.
func (e *Engine) await(gone map[int32]*ownership, what func(*ownership) <-chan struct{}, patience <-chan struct{}) {
	tick := time.NewTicker(endWarn)
	defer tick.Stop()
	for id, own := range gone {
		for come := false; !come; {
			select {
			case <-what(own):
				come = true
			case <-patience:
				return
			case <-tick.C:
				e.process.Logger.Warn("a partition takes long to close", "partition", id, "step", own.kept.Doing())
			}
		}
	}
}

func (o *ownership) lastTurn() <-chan struct{} { return o.turnsEnded }
func (o *ownership) end() <-chan struct{}      { return o.closed }

// turnsOver is called by the one goroutine that runs its turns.
func (o *ownership) turnsOver() {
	select {
	case <-o.turnsEnded:
	default:
		close(o.turnsEnded)
	}
}

// endWarn is how often a partition that does not close is named in the log.
const endWarn = 5 * time.Second

// own opens and runs a partition until it is released.
func (e *Engine) own(ctx context.Context, own *ownership, id int32) {
	log := e.process.Logger.With("partition", id)
	pause, taken := backoff{}, time.Now()
	for ctx.Err() == nil {
		began := time.Now()
		err := e.openAndRun(ctx, own, id)
		e.process.Recovery().QuarantineDamaged(id, log, err)
		if ctx.Err() != nil {
			return
		}
		if pipeline.EndsProcess(err) {
			e.end(err)
		}
		pausing := pause.next(err, time.Since(began))
		reason := pipeline.Refusal(err)
		own.refuse(reason, err)
		if reason != "" {
			own.kept.Step(pipeline.StepRefused)
			log.Error("this partition is refused; the others go on", "reason", reason, "error", err)
			if reason == pipeline.RefusedWriter {
				<-ctx.Done() // each try would be another owner beside the other
				return
			}
			wait.For(ctx, refusedRetry)
			continue
		}
		if time.Since(taken) < unknownFor && errors.Is(err, kerr.UnknownTopicOrPartition) {
			log.Debug("the brokers do not all know our topics yet; opening the partition again", "error", err)
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

// unknownFor is how long brokers may take to learn of a topic just made.
const unknownFor = 10 * time.Second

// end makes Run return an error; the first one counts.
func (e *Engine) end(err error) {
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
			own.turnsOver()
		}
	}()
	p.LogOpen(begun)
	e.opening.Add(-1)
	defer e.opening.Add(1)
	own.set(p.View(), nil)
	defer own.set(nil, nil)
	return p.Run(ctx)
}

func (e *Engine) open(ctx context.Context, id int32, own *ownership) (*pipeline.Partition, error) {
	own.kept.Step(pipeline.StepWaitToOpen)
	e.awaitRoom(ctx)
	select {
	case e.opener <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-e.opener }()
	return e.process.Open(ctx, id, own.kept, own.takeWarm())
}

func (o *ownership) set(v *pipeline.View, err error) {
	var last pipeline.Status
	var next trigger.Instant
	was, _ := o.get()
	if was != nil { // asked without our lock: its store may hang
		last, next = was.Status(), was.NextUnfired()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if was != nil {
		o.last, o.next = last, next
	}
	o.current, o.failure = v, err
	if v != nil {
		o.refused = ""
	}
}

// left is what the partition was when it was last open: what waits there waits
// on while it cannot be opened, and somebody should know.
func (o *ownership) left(now trigger.Instant) (s pipeline.Status, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s = o.last
	s.Ready, s.OldestOverdue = false, max(0, now.Sub(o.next))
	s.Restored, s.RestoreTotal = o.kept.Restored()
	return s, s.Term > 0
}

func (o *ownership) get() (*pipeline.View, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.current, o.failure
}

// refusedRetry is how often a refused partition is tried all the same.
const refusedRetry = time.Minute

// refuse notes why the partition is not opened; "" that it is tried again.
func (o *ownership) refuse(reason string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refused, o.failure = reason, err
}

// refusal is why the partition is refused, and what exactly is wrong.
func (o *ownership) refusal() (reason, detail string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refused != "" && o.failure != nil {
		detail = o.failure.Error()
	}
	return o.refused, detail
}

// takeWarm is the store that our standby left open; nil: none, or no more.
func (o *ownership) takeWarm() *statestore.Store {
	o.mu.Lock()
	defer o.mu.Unlock()
	st := o.warm
	o.warm = nil
	return st
}

func (o *ownership) closeWarm() {
	if st := o.takeWarm(); st != nil {
		_ = st.Close()
	}
}

// backoff spaces the openings of a partition that keeps failing. A fenced
// owner waits for the group to decide, or two owners would ping-pong.
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
