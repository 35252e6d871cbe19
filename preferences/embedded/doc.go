// Package embedded keeps preferences in a directory, on Pebble: for
// `waterclock dev`, which has no PostgreSQL. One process has the directory.
//
// # The keyspace
//
//	p <tenant> 0 <user>   the document, as preferences.Encode spells it
//	m <tenant> 0 <user>   the user's move: 8 bytes of seq, big-endian, then the zone
//	o <seq>               whose move that is: the oldest first
//	s                     the last seq that was given
//	c <recipient> <ce_id> what was decided about a message; JSON
//	n <recipient> <at> <ce_id>   the same of one that was sent, by time: 8 bytes of µs
//	t <recipient> <type> 0 <at> <ce_id>   the same of one that has a type
//	e <until> <key in c>  which claim is over when: 8 bytes of µs
//	x <hash>              a user's erasure; JSON
//	y <seq>               whose erasure that is, if it is not done: the hash
//	format                "1"
//
// A recipient is <tenant> 0 <user> 0 <channel> 0. None of them has control characters, so
// the 0 ends each.
//
// # Promises
//
//   - Put is one batch that is synced to disk: preferences are kept nowhere else.
//   - Claims are in memory. They end with the process, and moves are claimed again.
package embedded
