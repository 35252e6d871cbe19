package dangling

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/wait"
)

// Kept is what is known of dangling transactions from one opening of a partition
// to the next.
type Kept struct {
	Endings    *Endings                  // the process's
	Unresolved map[TopicPartition]Ending // due topics that have not yet said whether the last transaction is open there
	openings   int                       // how often the partition was opened again for those
}

// Holds says that a transaction may be open in a due topic whose end is not that
// of the next one.
func (k *Kept) Holds(topic string) bool {
	for at := range k.Unresolved {
		if at.Topic == topic {
			return true
		}
	}
	return false
}

// Watcher hears of brokers that go away from a session. One that is killed while
// it ends a transaction may leave it open, and then what was committed is not seen
// until its partition is written to anew. So the watcher inspects, beside the
// turns. It asks due topics, too, that have not said whether something was left
// open when the partition was opened.
type Watcher struct {
	lost  atomic.Bool                        // a broker has gone away since the last inspection
	wake  atomic.Pointer[context.CancelFunc] // ends the poll under way
	going atomic.Bool
	upTo  time.Time // what was committed until then has been inspected, or is
	asked bool      // what is unresolved is being asked for

	jobs     chan job
	open     atomic.Pointer[[]TopicPartition] // what was found
	resolved chan []TopicPartition            // that nothing of ours is open there
}

// job is an inspection beside the turns.
type job struct {
	at         []TopicPartition
	delay      time.Duration
	within     time.Duration // how long something may be open that is being ended
	pause, max time.Duration // between two tries
	heard      func(ctx context.Context, at []TopicPartition)
	end        func()
}

// NewWatcher hears of brokers as a hook of a client; Run begins its work.
func NewWatcher() *Watcher {
	return &Watcher{jobs: make(chan job, 2), resolved: make(chan []TopicPartition, 1)}
}

// OnBrokerDisconnect implements kgo.HookBrokerDisconnect.
func (w *Watcher) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) {
	w.lost.Store(true)
	w.rouse()
}

// Poll says which poll is under way, so that the watcher may end it; nil: none is.
func (w *Watcher) Poll(cancel *context.CancelFunc) { w.wake.Store(cancel) }

// Due says that the next Check has something to do, and should not be waited for.
func (w *Watcher) Due() bool {
	return w.open.Load() != nil || len(w.resolved) > 0 || w.lost.Load() && !w.going.Load()
}

func (w *Watcher) rouse() {
	if wake := w.wake.Load(); wake != nil {
		(*wake)()
	}
}

// When it is asked once more if not all have answered.
const (
	lostPause       = 5 * time.Second
	unresolvedPause = time.Second
	leaderPause     = 30 * time.Second
	maxPause        = 5 * time.Minute
)

// Check is called before every turn. It fails if a transaction was found left
// open: to open the partition again ends it. committed is when the last turn was,
// written where the turns of this session may have written to.
func (w *Watcher) Check(k *Kept, committed time.Time, written func() []TopicPartition) error {
	if open := w.open.Load(); open != nil {
		return fmt.Errorf("a broker went away, and a transaction was left open in %v", *open)
	}
	w.checkUnresolved(k)
	if w.going.Load() || !w.lost.Swap(false) || !committed.After(w.upTo) { // connections that idle are closed, too
		return nil
	}
	w.upTo = committed
	w.going.Store(true)
	w.jobs <- job{at: written(), within: openWithinTurn, pause: lostPause, max: maxPause, end: func() {
		if w.going.Store(false); w.Due() {
			w.rouse()
		}
	}}
	return nil
}

// checkUnresolved has due topics asked that have not said what is open in them,
// and takes their answers.
func (w *Watcher) checkUnresolved(k *Kept) {
	for len(w.resolved) > 0 {
		for _, at := range <-w.resolved {
			delete(k.Unresolved, at)
		}
	}
	if len(k.Unresolved) == 0 {
		k.openings = 0
		return
	}
	if w.asked {
		return
	}
	w.asked = true
	pause := min(unresolvedPause<<min(k.openings, 9), maxPause) // it may refuse to be ended
	k.openings++
	most := max(pause, leaderPause)
	w.jobs <- job{
		at: slices.SortedFunc(maps.Keys(k.Unresolved), TopicPartition.Compare), delay: pause,
		within: openWithin, pause: min(2*pause, most), max: most, heard: w.nothingOpen,
	}
}

// nothingOpen says to the turns where they may write.
func (w *Watcher) nothingOpen(ctx context.Context, at []TopicPartition) {
	select {
	case w.resolved <- at:
	case <-ctx.Done():
	}
	w.rouse()
}

// Run does what Check asks for until ctx ends.
func (w *Watcher) Run(ctx context.Context, r *Resolver) {
	for {
		select {
		case j := <-w.jobs:
			go w.inspect(ctx, r, j)
		case <-ctx.Done():
			return
		}
	}
}

// inspect asks until every partition has said that nothing of ours is open there,
// or one that something is. Where we may not ask whose it is, it is let be: it may
// be somebody else's for ever.
func (w *Watcher) inspect(ctx context.Context, r *Resolver, j job) {
	if j.end != nil {
		defer j.end()
	}
	if j.delay > 0 {
		wait.For(ctx, j.delay)
	}
	for pause := j.pause; ; pause = min(2*pause, j.max) {
		unknown, over := w.find(ctx, r, j.at, j.within)
		if over {
			return
		}
		var silent, heard []TopicPartition
		for _, at := range j.at {
			if unknown[at] != nil {
				silent = append(silent, at)
			} else {
				heard = append(heard, at)
			}
		}
		if len(heard) > 0 && j.heard != nil {
			j.heard(ctx, heard)
		}
		if j.at = silent; len(silent) == 0 {
			return
		}
		wait.For(ctx, pause)
	}
}

// inspectTimeout bounds one inspection.
const inspectTimeout = 20 * time.Second

// find looks for what is left open of ours, and wakes the turns if there is any:
// then, or when the session ends, inspecting is over.
func (w *Watcher) find(
	ctx context.Context, r *Resolver, all []TopicPartition, within time.Duration,
) (unknown map[TopicPartition]error, over bool) {
	rctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	left, err := r.inspect(rctx, all, within)
	switch {
	case ctx.Err() != nil:
		return nil, true
	case err != nil:
		left = unknownAll(all, err)
	case len(left.Ours) > 0:
		w.open.Store(&left.Ours)
		w.rouse()
		return nil, true
	}
	return left.Unknown, false
}
