// Package notify is the worker of channels push, sms and email. It reads due events, renders each
// in the user's language and local time, sends it by a provider, and writes the result as a
// receipt. It is built on package worker of clients/go, like any user's worker.
//
// # Deciding and doing
//
//	payload.go  payload → title, body, deep_link, template_id, template_data, to; pure
//	plan.go     which addresses, which providers, the message, the sum of answers; pure
//	templates/  text from the operator's files
//	pause.go    providers that have asked for fewer messages
//	worker.go   the handler: consent, payload, address, text, provider, receipt
//	provider.go the interface of providers; providers/ has them
//
// # Promises
//
//   - What a user's preferences forbid is not sent (package consent).
//   - The engine does all waiting. A message is sent once to each address. An event that is
//     not sent because a provider pauses, or preferences cannot be read, uses up no attempt.
//   - A push goes to every installation of the user. It succeeds if one of them accepts it.
//   - A retry goes to all installations, also to those that accepted it: providers collapse
//     copies by Message.ID.
//   - An address that a provider reports as dead is deleted, unless the user has replaced it.
//   - No payload or template can put a line end into a header.
package notify
