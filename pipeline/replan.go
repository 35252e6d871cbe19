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

// replan is the work that a new tz database or calendar makes: every trigger
// whose plan depends on it is resolved again, a share in each turn, so that
// firing goes on. progress.NextControl moves past the record only when all is
// done; a successor that opens in between begins again, and repeats nothing,
// because resolving again what was resolved changes nothing.
//
// A few zones are walked by key. Where that turns out to be much of the store,
// and for calendars, all states are walked in the order they lie in, which
// spares searching for each. There a trigger may move past the walk before it
// was met; so whatever a turn writes meanwhile is resolved in that turn.
type replan struct {
	next    int64 // progress.NextControl when all are done
	reason  string
	zones   []string    // those whose rules differ; nil: any
	name    string      // of the calendar; "" for a tz database
	left    []string    // of zones, to be walked; nil: states are walked where they lie
	after   trigger.Key // of left[0], triggers up to here are done
	at      statestore.Home
	ahead   map[trigger.Key]struct{} // done, and moved to where the walk will be
	batch   batch                    // how many may move in a turn
	scanned int
	moved   int
	start   time.Time
}

// Bounds of one turn's share, beside its batch: whatever falls due meanwhile
// waits for it. And of what a walk remembers: what it forgets it looks at twice.
const (
	replanTime    = 10 * time.Millisecond
	replanScanned = 20_000
	replanAhead   = 50_000
)

// A walk by key of so many triggers, and this part of all, is given up for one
// where they lie.
const (
	replanMany = 1000
	replanPart = 8
)

// maxMoves is how many triggers move in a turn where turns are quick.
const maxMoves = 4000

// replanSome does one turn's share.
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

// replanShare is what one turn does of a replan.
type replanShare struct {
	p          *Partition
	t          *turn
	w          *replan
	until      time.Time
	maxScanned int  // of replan.scanned, at most
	moves      int  // of replan.moved, at most
	over       bool // the rest is for later turns
	err        error
	spare      *trigger.State
}

// written resolves what this turn has written so far.
func (s *replanShare) written(ctx context.Context) {
	for _, e := range s.t.order {
		if e.dirty && e.state != nil {
			s.resolve(ctx, e, e.state)
		}
	}
}

// walk goes on where the last share ended.
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
	s.p.store.Fill() // nearly everything is written anew: it is merged once, afterwards
	return s.ended(sn.ScanHomes(w.at, func(at statestore.Home, key trigger.Key, value []byte) bool {
		return s.resolveAt(ctx, at, key, value)
	}))
}

// many says that walking by key does not pay.
func (s *replanShare) many() bool {
	return s.w.left != nil && s.w.scanned >= replanMany && int64(s.w.scanned) > s.p.store.PendingCount()/replanPart
}

func (s *replanShare) ended(err error) error {
	if s.err != nil {
		return s.err
	}
	return err
}

// resolveKey resolves one trigger of a zone again. false ends the share, or the walk.
func (s *replanShare) resolveKey(ctx context.Context, key trigger.Key, value []byte) bool {
	s.resolveStored(ctx, key, value)
	s.w.after = key
	return s.goOn() && !s.many()
}

// resolveAt resolves one trigger again that lies at a home.
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

// liesAhead says that a walk that has come to a home will yet meet a trigger with
// these timers.
func liesAhead(at statestore.Home, timers []trigger.Timer) bool {
	return at.Here == "" && !slices.ContainsFunc(timers, func(t trigger.Timer) bool { return t.Due <= at.Due.Due })
}

func (s *replanShare) goOn() bool {
	s.w.scanned++
	s.over = s.w.scanned >= s.maxScanned || s.w.moved >= s.moves || (s.w.scanned%16 == 0 && !time.Now().Before(s.until))
	return s.err == nil && !s.over
}

// resolveStored resolves a stored trigger. It returns what joined the turn: only what
// moves does.
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
	s.spare = nil // the turn has it
	return s.t.overlay[key]
}

// resolve decides about one trigger, and says whether it has moved. e is nil
// for one that is not in the turn yet.
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

// concerns says whether a plan may depend on what has changed.
func (w *replan) concerns(s *trigger.State) bool {
	if w.zones != nil && !slices.Contains(w.zones, s.Spec.When.Zone) {
		return false
	}
	return s.Uses(w.name)
}
