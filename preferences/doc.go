// Package preferences holds what notifications a user wants: on which channels, of which types,
// and at which hours. It decides on one due event; workers act on the decision.
//
//	preferences.go   the model, and its bounds
//	document.go      its JSON: what GET shows and PUT takes
//	decode.go        strict decoding; an error names the field
//	decide.go        preferences + due event + now → send, suppress or postpone
//	quiet.go         quiet hours as instants, in the user's zone
//	claims.go        how many messages, and how often one of a type: dedup_window, max_per_user
//	erasure.go       users to erase
//	store.go         the storage interface, which embedded and postgres implement
//
// # Source of truth
//
// The store. Nothing is cached: workers read the preferences of a polled batch in one call, so an
// opt-out applies to the next event.
//
// # Promises
//
//   - Decide is pure. It has no clock: the caller passes the time.
//   - An opt-out binds every priority. Quiet hours do not bind `high`.
//   - Quiet hours are half-open local times in the user's zone. A local time that a
//     clock change skips moves later by the gap. If a local time occurs twice, the
//     first one counts. Package calendar resolves them.
//   - Channel names are compared and stored in lower case.
//   - Everything is bounded: see the constants in preferences.go.
//   - A message that was claimed gets the same answer for all attempts, workers and
//     restarts. Claims expire, and are swept.
//   - A user's new zone and its row in the outbox are written in one transaction. So are
//     the end of a user's preferences and the row of the erasure.
package preferences
