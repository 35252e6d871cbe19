// Package output looks after the topics that due events go to. They are the
// channels' own: they may be missing, too small, closed to us, or away.
//
//	topics.go   which due topics there are; they are created where that is allowed
//	sizes.go    what a record of a topic may take at most
//	health.go   topics that refuse records, and when they are tried next
//
// # Who is right
//
// The brokers are. What is known here is a cache: a topic that refuses a record is
// asked for anew.
//
// # Promises
//
//   - A topic that refuses records holds up its own triggers and no others.
//   - What is known costs a map lookup.
package output
