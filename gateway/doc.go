// Package gateway is the HTTP door: what a caller without a Kafka client
// registers, changes, asks and cancels by. It keeps no state of its own.
//
// # Who is right
//
// Kafka is, and the engine that owns a trigger's partition. A write becomes a
// command record; the answer is what the owner decided about that record, after
// its commit. A read goes to the owner, which passes its read barrier first, so
// any instance reads what any instance has acknowledged.
//
// # The life of a write
//
//	caller ─▶ auth/           who asks, for which tenant, how fast (limits.go)
//	          body.go         one JSON object, bounded in size and depth
//	          command.go      the command's JSON, checked by topics.DecodeCommand:
//	                          what is refused here never reaches Kafka
//	          producer.go     acks=all, header wcx-ask        durable from here
//	          peer/           Decision of the owner, at most AnswerWithin
//	          answer.go       200/201 decided, 202 to be decided, or a problem/
//
// # Promises
//
//   - A 2xx other than 202 to a write: durable in Kafka and decided by the
//     owner, after its commit. 202: durable, to be decided.
//   - A 503 to a write: it may or may not be in Kafka; the problem names the
//     trigger_id, and repeating the request under it is safe.
//   - No answer, list, cursor, event or error tells one tenant anything about
//     another's triggers: what is not yours does not exist.
//   - Any bytes in a request give an answer described by /openapi.json.
package gateway
