package statestore

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/trigger"
)

// What has fired must not slow a partition down for ever (docs/testing.md F22, F31). The tests
// count Pebble's own steps and seeks, not time.

// pendingAfterHistory is how many triggers are pending after all that have fired.
const pendingAfterHistory = 1000

// maxSteps bounds the first search for a due timer, however many timers have fired before.
const maxSteps = 200

func histories() []int {
	if os.Getenv("WATERCLOCK_TEST_SOAK") != "" {
		return []int{1_000_000, 10_000_000}
	}
	return []int{10_000, 60_000}
}

// TestFiredCostsNothing fires triggers one after another. It stores and forgets the done record
// of each, then searches for the next: from a cursor as the engine does, and without one, as
// right after opening.
func TestFiredCostsNothing(t *testing.T) {
	for _, fired := range histories() {
		o := Options{Dir: t.TempDir() + "/p0", MemTableBytes: 1 << 20}
		s := lived(t, o, fired)
		cursor := trigger.Instant(1_000_000 + fired)
		if n := stepsToFirst(t, s, tableDue, s.dueBound(DueKey{Due: cursor})); n > maxSteps {
			t.Errorf("after %d fires the next one is %d steps away", fired, n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = opened(t, o)
		if n := stepsToFirst(t, s, tableDue, s.dueBound(DueKey{Due: cursor})); n > maxSteps {
			t.Errorf("opened after %d fires, the next one is %d steps away", fired, n)
		}
		if n := stepsToFirst(t, s, tableDone, tableDone.lower()); n > fired/10+maxSteps {
			t.Errorf("opened after %d fires that are forgotten, the first to forget is %d steps away", fired, n)
		}
		if n := stepsToAll(t, s, tableKey); n > 2*pendingAfterHistory+fired/10 {
			t.Errorf("opened after %d fires that are forgotten, reading %d keys takes %d steps", fired,
				pendingAfterHistory, n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// opened returns a store whose partition runs: it is out of Fill, and its runs are merged.
func opened(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err == nil {
		err = s.Filled()
	}
	if err != nil {
		t.Fatal(err)
	}
	for quiet := 0; quiet < 3; time.Sleep(10 * time.Millisecond) {
		quiet++
		if m := s.db.Metrics(); m.Compact.NumInProgress+m.Flush.NumInProgress > 0 {
			quiet = 0
		}
	}
	return s
}

// lived returns a store in which so many triggers have fired and are forgotten, and
// pendingAfterHistory are pending. A turn fires 500, and a trigger is forgotten two turns later.
func lived(t *testing.T, o Options, fired int) *Store {
	t.Helper()
	s := opened(t, o)
	const turn = 500
	b := s.NewBatch()
	commit := func() {
		t.Helper()
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range pendingAfterHistory {
		b.Put(nil, pastRow(fired+i))
	}
	commit()
	for from := 0; from < fired; from += turn {
		for i := from; i < from+turn; i++ {
			b.Put(nil, pastRow(i))
		}
		commit()
		for i := from; i < from+turn; i++ {
			row := pastRow(i)
			b.Put(&row, finished(row))
			if i >= 2*turn {
				b.Delete(finished(pastRow(i - 2*turn)))
			}
		}
		commit()
	}
	for i := max(fired-2*turn, 0); i < fired; i++ {
		b.Delete(finished(pastRow(i)))
	}
	commit()
	return s
}

// pastRow returns trigger i, due at the i-th millisecond.
func pastRow(i int) Row {
	key := trigger.Key(fmt.Sprintf("t-%08d", i))
	return Row{
		Key: key, Value: fmt.Appendf(nil, "%0100d", i),
		Timers: []trigger.Timer{{
			Due: trigger.Instant(1_000_000 + i), Priority: trigger.Normal,
			Kind: trigger.TimerSeries, Occurrence: "1",
		}},
	}
}

// stepsToFirst counts Pebble's steps to the first entry of a table at or after a key.
func stepsToFirst(t *testing.T, s *Store, table table, from []byte) int {
	t.Helper()
	it, err := s.iter(table, from)
	if err != nil {
		t.Fatal(err)
	}
	it.First()
	return steps(t, it)
}

func stepsToAll(t *testing.T, s *Store, table table) int {
	t.Helper()
	it, err := s.iter(table, table.lower())
	if err != nil {
		t.Fatal(err)
	}
	for it.First(); it.Valid(); it.Next() {
	}
	return steps(t, it)
}

func steps(t *testing.T, it *pebble.Iterator) int {
	t.Helper()
	st := it.Stats()
	points := int(st.InternalStats.PointCount)
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	return st.ForwardStepCount[pebble.InternalIterCall] + st.ForwardSeekCount[pebble.InternalIterCall] + points
}
