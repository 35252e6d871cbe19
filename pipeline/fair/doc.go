// Package fair says who fires next of all that is due.
//
//	queue.go   what goes first: what is on time, what is overdue, what is caught up with
//	lanes.go   by priority, and every tenant in turn
//	lane.go    one tenant's timers, earliest first
//	pacer.go   the rate at which missed runs are caught up with
//	held.go    what a receipt may still decide otherwise
//
// # Who is right
//
// The state of a trigger is. A queue holds references to timers; what was
// cancelled comes out of it all the same, and the caller finds it stale.
//
// # Promises
//
//   - The earliest due time is known exactly: a successor reads the due index from
//     there on.
//   - No goroutine, no lock, no clock.
//   - Nothing is allocated for a timer but its place in a chunk of its lane.
package fair
