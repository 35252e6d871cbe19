// Package gateway is the HTTP API. Callers without a Kafka client use it to register,
// change, read and cancel triggers. It keeps no state of its own.
//
// # Source of truth
//
// Kafka is, and the engine that owns a trigger's partition. A write becomes a
// command record; the answer is what the owner decided about that record, after
// its commit. A read goes to the owner, which passes its read barrier first, so
// any instance reads what any instance has acknowledged.
//
// # The life of a write
//
//	caller ─▶ auth/           who asks, for which tenant, how fast (rate_limits.go)
//	          body.go         one JSON object, bounded in size and depth
//	          command.go      the command's JSON, checked by topics.DecodeCommand:
//	                          a refused command never reaches Kafka
//	          command_log.go  acks=all, header wcx-ask        durable from here
//	          decide.go       asks for the decision, at most AnswerWithin (peer/)
//	          answer.go       200/201 decided, 202 not decided yet, or a problem/
//
// # Where things are
//
//	server.go options.go        the parts of a Server, and its listener
//	handler.go route.go         from a request to its route; routes.go is the one table of them
//	triggers.go patch.go        writes of one trigger; conflicts.go retries, respell.go: trigger to register
//	batch.go batch_chunk.go     many writes
//	reminders.go short_form.go  other names for the same
//	list.go cursor.go           lists; reads.go bounds costly reads
//	event_log.go events.go      what happened to a trigger; follow.go streams it
//	explain.go                  why it did or did not fire; search.go finds what a text names
//	occurrences.go upcoming.go  coming occurrences; preview.go
//	lateness.go expected.go     how late due events were; what falls due by minute and hour
//	live.go                     what happens now, as a stream; live_feeds.go asks owners, live_feed.go has it
//	partitions.go calendars.go channels.go   what operators see and change
//	watermarks.go               up to when everything due is out
//	openapi.go bodies.go        /openapi.json; docs.go for people
//	audit.go observe.go         refused attempts, metrics, traces
//
//	problem/  errors        auth/  callers        peer/  reads, wherever a partition is
//	explain/  what became of a trigger, in a sentence; pure
//
// The subpackages never import this package.
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
