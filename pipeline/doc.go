// Package pipeline runs partitions: commands become due events, exactly once.
//
// # One turn
//
// One goroutine owns one partition: one Pebble store, one timing wheel, one transactional
// producer. It runs turn after turn. A turn happens entirely or not at all:
//
//	1_poll     commands and receipts, or the next due time, whichever is first
//	           (package barrier: before anything due at T may fire, everything that
//	           Kafka had acknowledged at T has been read)
//	2_apply    decide each command; results stay in the overlay, nothing is written
//	3_advance  the wheel says which timers are due
//	4_emit     decide each timer against the state, and make the due events
//	5_commit   state, then progress, then EndTransaction; only then Pebble
//
// # Files
//
//	open.go           opens a partition: fence, nonce, restore, resume
//	open_guard.go     whose the partition is; a topic state that lost its end
//	open_dangling.go  ends the transaction that the last owner left open (package dangling)
//	open_restore.go   the store from topic state (package recovery)
//	open_resume.go    how the next owner continues (package handover)
//	partition.go      the turn; 1_poll to 5_commit are its stages
//	2_apply_receipt   how a failed delivery is retried
//	admit.go          refuses registers over a limit (package quota), and what is too large
//	4_emit.go         how a due event is made; topics/3_due.go encodes it
//	destinations.go   where due events go, and whether they can go there now
//	timers.go         what is due next: the wheel, and the queue of package fair
//	consumer.go       reads the inputs; read_barrier.go asks the questions of package barrier
//	forward*.go       forward records on the wrong partition; outbox.go, claims.go
//	forget.go         drops done records; unknown.go bounds those of unknown keys
//	guard.go          what the next owner checks inputs by; second writers
//	watermarks*.go    say up to when everything due is out (package watermark); put_off.go
//	reconcile.go      compares timers with states; mend.go writes what differs anew
//	unreadable.go     skips batches that nobody can read
//	process.go        what the partitions of a process share
//	kept.go           what is kept from one opening to the next
//	view.go           what readers may see
//	decided.go        the outcomes of the latest commands
//
// # What a crash does
//
//	before EndTransaction          the broker aborts; the turn never happened
//	EndTransaction answered late   open_restore.go reads the outcome from the log
//	before the Pebble batch        open_restore.go applies the turn from topic state
//	in the Pebble batch            the batch is atomic: as before it, or as after it
//	the disk is gone, or too old   the store is rebuilt from topic state alone
//
// # Source of truth
//
// Kafka is. The store is a cache of topic state, and the wheel is a cache of the store. After
// any error or doubt the partition drops overlay, wheel, client and store, and opens anew.
// There is no other recovery.
//
// # Who may write
//
// InitProducerID on "<group>-<partition>" is the lock. The consumer group only hints at who
// should own a partition. The broker fences a frozen owner that wakes up, whatever it
// believes. More: package engine.
package pipeline
