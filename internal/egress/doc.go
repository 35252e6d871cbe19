// Package egress decides which callback URLs may be called, and calls no others.
//
// A Policy is pure: settings in, verdict out, without DNS and without a clock.
// Gateway and engine ask it when a trigger is registered, and the Transport asks
// it again for each request.
//
// A Transport is the only way out. A URL says nothing of where its host
// resolves to, so the address is checked once more when it is dialled
// (net.Dialer.Control), after resolution: no answer of DNS can come between the
// check and the dial.
//
// # What is allowed
//
//	                     public https     listed name        listed literal   loopback (dev)
//	scheme               https            as listed          as listed        http, https
//	port                 443, from 1024   as listed          as listed        any
//	addresses dialled    public           public, private    the literal      127.0.0.0/8, ::1
//
// "Listed" is the origin in webhook.allow or in the tenant's callback_allow.
// With webhook.strict the first column is empty. A listed name never leads to
// loopback, link-local, metadata, multicast or embedded addresses: whoever can
// change its DNS does not get there. Connections of the columns are kept apart,
// so that a tenant who did not list an origin cannot use another's connection.
package egress
