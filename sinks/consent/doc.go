// Package consent applies users' preferences for all our workers: once for each batch of due
// events, right before they are sent.
//
//	gate.go    one answer for each due event of a batch: send, suppress or postpone
//	claims.go  dedup_window and max_per_user, by claims in the preference store
//
// # Source of truth
//
// The source of truth is the preference store. Nothing is cached: what OnBatch read applies to
// the events of that batch, for at most a second. Of reads anew for an event that has waited
// longer, for example for an endpoint's turn.
//
// # Promises
//
//   - An opt-out that a PUT has acknowledged applies to the very next due event.
//   - A store that does not answer delays a batch by at most Options.Within, and the
//     batches of the next second not at all. Priority high is sent without preferences,
//     and its receipt says so; everything else is postponed. Nothing is lost.
//   - A due event without a user is sent.
//   - A due event that was emitted before its user was erased is suppressed, at any priority.
//   - A message is claimed by its ce_id before it is sent. Every later attempt, in any
//     worker, finds the claim and gets the same answer.
package consent
