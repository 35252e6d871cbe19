// Package notify is the worker of channels push, sms and email: it reads due
// events, renders each in the user's language and local time, sends it by a
// provider, and writes what became of it as a receipt. It stands on package worker
// of clients/go, as anybody's worker does.
//
// # Deciding and doing
//
//	payload.go  payload → title, body, deep_link, template_id, template_data, to; pure
//	plan.go     which addresses, which providers, the message, the sum of answers; pure
//	templates/  text from the operator's files
//	pause.go    providers that have asked for fewer messages
//	worker.go   the handler: consent, payload, address, text, provider, receipt
//	provider.go what a provider is; providers/ has them
//
// # Promises
//
//   - What a user does not allow is not sent (package consent).
//   - Waiting is the engine's. A message is sent once to each address, and what is not
//     sent because a provider pauses, or the preferences cannot be read, uses up no attempt.
//   - A push goes to every installation of the user. One that took it is enough.
//   - A retry sends to all installations, also to those that took it: providers collapse
//     copies by Message.ID.
//   - An address that a provider calls dead is deleted, if it still stands there.
//   - Nothing of a payload or template reaches a header with a line end.
package notify
