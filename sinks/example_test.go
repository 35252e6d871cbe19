package sinks_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/embedded"
	"github.com/waterclock/waterclock/trigger"
)

// What the engine wrote to topic events becomes rows, which are read page by page.
func ExampleHistory() {
	dir, err := os.MkdirTemp("", "history-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	var history sinks.History
	if history, err = embedded.Open(embedded.Options{Dir: dir, Retention: 90 * 24 * time.Hour}); err != nil {
		fmt.Println(err)
		return
	}
	defer history.Close()
	now := time.Now()
	event, err := sinks.DecodeEvent([]byte(fmt.Sprintf(`{"type":"trigger.registered","v":1,"trigger":"tea","tenant":"default",`+
		`"seq":1,"event_us":%d,"event_id":"0-%d","occurred_at":%q,"state":"PENDING"}`,
		now.UnixMicro(), now.UnixMicro(), now.UTC().Format(time.RFC3339Nano))), now)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	batch := []sinks.EventRecord{{Event: event, Partition: 0, Offset: 41}}
	fmt.Println(history.Apply(ctx, batch), history.Apply(ctx, batch)) // the second time changes nothing
	page, err := history.Events(ctx, sinks.EventQuery{Tenant: trigger.DefaultTenant, Trigger: "tea", Limit: 10})
	fmt.Println(len(page.Events), page.Events[0].Type, err)
	progress, err := history.Progress(ctx)
	fmt.Println(progress[0].Next, err)
	// Output:
	// <nil> <nil>
	// 1 trigger.registered <nil>
	// 42 <nil>
}
