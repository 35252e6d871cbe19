package statestore

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/trigger"
)

// TestAuditStateOfNobody loses the key of a state. Its timer holds the state and would fire, so
// it is damage and not a stray timer.
func TestAuditStateOfNobody(t *testing.T) {
	s := mustOpen(t, Options{Dir: "s", FS: vfs.NewMem()})
	b := s.NewBatch()
	b.Put(nil, pending("a", 100))
	b.Put(nil, pending("b", 200))
	mustCommit(t, b)
	if err := s.db.Delete(appendStateKey(nil, "b"), pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	sn := s.Snapshot()
	defer sn.Close()
	var seen []string
	_, _, err := sn.AuditTimers(DueKey{}, 10, func(_ DueKey, value []byte) bool {
		seen = append(seen, string(value))
		return true
	})
	if !errors.Is(err, ErrCorrupt) || len(seen) != 1 || seen[0] != "state of a" {
		t.Errorf("%q, %v", seen, err)
	}
	if is, ok := errors.AsType[*StateError](err); !ok || is.Key != "b" {
		t.Errorf("%v, and it is of b", err)
	}
}

// TestAuditNamesWhatIsDamaged loses the timer that holds a state. The error must name the key of
// that state, not of the one before it.
func TestAuditNamesWhatIsDamaged(t *testing.T) {
	s := mustOpen(t, Options{Dir: "s", FS: vfs.NewMem()})
	b := s.NewBatch()
	b.Put(nil, pending("a", 100))
	b.Put(nil, pending("b", 200))
	b.Put(nil, pending("c", 300))
	mustCommit(t, b)
	if err := s.db.Delete(appendTimerKey(nil, pending("b", 200).Timers[0], "b"), pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	sn := s.Snapshot()
	defer sn.Close()
	_, _, err := sn.AuditStates("", 10, func(trigger.Key, []byte, func(trigger.Timer) (bool, error)) (bool, error) {
		return true, nil
	})
	if is, ok := errors.AsType[*StateError](err); !errors.Is(err, ErrCorrupt) || !ok || is.Key != "b" {
		t.Errorf("%v, and it is of b", err)
	}
}
