package providers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/waterclock/waterclock/sinks/notify"
	"github.com/waterclock/waterclock/sinks/notify/providers"
)

// The outbox takes the place of a real provider. What would have been sent is a file.
func ExampleOutbox() {
	dir, err := os.MkdirTemp("", "outbox-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	box, err := providers.NewOutbox(providers.OutboxOptions{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer box.Close()
	m := notify.Message{
		ID: "acme/tea@2026-11-20T09:00:00#0", Channel: "sms", Address: "+4930123456", Body: "The tea is ready.",
	}
	for range 2 { // the second is a retry
		fmt.Println(box.Send(context.Background(), &m).Result.Outcome)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "sms-*.json"))
	text, err := os.ReadFile(files[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	var sent providers.OutboxMessage
	fmt.Println(json.Unmarshal(text, &sent), len(files), sent.To, sent.Body, sent.Times)
	// Output:
	// accepted
	// accepted
	// <nil> 1 +4930123456 The tea is ready. 2
}
