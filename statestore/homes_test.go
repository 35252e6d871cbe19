package statestore

import (
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/trigger"
)

// TestScanHomes checks that a scan visits every unfinished trigger once, the earliest timer first
// and paused triggers last, and that it can resume after each of them.
func TestScanHomes(t *testing.T) {
	for seed := range uint64(20) {
		s := mustOpen(t, Options{Dir: "/p0", FS: vfs.NewMem()})
		m, b := newModel(seed), s.NewBatch()
		for range 30 {
			m.fill(b)
			if err := b.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		var want []Home
		for key, row := range m.rows {
			switch timers := sortedTimers(nil, row.Timers); {
			case len(timers) > 0:
				want = append(want, Home{Due: DueKey{timers[0].Due, Ref(timers[0], key)}})
			case row.ForgetAt == 0:
				want = append(want, Home{Here: key})
			}
		}
		slices.SortFunc(want, compareHomes)
		sn := s.Snapshot()
		for i := -1; i < len(want); i++ {
			after := Home{}
			if i >= 0 {
				after = want[i]
			}
			for _, most := range []int{1, len(want) + 1} {
				got := scanHomes(t, sn, m, after, most)
				if rest := want[i+1:]; !slices.Equal(got, rest[:min(most, len(rest))]) {
					t.Fatalf("seed %d: after %v: %v, want %v", seed, after, got, rest)
				}
			}
		}
		if err := sn.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func scanHomes(t *testing.T, sn *Snapshot, m *model, after Home, most int) (got []Home) {
	t.Helper()
	err := sn.ScanHomes(after, func(at Home, key trigger.Key, value []byte) bool {
		if string(value) != string(m.rows[key].Value) {
			t.Errorf("%s at %v holds %q, want %q", key, at, value, m.rows[key].Value)
		}
		got = append(got, at)
		return len(got) < most
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func compareHomes(a, b Home) int {
	switch {
	case a.Here == "" && b.Here == "":
		return slices.Compare(appendDueKey(nil, a.Due.Due, a.Due.Ref), appendDueKey(nil, b.Due.Due, b.Due.Ref))
	case a.Here == "":
		return -1
	case b.Here == "":
		return 1
	}
	return slices.Compare([]byte(a.Here), []byte(b.Here))
}
