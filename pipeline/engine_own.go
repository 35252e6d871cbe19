package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/pipeline/dangling"
	"github.com/waterclock/waterclock/pipeline/output"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// ownership is one partition as long as the group says it is ours: opened,
// run, and opened again after every failure.
type ownership struct {
	cancel context.CancelFunc
	over   chan struct{}  // closed when no turn of it comes any more
	done   chan struct{}  // closed when its store is, too
	health *output.Health // of the due topics

	dangling dangling.Kept

	at     atomic.Pointer[Step] // step of opening, or of the turn
	moves  atomic.Int64         // counts steps
	read   atomic.Int64         // records of topic state, while restoring
	toRead atomic.Int64

	mu      sync.Mutex
	current *Partition // nil while it opens
	last    Status     // of the one before it, as it was left
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
		own := &ownership{cancel: cancel, over: make(chan struct{}), done: make(chan struct{}), health: output.NewHealth(e.due, id), dangling: dangling.Kept{Endings: &e.endings}}
		e.owned[id] = own
		e.opening.Add(1)
		go func() {
			defer close(own.done)
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
	e.await(e.give(partitions), (*ownership).lastTurn, nil)
}

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
	clear(e.lost)
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
	tick := time.NewTicker(endTell)
	defer tick.Stop()
	for id, own := range gone {
		for come := false; !come; {
			select {
			case <-what(own):
				come = true
			case <-patience:
				return
			case <-tick.C:
				e.opts.Logger.Warn("a partition takes long to close", "partition", id, "step", own.doing())
			}
		}
	}
}

func (o *ownership) lastTurn() <-chan struct{} { return o.over }
func (o *ownership) end() <-chan struct{}      { return o.done }

// turnsOver is called by the one goroutine that runs its turns.
func (o *ownership) turnsOver() {
	select {
	case <-o.over:
	default:
		close(o.over)
	}
}

// endTell is how often a partition that does not close is told of.
const endTell = 5 * time.Second

// own opens and runs a partition until it is released.
func (e *Engine) own(ctx context.Context, own *ownership, id int32) {
	log := e.opts.Logger.With("partition", id)
	pause, taken := backoff{}, time.Now()
	for ctx.Err() == nil {
		began := time.Now()
		err := e.openAndRun(ctx, own, id)
		putAside(&e.opts, id, log, err)
		if ctx.Err() != nil {
			return
		}
		if endsProcess(err) {
			e.end(err)
		}
		pausing := pause.next(err, time.Since(began))
		reason := refusal(err)
		own.refuse(reason, err)
		if reason != "" {
			own.step(stepRefused)
			log.Error("this partition is refused; the others go on", "reason", reason, "error", err)
			if reason == refusedWriter {
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
		own.step(stepWaitToReopen)
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
		return fmt.Errorf("open, %s: %w", own.doing(), err)
	}
	defer p.close()
	defer func() {
		if ctx.Err() != nil {
			own.turnsOver()
		}
	}()
	fctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { p.forward.run(fctx) })
	defer wg.Wait()
	defer p.forward.close()
	defer cancel()
	if p.takenOver {
		p.log.Info("the partition is open", "term", p.progress.Term, "after", time.Since(begun).Round(time.Millisecond))
	}
	e.opening.Add(-1)
	defer e.opening.Add(1)
	own.set(p, nil)
	defer own.set(nil, nil)
	err = p.run(ctx)
	p.diagnose(err)
	return err
}

func (e *Engine) open(ctx context.Context, id int32, own *ownership) (*Partition, error) {
	own.step(stepWaitToOpen)
	select {
	case e.opener <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-e.opener }()
	return open(ctx, &e.opts, id, e.due, own)
}

func (o *ownership) set(p *Partition, err error) {
	var last Status
	var next trigger.Instant
	was, _ := o.get()
	if was != nil { // asked without our lock: its store may hang
		last, next = was.status(), was.nextUnfired()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if was != nil {
		o.last, o.next = last, next
	}
	o.current, o.failure = p, err
	if p != nil {
		o.refused = ""
	}
}

// left is what the partition was when it was last open: what waits there waits
// on while it cannot be opened, and somebody should know.
func (o *ownership) left(now trigger.Instant) (s Status, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s = o.last
	s.Ready, s.OldestOverdue = false, max(0, now.Sub(o.next))
	s.Restored, s.RestoreTotal = o.read.Load(), o.toRead.Load()
	return s, s.Term > 0
}

func (o *ownership) get() (*Partition, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.current, o.failure
}

// step notes what the partition does now.
func (o *ownership) step(what Step) {
	o.at.Store(&what)
	o.moves.Add(1)
}

func (o *ownership) doing() Step {
	if at := o.at.Load(); at != nil {
		return *at
	}
	return stepTaken
}

// restoring notes how far reading topic state is.
func (o *ownership) restoring(read, of int64) {
	o.read.Store(read)
	o.toRead.Store(max(read, of))
	o.moves.Add(1)
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
