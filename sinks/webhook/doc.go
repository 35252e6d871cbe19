// Package webhook is the worker of channel webhook: it reads due events, posts
// each to its callback URL, and writes what became of it as a receipt. It
// stands on package worker of clients/go, as anybody's worker does.
//
// # Deciding and doing
//
//	callback.go   header wcx-callback → what to call; its origin
//	request.go    due event + settings → request; pure
//	sign.go       Standard Webhooks signatures; the keys in force
//	answer.go     what came back → receipt; a pure table
//	endpoint.go   one tenant's origin: breaker and counts
//	endpoints.go  all of them, bounded; shares between tenants; rates
//	worker.go     the handler: may it go out, send it, what became of it
//	send.go       one request over the guarded transport, within its bounds
//	publish.go    the state of endpoints → topic endpoints
//
// # Promises
//
//   - Only a 2xx that arrives whole is delivered. A redirect is never followed.
//   - Waiting is the engine's. The worker tries once; between attempts nothing
//     of a delivery is in any process's memory but the engine's timers.
//   - An attempt that is not sent uses up none: an open breaker, a pause, a
//     rate, a full endpoint, a tenant over its share answer postponed.
//   - Nothing of a payload, a name or an answer reaches a header unescaped.
//   - Every call goes through Options.Transport, which dials guarded, and
//     through Options.Check before that.
//   - Bounded: requests in all, of a tenant while others want to send, of an
//     endpoint, bytes of an answer, endpoints that are remembered.
//
// # Whose breaker
//
// Each process has its own, per tenant and origin. A tenant whose URLs make an
// origin answer errors does not stop the calls of others to it.
package webhook
