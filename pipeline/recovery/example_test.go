package recovery_test

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/waterclock/waterclock/pipeline/recovery"
)

// A partition has a store of its own below the directory. What it holds can always be read again
// from topic state.
func ExampleConfig_OpenStore() {
	dir, err := os.MkdirTemp("", "store-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	config := recovery.Config{Dir: dir, Partitions: 4, Logger: slog.New(slog.DiscardHandler)}
	store, err := config.OpenStore(3, config.Logger)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	fmt.Println("partitions with a store:", config.Stores(), "pending:", store.PendingCount())
	// Output: partitions with a store: [3] pending: 0
}
