// Package embedded keeps preferences in a directory, on Pebble. It serves `waterclock dev`, which
// has no PostgreSQL. Only one process can open the directory.
//
// # The keyspace
//
//	p <tenant> 0 <user>   the document, as preferences.Encode encodes it
//	m <tenant> 0 <user>   the user's move: 8 bytes of seq, big-endian, then the zone
//	o <seq>               the user of that move, oldest first
//	s                     the last seq that was assigned
//	c <recipient> <ce_id> the decision on a message; JSON
//	n <recipient> <at> <ce_id>   the same for a message that was sent, by time: 8 bytes of µs
//	t <recipient> <type> 0 <at> <ce_id>   the same for a sent message that has a type
//	e <until> <key in c>  the claim that expires then: 8 bytes of µs
//	x <hash>              a user's erasure; JSON
//	y <seq>               the hash of the user whose erasure is not done yet
//	format                "1"
//
// A recipient is <tenant> 0 <user> 0 <channel> 0. None of them has control characters, so the 0
// ends each.
//
// # Promises
//
//   - Put is one batch that is synced to disk, because there is no other copy of the preferences.
//   - Claims of moves and erasures are in memory only. They end with the process, and the next
//     process claims the work anew.
package embedded
