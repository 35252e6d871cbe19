package pipeline

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// replan is the work that a new tz database or calendar causes. Every trigger whose plan
// depends on it is planned anew, some in each turn, so that firing goes on.
// progress.NextControl moves past the setting only when all are done. A successor that
// opens earlier begins anew. Nothing happens twice, because a second planning changes
// nothing.
//
// For few zones the walk goes by key. If they turn out to hold much of the store, and for
// calendars, it goes over all states in the order of the store, without a search for each.
// On that walk a trigger may move behind the walk before its turn comes. So everything that
// a turn writes meanwhile is planned in that turn, too.
type replan struct {
	next    int64 // value of progress.NextControl when all are done
	reason  string
	zones   []string    // zones whose rules differ; nil: any
	name    string      // of the calendar; "" for a tz database
	left    []string    // zones still to walk by key; nil: walk in the order of the store
	after   trigger.Key // triggers of left[0] up to this key are done
	at      statestore.Home
	ahead   map[trigger.Key]struct{} // done, but moved to where the walk will come
	batch   moveBatch                // how many may move in one turn
	scanned int
	moved   int
	start   time.Time
}

// These bound one turn's share beside its batch, because what falls due meanwhile waits for
// it. They also bound what a walk keeps: a trigger that it forgets is planned twice,
// without effect.
const (
	replanTime    = 10 * time.Millisecond
	replanScanned = 20_000
	replanAhead   = 50_000
)

// A walk by key ends if it has met this many triggers and this part of all. A walk in the
// order of the store follows.
const (
	replanMany = 1000
	replanPart = 8
)

// maxMoves is how many triggers move in one turn while turns are quick.
const maxMoves = 4000

// replanSome does the share of one turn.
func (p *Partition) replanSome(ctx context.Context, t *turn) error {
	w := p.replan
	if w == nil {
		return nil
	}
	sn := p.store.Snapshot()
	defer sn.Close()
	s := replanShare{
		p: p, t: t, w: w, until: time.Now().Add(replanTime), maxScanned: w.scanned + replanScanned,
		moves: w.moved + w.batch.size(maxMoves),
	}
	s.written(ctx)
	before := w.moved
	err := s.walk(ctx, sn)
	t.moved = w.moved - before
	if err != nil || s.over {
		return err
	}
	if err := p.store.Filled(); err != nil {
		return err
	}
	t.progress.NextControl = max(t.progress.NextControl, w.next)
	p.replan = nil
	p.log.Info("re-planned triggers", "reason", w.reason, "looked_at", w.scanned, "moved", w.moved, "took",
		time.Since(w.start))
	return nil
}

// moveBatch bounds how many triggers a replan moves in a turn, by time. A turn should take about
// turnTarget, commit included, because commands and timers wait until it ends.
type moveBatch struct {
	n    int
	last time.Time // when the last turn ended
}

const (
	turnTarget = 40 * time.Millisecond
	batchIdle  = time.Second // after such a pause the next turn is small, because its cost is not known
)

// size is how many triggers may move in the next turn.
func (b *moveBatch) size(most int) int {
	if b.n == 0 || time.Since(b.last) > batchIdle {
		b.n = leastBatch
	}
	b.n = min(b.n, most)
	return b.n
}

// turned adapts the size to how long a full turn took.
func (b *moveBatch) turned(moved int, took time.Duration) {
	b.last = time.Now()
	switch {
	case moved < b.n:
	case took > turnTarget:
		b.n = max(leastBatch, b.n*3/4)
	case took < turnTarget*3/4:
		b.n += b.n / 4
	}
}

// replanShare is what one turn does for a replan.
type replanShare struct {
	p          *Partition
	t          *turn
	w          *replan
	until      time.Time
	maxScanned int  // bound of replan.scanned
	moves      int  // bound of replan.moved
	over       bool // later turns do the rest
	err        error
	spare      *trigger.State
}

// written plans what this turn has written so far.
func (s *replanShare) written(ctx context.Context) {
	for _, e := range s.t.order {
		if e.dirty && e.state != nil {
			s.resolve(ctx, e, e.state)
		}
	}
}

// walk continues where the last share ended.
func (s *replanShare) walk(ctx context.Context, sn *statestore.Snapshot) error {
	w := s.w
	for len(w.left) > 0 && !s.over && !s.many() {
		if err := s.ended(sn.ScanZone(w.left[0], w.after, func(key trigger.Key, value []byte) bool {
			return s.resolveKey(ctx, key, value)
		})); err != nil {
			return err
		}
		if !s.over && !s.many() {
			w.left, w.after = w.left[1:], ""
		}
	}
	if w.left != nil && s.many() {
		w.left = nil
	}
	if w.left != nil || s.over {
		return nil
	}
	s.p.store.Fill() // nearly every state is written: Pebble merges once, afterwards
	return s.ended(sn.ScanHomes(w.at, func(at statestore.Home, key trigger.Key, value []byte) bool {
		return s.resolveAt(ctx, at, key, value)
	}))
}

// many reports whether a walk by key costs more than a walk over all.
func (s *replanShare) many() bool {
	return s.w.left != nil && s.w.scanned >= replanMany && int64(s.w.scanned) > s.p.store.PendingCount()/replanPart
}

func (s *replanShare) ended(err error) error {
	if s.err != nil {
		return s.err
	}
	return err
}

// resolveKey plans one trigger of a zone. It returns false at the end of the share or of
// the walk.
func (s *replanShare) resolveKey(ctx context.Context, key trigger.Key, value []byte) bool {
	s.resolveStored(ctx, key, value)
	s.w.after = key
	return s.goOn() && !s.many()
}

// resolveAt plans the trigger at one home.
func (s *replanShare) resolveAt(ctx context.Context, at statestore.Home, key trigger.Key, value []byte) bool {
	if _, done := s.w.ahead[key]; done {
		delete(s.w.ahead, key)
	} else if e := s.resolveStored(ctx, key, value); e != nil && len(s.w.ahead) < replanAhead &&
		liesAhead(at, e.timers) {
		if s.w.ahead == nil {
			s.w.ahead = map[trigger.Key]struct{}{}
		}
		s.w.ahead[key] = struct{}{}
	}
	s.w.at = at
	return s.goOn()
}

// liesAhead reports whether a walk that is at a home will still meet a trigger with these
// timers.
func liesAhead(at statestore.Home, timers []trigger.Timer) bool {
	return at.Here == "" && !slices.ContainsFunc(timers, func(t trigger.Timer) bool { return t.Due <= at.Due.Due })
}

func (s *replanShare) goOn() bool {
	s.w.scanned++
	s.over = s.w.scanned >= s.maxScanned || s.w.moved >= s.moves || (s.w.scanned%16 == 0 && !time.Now().Before(s.until))
	return s.err == nil && !s.over
}

// resolveStored plans a stored trigger. It returns the entry if the trigger moved; only
// then does it join the turn.
func (s *replanShare) resolveStored(ctx context.Context, key trigger.Key, value []byte) *entry {
	if e := s.t.overlay[key]; e != nil {
		if e.state != nil && s.resolve(ctx, e, e.state) {
			return e
		}
		return nil
	}
	if s.spare == nil {
		s.spare = new(trigger.State)
	}
	if err := topics.DecodeStateInto(s.spare, key, bytes.Clone(value)); err != nil {
		s.err = fmt.Errorf("decode state of %q: %w", key, err)
		return nil
	}
	if !s.resolve(ctx, nil, s.spare) {
		return nil
	}
	s.spare = nil // the turn keeps it
	return s.t.overlay[key]
}

// resolve plans one trigger, and reports whether it moved. e is nil for a trigger that is
// not in the turn yet.
func (s *replanShare) resolve(ctx context.Context, e *entry, state *trigger.State) bool {
	if !s.w.concerns(state) {
		return false
	}
	out := s.p.machine.Replan(state, s.t.now, s.w.reason)
	if !out.Changed {
		return false
	}
	s.w.moved++
	if e == nil {
		e = s.p.join(s.t, state.Key, state)
	}
	s.p.applyDecision(ctx, s.t, e, &out)
	return true
}

// concerns reports whether a plan may depend on what has changed.
func (w *replan) concerns(s *trigger.State) bool {
	if w.zones != nil && !slices.Contains(w.zones, s.Spec.When.Zone) {
		return false
	}
	return s.Uses(w.name)
}
