package consent_test

import (
	"context"
	"fmt"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/sinks/consent"
)

// A due event without a user is sent, whatever any user prefers.
func ExampleGate() {
	gate := consent.New(consent.Options{Channel: "push"})
	e := &worker.DueEvent{Key: "pills", Tenant: "acme", Attempt: 1}
	gate.OnBatch(context.Background(), []*worker.DueEvent{e})
	fmt.Println("send:", gate.Of(context.Background(), e).Answer == nil)
	// Output: send: true
}
