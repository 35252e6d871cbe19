package pipeline

import (
	"errors"
	"testing"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
	"github.com/waterclock/waterclock/wheel"
)

// menderOf makes a mender of a store that has the given state and none of its timers.
func menderOf(t *testing.T, s *trigger.State) *mender {
	st := memStore(t)
	value, err := topics.AppendStateAs(nil, s, topics.FormatOf(s))
	if err != nil {
		t.Fatal(err)
	}
	b := st.NewBatch()
	b.Put(nil, statestore.Row{Key: s.Key, Value: value})
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	b.Reset()
	ts := &timers{
		store: st, wheelEntries: 10, hydrated: statestore.DueKey{Due: 5000},
		wheel: wheel.New(wheel.Options{MaxEntries: 10}, 0),
	}
	return &mender{
		found: &mends{}, store: st, changes: b, timers: ts,
		paces: func(*trigger.State, trigger.Timer, trigger.Instant) bool { return false },
	}
}

// pendingAt2000 is a trigger that is due at that instant, and the leak of its timer.
func pendingAt2000() (*trigger.State, Leak) {
	s := &trigger.State{Key: "k", Status: trigger.Pending, Revision: 1}
	s.Series.At, s.Series.Occurrence = 2000, "1970-01-01T00:00:02Z"
	return s, Leak{Kind: LeakTimerMissing, Key: "k", Timer: s.Timers(nil)[0]}
}

// TestMendArmsAfterTheCommit: a timer that the index has lost holds the cursor back in the turn
// that mends it, and fires only once the store has it.
func TestMendArmsAfterTheCommit(t *testing.T) {
	s, leak := pendingAt2000()
	m := menderOf(t, s)
	left := m.found.add([]Leak{leak})
	tn := &turn{now: 3000}
	if err := m.mend(tn); err != nil {
		t.Fatal(err)
	}
	if got := m.cursor(tn); got != 2000 {
		t.Errorf("the cursor of the turn is %d; a restart would pass the timer", got)
	}
	if m.timers.wheel.Len() != 0 || left.Load() != 1 {
		t.Errorf("before the commit: %d timers are armed, %d leaks are left", m.timers.wheel.Len(), left.Load())
	}
	if err := m.changes.Commit(); err != nil {
		t.Fatal(err)
	}
	m.committed(tn)
	if m.timers.wheel.Len() != 1 || left.Load() != 0 {
		t.Errorf("after the commit: %d timers are armed, %d leaks are left", m.timers.wheel.Len(), left.Load())
	}
	if got := m.cursor(&turn{}); got != 2000 {
		t.Errorf("the cursor of the next turn is %d", got)
	}
}

// TestMendLeavesWhatTheTurnChanged: the store does not have the new state of that trigger yet.
func TestMendLeavesWhatTheTurnChanged(t *testing.T) {
	s, leak := pendingAt2000()
	m := menderOf(t, s)
	m.found.add([]Leak{leak})
	tn := &turn{overlay: map[trigger.Key]*entry{"k": {key: "k", dirty: true}}}
	if err := m.mend(tn); err != nil {
		t.Fatal(err)
	}
	if len(tn.mended.leaks) != 0 || !m.found.some() {
		t.Errorf("mended %d leaks of a trigger that the turn has changed", len(tn.mended.leaks))
	}
}

// TestMendOfADamagedState: no turn can write it, so the store is built anew.
func TestMendOfADamagedState(t *testing.T) {
	s, _ := pendingAt2000()
	m := menderOf(t, s)
	m.found.add([]Leak{{Kind: LeakStateDamaged, Key: "k", Error: "cut short"}})
	if err := m.mend(&turn{}); !errors.Is(err, statestore.ErrCorrupt) {
		t.Errorf("%v, want %v", err, statestore.ErrCorrupt)
	}
}
