package statestore_test

import (
	"fmt"
	"testing"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// ScanLive visits each timer of a live occurrence once, page by page, and no other timer.
func TestScanLive(t *testing.T) {
	store, err := statestore.Open(statestore.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	batch := store.NewBatch()
	const n = 50
	for i := range n {
		key := trigger.Key(fmt.Sprintf("k%02d", i))
		batch.Put(nil, statestore.Row{
			Key: key, Value: []byte("state of " + key), Tenant: trigger.DefaultTenant,
			Timers: []trigger.Timer{
				{Due: trigger.Instant(1000 + i%7), Kind: trigger.TimerSeries, Occurrence: "s"},
				{Due: trigger.Instant(1000 + i%5), Kind: trigger.TimerLive, Occurrence: "l"},
			},
		})
	}
	if err := batch.Commit(); err != nil {
		t.Fatal(err)
	}
	sn := store.Snapshot()
	defer sn.Close()
	seen, pages := map[trigger.Key]int{}, 0
	for at, more := (statestore.DueKey{}), true; more; pages++ {
		at, more, err = sn.ScanLive(at, 7, func(due trigger.Instant, occurrence string, key trigger.Key,
			value []byte,
		) bool {
			if seen[key]++; occurrence != "l" || due < 1000 || due > 1004 || string(value) != "state of "+string(key) {
				t.Errorf("%d %s %s: %s", due, key, occurrence, value)
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for key, times := range seen {
		if times != 1 {
			t.Errorf("%s was met %d times", key, times)
		}
	}
	if len(seen) != n || pages < 2*n/7 {
		t.Errorf("%d of %d met, in %d pages", len(seen), n, pages)
	}
}
