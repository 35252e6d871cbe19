package statestore

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/trigger"
)

// A history is what has fired: it must cost a partition nothing for ever
// (docs/testing.md F22, F31). Counted are Pebble's own steps and seeks, not time.

// pendingAfterHistory is how many triggers wait behind what has fired.
const pendingAfterHistory = 1000

// maxSteps is what the first look for something due may take, whatever has
// fired before.
const maxSteps = 200

func histories() []int {
	if os.Getenv("WATERCLOCK_TEST_SOAK") != "" {
		return []int{1_000_000, 10_000_000}
	}
	return []int{10_000, 60_000}
}

// TestFiredCostsNothing fires one trigger after another, remembers and forgets
// each, and looks for the next: from the cursor as the engine does, and without
// it, right after opening.
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

// opened is a store whose partition fires, and which has merged what it found.
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

// lived is a store in whose life so many triggers have fired and have been
// forgotten, and pendingAfterHistory wait. Turns are 500 fires, and a trigger
// is forgotten two turns later.
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

// pastRow is trigger i, due at the i-th millisecond.
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

// stepsToFirst is what Pebble does to find the first entry of a table from a
// key on.
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
