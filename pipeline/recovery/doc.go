// Package recovery builds the store of a partition from topic state. An owner that opens
// the partition reads up to a nonce of its own; a standby reads on without an end.
//
//	replica.go     reads topic state into a store
//	same_state.go  refuses a topic state that lost turns which the store has
//	stale.go       when a store must not be resumed: too old, or of other topics
//	store.go       opens a store, and puts a damaged one aside
//	unused.go      finds and removes stores that nobody uses
//	topics.go      the topics that offsets belong to
//	meta.go        what a store records about itself
//
// # Source of truth
//
// Topic state is. The store is a cache of it and may be wiped at any moment. What it records
// about itself is trusted only as far as stale.go can check it.
//
// # Promises
//
//   - A store is resumed only while Kafka still keeps every tombstone that it may have missed.
//   - A batch is atomic: it is in the store whole or not at all.
package recovery
