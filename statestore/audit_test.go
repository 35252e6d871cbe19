package statestore

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestAuditStateOfNobody: the key of a state is lost. Its timer holds the state and would
// fire, so it is damage and not a stray timer.
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
}
