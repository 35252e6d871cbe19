package pipeline

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waterclock/waterclock/pipeline/recovery"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// mends are the leaks that turns still have to mend, a few in each.
type mends struct {
	mu   sync.Mutex
	left []mending
}

// mending is a leak, and what is left of those that it was found with.
type mending struct {
	leak Leak
	left *atomic.Int64
}

// rouseInterval is how often a partition is roused until it has mended.
const rouseInterval = 100 * time.Millisecond

// mendMost bounds what one turn mends.
const mendMost = 256

func (m *mends) add(leaks []Leak) *atomic.Int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := new(atomic.Int64)
	left.Store(int64(len(leaks)))
	for _, l := range leaks {
		m.left = append(m.left, mending{l, left})
	}
	return left
}

func (m *mends) take() []mending {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := min(len(m.left), mendMost)
	some := m.left[:n:n]
	m.left = m.left[n:]
	return some
}

func (m *mends) putBack(l mending) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = append(m.left, l)
}

func (m *mends) some() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.left) > 0
}

// Mend has turns mend what an audit has found, and waits for them. Nothing fires but in
// the turns that follow. For a state that is damaged the partition opens again, with a
// store that is built anew; then Mend returns ErrNotOwner.
func (v *View) Mend(ctx context.Context, leaks []Leak) error {
	v.mu.RLock()
	open := v.store != nil
	v.mu.RUnlock()
	if !open {
		return ErrNotOwner
	}
	left := v.mends.add(leaks)
	ticker := time.NewTicker(rouseInterval) // the partition may just begin to wait
	defer ticker.Stop()
	for left.Load() > 0 {
		v.mu.RLock()
		changed := v.changed
		v.mu.RUnlock()
		if changed == nil {
			return ErrNotOwner
		}
		v.rouse()
		select {
		case <-changed:
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// mender mends in turns what an audit has found.
type mender struct {
	found   *mends
	store   *statestore.Store
	changes *statestore.Batch // what the turn changes in the store
	timers  *timers
	paces   func(*trigger.State, trigger.Timer, trigger.Instant) bool // whether a timer goes at the pacer's rate
}

// mended is what one turn has mended.
type mended struct {
	leaks   []mending
	rearmed []rearmed
}

// rearmed is a timer that a turn has mended.
type rearmed struct {
	key   trigger.Key
	timer trigger.Timer
	paced bool
}

// mend writes what the index has lost, from the states as they are now. What this turn has
// changed is left to the next one.
func (m *mender) mend(t *turn) error {
	for _, l := range m.found.take() {
		if e := t.overlay[l.leak.Key]; e != nil && e.dirty {
			m.found.putBack(l)
			continue
		}
		t.mended.leaks = append(t.mended.leaks, l)
		if err := m.mendOne(t, &l.leak); err != nil {
			return err
		}
	}
	return nil
}

func (m *mender) mendOne(t *turn, l *Leak) error {
	if l.Kind == LeakStateDamaged {
		return fmt.Errorf("%w: %s", statestore.ErrCorrupt, l.Error)
	}
	value, err := m.store.Get(l.Key, nil)
	if err != nil {
		return fmt.Errorf("get %q: %w", l.Key, err)
	}
	var timers []trigger.Timer
	if value != nil {
		s, err := topics.DecodeState(l.Key, value)
		if err != nil {
			return fmt.Errorf("decode state of %q: %w", l.Key, err)
		}
		timers = s.Timers(nil)
		m.changes.Rewrite(recovery.Row(s, timers, value)) // the stray one may be the home of the state
		if hasTimer(timers, l.Timer) {
			t.mended.rearmed = append(t.mended.rearmed, rearmed{l.Key, l.Timer, m.paces(s, l.Timer, t.now)})
		}
	}
	if !hasTimer(timers, l.Timer) {
		m.changes.DropTimer(l.at())
	}
	return nil
}

// cursor is the earliest due time that may still be in the due index after this turn.
func (m *mender) cursor(t *turn) trigger.Instant {
	cursor := m.timers.cursor()
	for _, r := range t.mended.rearmed {
		cursor = min(cursor, r.timer.Due)
	}
	return cursor
}

// committed lets the turns meet again what was mended, once the store has it.
func (m *mender) committed(t *turn) {
	for _, r := range t.mended.rearmed {
		m.timers.arm(r.key, r.timer, r.paced, t.now)
	}
	for _, l := range t.mended.leaks {
		l.left.Add(-1)
	}
}
