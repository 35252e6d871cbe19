// Package webhook is the worker of channel webhook. It reads due events, posts each to its
// callback URL, and writes the result as a receipt. It is built on package worker of clients/go,
// like any user's worker.
//
// # Deciding and doing
//
//	callback.go   header wcx-callback → what to call; its origin
//	request.go    due event + settings → request; pure
//	sign.go       Standard Webhooks signatures; the keys in force
//	answer.go     answer → receipt; a pure table
//	endpoint.go   one tenant's origin: breaker and counts
//	endpoints.go  all of them, bounded; shares between tenants; rates
//	worker.go     the handler: may it go out, send it, write the result
//	send.go       one request over the guarded transport, within its bounds
//	publish.go    the state of endpoints → topic endpoints
//
// # Promises
//
//   - Only a complete 2xx answer is delivered. A redirect is never followed.
//   - The engine does all waiting. The worker tries once. Between attempts, a
//     delivery is only in the engine's timers and in no other memory.
//   - A postponed event uses up no attempt. It is postponed by an open breaker, a
//     pause, a rate, a full endpoint, or a tenant above its share.
//   - No payload, name or answer reaches a header unescaped.
//   - Every call passes Options.Policy and then Options.Transport, which checks
//     addresses when it dials.
//   - Bounded: requests in all, of a tenant while others want to send, and to an
//     endpoint; bytes of an answer; endpoints in memory.
//
// # Scope of a breaker
//
// Each process has its own breakers, one per tenant and origin. If a tenant's URLs make an origin
// fail, other tenants' calls to it continue.
package webhook
