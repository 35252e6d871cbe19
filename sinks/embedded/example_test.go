package embedded_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/embedded"
)

// A record that is not an event has only a position. The history continues after it, also after a
// restart.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "history-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	for range 2 {
		history, err := embedded.Open(embedded.Options{Dir: dir, Retention: 90 * 24 * time.Hour})
		if err != nil {
			fmt.Println(err)
			return
		}
		before, err := history.Progress(ctx)
		fmt.Println("goes on at", before[3].Next, err)
		if err := history.Apply(ctx, []sinks.EventRecord{{Partition: 3, Offset: 7, Poison: true}}); err != nil {
			fmt.Println(err)
		}
		if err := history.Close(); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// goes on at 0 <nil>
	// goes on at 8 <nil>
}
