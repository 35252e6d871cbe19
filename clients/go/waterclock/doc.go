// Package waterclock calls Waterclock, a durable scheduler on Kafka, over HTTP. It also verifies
// the webhooks that Waterclock sends.
//
//	c, err := waterclock.New("http://127.0.0.1:8080")
//	r, err := c.Schedule(ctx, "hold-8c4", waterclock.Register{
//		When: waterclock.In(7 * time.Minute), Channel: "orders", Payload: hold,
//	})
//
// Package producer sends the same commands over Kafka. Package worker handles due events. The
// guide is docs/api/go.md.
//
// # Promises
//
//   - A call that returns nil was applied, unless the result has Decided false: then the command is
//     durable, but the engine has not decided it yet.
//   - Every other outcome is an *Error. Its MaybeApplied says whether the write may have been applied
//     anyway.
//   - A call is repeated only if that is safe: see Retries.
//   - Waits, answers and retries are bounded, by options with defaults.
//
// # Code
//
//	client.go    New, its options, one request
//	retry.go     which calls are repeated, and when
//	errors.go    Error and its types
//	register.go  the fields of a register
//	command.go   commands as values: for batches and for Kafka
//	writes.go, reads.go, batch.go, follow.go, deadletters.go  the calls
//	webhook.go   Verifier
//
// The clients in other languages behave the same way: clients/conformance has the shared test
// cases.
package waterclock
