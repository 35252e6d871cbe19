// Package consent asks what users allow, for every worker of ours: once for each
// batch of due events, right before they go out.
//
//	gate.go    one answer for each due event of a batch: send, suppress or postpone
//	claims.go  dedup_window and max_per_user, by claims in the preference store
//
// # Who is right
//
// The preference store. Nothing is cached: what OnBatch read counts for the events
// of that batch, and for at most a second. Of reads anew what has waited longer, such
// as for an endpoint's turn.
//
// # Promises
//
//   - An opt-out that PUT has answered holds for the very next due event.
//   - A store that does not answer holds a batch up for at most Options.Within, and
//     those of the next second not at all. Priority high is sent unread, and its receipt
//     says so; everything else is postponed. Nothing is lost.
//   - A due event without a user is sent.
//   - One that was emitted before its user was erased is suppressed, of any priority.
//   - A message is claimed before it is sent, by its ce_id. Every later attempt, in any
//     worker, finds the claim and gets the same answer.
package consent
