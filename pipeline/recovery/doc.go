// Package recovery makes the store of a partition from topic state: for whoever
// opens the partition up to a nonce of his own, for a standby without an end.
//
//	replica.go   topic state as it is read into a store
//	stale.go     when a store must not be resumed: too old, or of other topics
//	store.go     opening a store, and putting a damaged one aside
//	topics.go    the topics that offsets belong to
//	meta.go      what a store says of itself
//
// # Who is right
//
// Topic state is. The store is a cache of it and may be wiped at any moment; what
// it says of itself is believed only as far as stale.go can check it.
//
// # Promises
//
//   - A store is resumed only while Kafka still keeps every tombstone that it may
//     have missed.
//   - A batch is atomic: the store is as it was before, or as after.
package recovery
