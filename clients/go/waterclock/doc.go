// Package waterclock calls Waterclock, a durable scheduler on Kafka, by HTTP,
// and verifies the webhooks that it sends.
//
//	c, err := waterclock.New("http://127.0.0.1:8080")
//	r, err := c.Schedule(ctx, "hold-8c4", waterclock.Register{
//		When: waterclock.In(7 * time.Minute), Channel: "orders", Payload: hold,
//	})
//
// Package producer, beside it, sends the same commands by Kafka; package worker
// handles what is due. The guide is docs/api/go.md.
//
// # Promises
//
//   - A call that returns nil was obeyed, unless the result has Decided false:
//     then it is durable, and the engine is yet to decide.
//   - Every other outcome is an *Error. MaybeApplied says whether the write may
//     have been obeyed all the same.
//   - What is not safe to repeat is not repeated: see Retries.
//   - Waits, answers and retries are bounded, by options with defaults.
//
// # Code
//
//	client.go    New, its options, one request
//	retry.go     which calls are repeated, and when
//	errors.go    Error and its types
//	register.go  what a register has
//	command.go   commands as values: for batches and for Kafka
//	writes.go, reads.go, batch.go, follow.go  the calls
//	webhook.go   Verifier
//
// Other clients do the same: clients/conformance has the cases.
package waterclock
