// Package fair decides which of the due timers fires next.
//
//	queue.go   the order: on time, overdue, catching up
//	lanes.go   by priority, and every tenant in turn
//	lane.go    one tenant's timers, earliest first
//	pacer.go   the rate at which missed occurrences fire
//	held.go    timers whose receipts are still unread
//
// A lane here is one tenant's timers in memory. The high lane of a channel is a topic, and
// another thing.
//
// # Source of truth
//
// The state of a trigger is. A queue holds references to timers. A cancelled timer still
// comes out of it, and the caller finds that it is stale.
//
// # Promises
//
//   - The earliest due time is known exactly: a successor reads the due index from there.
//   - No goroutine, no lock, no clock.
//   - A timer costs no allocation but its slot in a chunk of its lane.
package fair
