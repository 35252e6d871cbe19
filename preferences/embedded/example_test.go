package embedded_test

import (
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/preferences/embedded"
)

// A retry of a message that was claimed is admitted again. A second message of the same type is not.
func ExampleStore_Admit() {
	store, err := embedded.Open(embedded.Options{Dir: "preferences", FS: vfs.NewMem()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	ada := preferences.User{Tenant: "acme", ID: "ada"}
	one := preferences.Message{
		User: ada, Channel: "push", ID: "standup@09:00#0", Occurrence: "standup@09:00", Type: "standup",
	}
	other := preferences.Message{
		User: ada, Channel: "push", ID: "meeting@09:05#0", Occurrence: "meeting@09:05", Type: "standup",
	}
	codes, err := store.Admit(context.Background(), time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC),
		preferences.Limits{Window: time.Hour}, []preferences.Message{one, one, other})
	fmt.Printf("%q %v\n", codes, err)
	// Output: ["" "" "duplicate"] <nil>
}
