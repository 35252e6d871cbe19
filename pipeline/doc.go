// Package pipeline is the machine: commands become due events, exactly once.
//
// # One turn
//
// One goroutine owns one partition: one Pebble store, one timing wheel, one
// transactional producer. It turns and turns, and a turn happens entirely or
// not at all:
//
//	1_poll     commands and receipts, or the next due time, whichever is first
//	           (package barrier: before anything due at T may fire, everything that
//	           Kafka had acknowledged at T has been read)
//	2_apply    decide each command; the overlay remembers, nothing is written
//	3_advance  the wheel says which timers are due
//	4_emit     decide each again against the state, and make the due events
//	5_commit   state, then progress, then EndTransaction; only then Pebble
//
// # Files
//
//	open.go           a partition is made ready: fence, nonce, restore.go, resume.go
//	                  (package handover: what the next owner does with what the last has left)
//	open_dangling.go  what the owner before us left open is ended (package dangling)
//	partition.go      the turn; 1_poll to 5_commit are its stages
//	2_apply_receipt   how a failed delivery is retried
//	timers.go         what is due next: the wheel, and the queue of package fair
//	read_barrier.go   the questions that package barrier wants answered
//	forward*.go       records on the wrong partition go to the right one; outbox.go, claims.go
//	guard.go          logs that lost their end, second writers, other groups
//	unreadable.go     batches that nobody can read are passed over
//	process.go kept.go  what partitions share; what is kept from one opening to the next
//	view.go           what readers may see; decided.go: what became of the latest commands
//
// # What a crash does
//
//	before EndTransaction          the broker aborts; the turn never happened
//	EndTransaction answered late   restore.go reads the log and knows
//	before the Pebble batch        restore.go replays the turn from topic state
//	in the Pebble batch            it is atomic; as before or as after
//	the disk is gone, or too old   the store is rebuilt from topic state alone
//
// # Who is right
//
// Kafka is. The store is a cache of topic state, the wheel a cache of the
// store. Any error, and any answer that leaves a doubt, drops overlay, wheel,
// client and store, and opens the partition again: there is no other recovery.
//
// # Who may write
//
// InitProducerID on "<group>-<partition>" is the lock. The consumer group only
// hints at who should own what; a frozen owner that wakes up is fenced by the
// broker, whatever it believes.
package pipeline
