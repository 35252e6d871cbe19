// Package output manages the topics of due events. They belong to channels, so they may be
// missing, too small, denied to us, or away.
//
//	topics.go   which due topics exist; creates them where that is allowed
//	sizes.go    the largest record of a topic
//	health.go   topics that refuse records, and when they are tried next
//
// # Source of truth
//
// The brokers are. What is known here is a cache: a topic that refuses a record is asked for
// anew.
//
// # Promises
//
//   - A topic that refuses records delays its own triggers and no others.
//   - A known topic costs a map lookup.
package output
