package pipeline

import (
	"fmt"

	"github.com/waterclock/waterclock/pipeline/recovery"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// entry is one trigger that a turn has touched.
type entry struct {
	key    trigger.Key
	stored bool            // the store has it, with the row before
	before statestore.Row  // the stored row, without its value
	state  *trigger.State  // nil: unknown key
	timers []trigger.Timer // of the state, as the wheel has them
	dirty  bool
}

// status is the trigger's status; 0 for an unknown key.
func (e *entry) status() trigger.Status {
	if e.state == nil {
		return 0
	}
	return e.state.Status
}

// old returns the row in the store; nil if there is none.
func (e *entry) old() *statestore.Row {
	if !e.stored {
		return nil
	}
	return &e.before
}

// load finds a trigger in the overlay, else in the store.
func (p *Partition) load(t *turn, key trigger.Key) (*entry, error) {
	if e := t.overlay[key]; e != nil {
		return e, nil
	}
	value, err := t.states.Get(key, nil)
	if err != nil {
		return nil, fmt.Errorf("get %q: %w", key, err)
	}
	return p.enter(t, key, value)
}

// enter puts a stored value into the overlay. The strings of the state point into value.
func (p *Partition) enter(t *turn, key trigger.Key, value []byte) (*entry, error) {
	if value == nil {
		return p.join(t, key, nil), nil
	}
	s := p.scratch.state()
	if err := topics.DecodeStateInto(s, key, value); err != nil {
		return nil, fmt.Errorf("decode state of %q: %w", key, err)
	}
	return p.join(t, key, s), nil
}

// join puts a stored state into the overlay; nil if the store has none.
func (p *Partition) join(t *turn, key trigger.Key, s *trigger.State) *entry {
	e := p.scratch.entry(key)
	if s != nil {
		e.state, e.timers = s, p.scratch.timersOf(s)
		e.stored, e.before = true, recovery.Row(s, e.timers, nil)
	}
	t.overlay[key] = e
	t.order = append(t.order, e)
	return e
}
