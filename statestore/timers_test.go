package statestore

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/trigger"
)

// TestScanTimers compares scans from every position with a sorted list.
func TestScanTimers(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	s := mustOpen(t, Options{Dir: "/p0", FS: vfs.NewMem()})
	b := s.NewBatch()
	var want []TimerCursor
	for i := range 60 {
		key := trigger.Key(fmt.Sprint("k", i%30)) // one is a prefix of another
		if i >= 30 {
			key += "x"
		}
		row := Row{Key: key, Tenant: "default", Value: []byte("state of " + key)}
		prio := trigger.Priority(rng.IntN(3))
		for n := range rng.IntN(4) {
			due := trigger.Instant(100 + rng.IntN(5))
			timer := trigger.Timer{Due: due, Priority: prio, Kind: trigger.TimerLive, Occurrence: fmt.Sprint(n)}
			row.Timers = append(row.Timers, timer)
			want = append(want, TimerCursor{timer.Due, prio, key})
		}
		if len(row.Timers) == 0 {
			row.ForgetAt = 1000
		}
		b.Put(nil, row)
	}
	mustCommit(t, b)
	slices.SortFunc(want, func(a, b TimerCursor) int {
		return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Key, b.Key))
	})
	want = slices.Compact(want) // timers of one trigger at one instant
	sn := s.Snapshot()
	defer sn.Close()
	for i := -1; i < len(want); i++ {
		var after TimerCursor
		if i >= 0 {
			after = want[i]
		}
		var got []TimerCursor
		err := sn.ScanTimers(after, func(at TimerCursor, state func() ([]byte, error)) bool {
			if v, err := state(); string(v) != "state of "+string(at.Key) || err != nil {
				t.Errorf("%v: %q, %v", at, v, err)
			}
			got = append(got, at)
			return true
		})
		if err != nil || !slices.Equal(got, want[i+1:]) {
			t.Fatalf("after %v: %v, %v\nwant %v", after, got, err, want[i+1:])
		}
	}
	var from []TimerCursor
	err := sn.ScanTimers(TimerCursor{Due: 103}, func(at TimerCursor, _ func() ([]byte, error)) bool {
		from = append(from, at)
		return len(from) < 3
	})
	if err != nil || len(from) != 3 || from[0].Due < 103 {
		t.Errorf("from an instant: %v, %v", from, err)
	}
}
