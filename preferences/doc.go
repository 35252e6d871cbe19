// Package preferences is what a user wants of notifications: on which channels,
// of which types, and at which hours. It decides about one due event; workers
// act on the decision.
//
//	preferences.go   the model, and its bounds
//	document.go      its JSON: what GET shows and PUT takes
//	decode.go        strict reading of it; an error names the field
//	decide.go        preferences + due event + now → send, suppress or postpone
//	quiet.go         quiet hours as instants, in the user's zone
//	claims.go        how many messages, and how often one of a type: dedup_window, max_per_user
//	erasure.go       users who are to be forgotten
//	store.go         where they are kept: one interface, embedded and postgres
//
// # Who is right
//
// The store. Nothing is cached: workers read the preferences of a polled batch
// in one call, so that an opt-out holds for the next event.
//
// # Promises
//
//   - Decide is pure. It has no clock: the caller brings the time.
//   - An opt-out binds every priority. Quiet hours do not bind `high`.
//   - Quiet hours are half-open wall times of the user's zone. A wall time that a
//     clock change skips is later by the gap; of one that is read twice, the first
//     counts. Package calendar resolves them.
//   - Channel names are compared in lower case, and are kept so.
//   - Everything is bounded: see the constants in preferences.go.
//   - A message that was claimed has one answer for all attempts, workers and restarts.
//     Claims expire, and are swept.
//   - A new zone of a user and its row in the outbox are one transaction. So are the end of a
//     user's preferences and the row of the erasure.
package preferences
