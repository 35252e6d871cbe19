package statestore_test

import (
	"fmt"
	"os"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
)

// A turn writes all its changes at once. Due timers are read in the order of their times.
func ExampleStore_ScanDue() {
	dir, err := os.MkdirTemp("", "statestore-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store, err := statestore.Open(statestore.Options{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	turn := store.NewBatch()
	for key, due := range map[trigger.Key]trigger.Instant{"tea": 7000, "egg": 3000} {
		turn.Put(nil, statestore.Row{
			Key: key, Value: []byte("the encoded state"), Tenant: trigger.DefaultTenant,
			Timers: []trigger.Timer{{Due: due, Kind: trigger.TimerSeries, Priority: trigger.Normal}},
		})
	}
	if err := turn.Commit(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("pending:", store.PendingCount())
	err = store.ScanDue(statestore.DueKey{}, func(due trigger.Instant, ref string) bool {
		_, key, _, _, _ := statestore.ParseRef(ref)
		fmt.Println(due, key)
		return true
	})
	fmt.Println(err)
	// Output:
	// pending: 2
	// 1970-01-01T00:00:03.000Z egg
	// 1970-01-01T00:00:07.000Z tea
	// <nil>
}
