// Package embedded keeps preferences in a directory, on Pebble: for
// `waterclock dev`, which has no PostgreSQL. One process has the directory.
//
// # The keyspace
//
//	p <tenant> 0 <user>   the document, as preferences.Encode spells it
//	m <tenant> 0 <user>   the user's move: 8 bytes of seq, big-endian, then the zone
//	o <seq>               whose move that is: the oldest first
//	s                     the last seq that was given
//	format                "1"
//
// Neither a tenant nor a user has control characters, so the 0 ends the tenant.
//
// # Promises
//
//   - Put is one batch that is synced to disk: preferences are kept nowhere else.
//   - Claims are in memory. They end with the process, and moves are claimed again.
package embedded
