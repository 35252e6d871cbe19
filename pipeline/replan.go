package pipeline

import (
	"fmt"
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
type replan struct {
	next   int64 // progress.NextControl when all are done
	reason string
	zones  []string    // those whose rules differ, but for the ones that are done; nil: look at everything
	name   string      // of the calendar; "" for a tz database
	after  trigger.Key // triggers up to here are done, of the first zone if there are zones
	looked int
	moved  int
	start  time.Time
}

// Bounds of one turn's share: whatever falls due meanwhile waits for it.
const (
	replanTime   = 10 * time.Millisecond
	replanLooked = 4000
)

// replanSome does one turn's share.
func (p *Partition) replanSome(t *turn) error {
	w := p.replan
	if w == nil {
		return nil
	}
	sn := p.store.Snapshot()
	defer sn.Close()
	s := replanShare{p: p, t: t, w: w, until: time.Now().Add(max(replanTime, p.pace.next()/2)), most: w.looked + replanLooked}
	if err := s.walk(sn); err != nil || s.over {
		return err
	}
	t.progress.NextControl = max(t.progress.NextControl, w.next)
	p.replan = nil
	p.log.Info("re-planned triggers", "reason", w.reason, "looked_at", w.looked, "moved", w.moved, "took", time.Since(w.start))
	return nil
}

// replanShare is what one turn does of a replan.
type replanShare struct {
	p     *Partition
	t     *turn
	w     *replan
	until time.Time
	most  int  // of replan.looked
	over  bool // the rest is for later turns
	err   error
}

// walk goes on where the last share ended.
func (s *replanShare) walk(sn *statestore.Snapshot) error {
	w := s.w
	if w.zones == nil {
		return s.ended(sn.Scan(w.after, s.look))
	}
	for len(w.zones) > 0 && !s.over {
		if err := s.ended(sn.ScanZone(w.zones[0], w.after, s.look)); err != nil {
			return err
		}
		if !s.over {
			w.zones, w.after = w.zones[1:], ""
		}
	}
	return nil
}

func (s *replanShare) ended(err error) error {
	if s.err != nil {
		return s.err
	}
	return err
}

// look resolves one trigger again. false ends the share.
func (s *replanShare) look(key trigger.Key, value []byte) bool {
	s.err = s.again(key, value)
	s.w.after = key
	s.w.looked++
	s.over = s.w.looked >= s.most || (s.w.looked%16 == 0 && !time.Now().Before(s.until))
	return s.err == nil && !s.over
}

func (s *replanShare) again(key trigger.Key, value []byte) error {
	e := s.t.overlay[key]
	if e == nil {
		state, err := topics.DecodeState(key, value)
		if err != nil {
			return fmt.Errorf("decode state of %q: %w", key, err)
		}
		e = &entry{key: key, state: state}
	}
	if e.state == nil || (s.w.zones == nil && !e.state.Uses(s.w.name)) {
		return nil
	}
	out := s.p.machine.Replan(e.state, s.t.now, s.w.reason)
	if !out.Changed {
		return nil
	}
	s.w.moved++
	if s.t.overlay[key] == nil { // only what moves joins the turn
		e = s.p.join(s.t, key, e.state)
	}
	s.p.perform(s.t, e, &out)
	return nil
}
