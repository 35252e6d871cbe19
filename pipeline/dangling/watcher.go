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

// Kept is what is known about dangling transactions from one opening of a partition to the
// next.
type Kept struct {
	Endings    *Endings                  // of the process
	Unresolved map[TopicPartition]Ending // due topics that have not said yet whether the last transaction is open there
	openings   int                       // how often the partition was opened for those
}

// Holds reports whether a due topic may have an open transaction. The next transaction must
// not end it.
func (k *Kept) Holds(topic string) bool {
	for at := range k.Unresolved {
		if at.Topic == topic {
			return true
		}
	}
	return false
}

// Resolve ends what the last transaction left open. If that fails, nothing is forgotten of how
// earlier transactions ended: no record goes to a due topic that has not answered, so the next
// opening still needs it.
func (k *Kept) Resolve(ctx context.Context, r *Resolver, how Ending) error {
	unresolved, err := r.Resolve(ctx, how, k.Unresolved)
	if err == nil {
		k.Unresolved = unresolved
	}
	return err
}

// Watcher is called when a session's connection to a broker closes. A broker that is killed
// while it ends a transaction may leave it open. Readers then do not see committed records
// until the partition is written to. So the watcher inspects, beside the turns. It also
// asks the due topics that did not answer when the partition was opened.
type Watcher struct {
	lost  atomic.Bool                        // a broker went away after the last inspection
	wake  atomic.Pointer[context.CancelFunc] // ends the present poll
	going atomic.Bool
	upTo  time.Time // what was committed until then is inspected, or being inspected
	asked bool      // unresolved topics are being asked

	jobs     chan job
	open     atomic.Pointer[[]TopicPartition] // partitions with an open transaction
	resolved chan []TopicPartition            // partitions without one
}

// job is one inspection beside the turns.
type job struct {
	at         []TopicPartition
	delay      time.Duration
	within     time.Duration // how long an open transaction may still be ending
	pause, max time.Duration // pause between two tries
	heard      func(ctx context.Context, at []TopicPartition)
	end        func()
}

// NewWatcher makes a watcher, which is a hook of a client. Run starts its work.
func NewWatcher() *Watcher {
	return &Watcher{jobs: make(chan job, 2), resolved: make(chan []TopicPartition, 1)}
}

// OnBrokerDisconnect implements kgo.HookBrokerDisconnect.
func (w *Watcher) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) {
	w.lost.Store(true)
	w.Rouse()
}

// Poll sets the present poll, so that the watcher may end it; nil: there is none.
func (w *Watcher) Poll(cancel *context.CancelFunc) { w.wake.Store(cancel) }

// Due reports whether the next Check has work that must not wait.
func (w *Watcher) Due() bool {
	return w.open.Load() != nil || len(w.resolved) > 0 || w.lost.Load() && !w.going.Load()
}

// Rouse ends the present poll.
func (w *Watcher) Rouse() {
	if wake := w.wake.Load(); wake != nil {
		(*wake)()
	}
}

// These are the pauses before partitions that did not answer are asked once more.
const (
	lostPause       = 5 * time.Second
	unresolvedPause = time.Second
	leaderPause     = 30 * time.Second
	maxPause        = 5 * time.Minute
)

// Check is called before every turn. It fails if a transaction was found left open; to open
// the partition anew ends it. committed is when the last turn committed. written lists
// where the turns of this session may have written.
func (w *Watcher) Check(k *Kept, committed time.Time, written func() []TopicPartition) error {
	if open := w.open.Load(); open != nil {
		return fmt.Errorf("a broker disconnected and left a transaction open in %v", *open)
	}
	w.checkUnresolved(k)
	if w.going.Load() || !w.lost.Swap(false) || !committed.After(w.upTo) { // idle connections are closed, too
		return nil
	}
	w.upTo = committed
	w.going.Store(true)
	w.jobs <- job{at: written(), within: openWithinTurn, pause: lostPause, max: maxPause, end: func() {
		if w.going.Store(false); w.Due() {
			w.Rouse()
		}
	}}
	return nil
}

// checkUnresolved has the unresolved due topics asked, and takes their answers.
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
	pause := min(unresolvedPause<<min(k.openings, 9), maxPause) // a transaction there may refuse to be ended
	k.openings++
	most := max(pause, leaderPause)
	w.jobs <- job{
		at: slices.SortedFunc(maps.Keys(k.Unresolved), TopicPartition.Compare), delay: pause,
		within: openWithin, pause: min(2*pause, most), max: most, heard: w.nothingOpen,
	}
}

// nothingOpen tells the turns where they may write.
func (w *Watcher) nothingOpen(ctx context.Context, at []TopicPartition) {
	select {
	case w.resolved <- at:
	case <-ctx.Done():
	}
	w.Rouse()
}

// Run does the inspections that Check orders, until ctx ends.
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

// inspect asks until every partition has no open transaction of ours, or one of them has. A
// partition where we may not ask whose transaction it is counts as free: it may belong to
// another producer for ever.
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

// find searches for open transactions of ours, and wakes the turns if there is one. over is
// true then, and when the session ends.
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
		w.Rouse()
		return nil, true
	}
	return left.Unknown, false
}
