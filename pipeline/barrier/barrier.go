// Package barrier keeps the promise that an acknowledged cancel wins. It decides
// without Kafka: its caller asks what a Round wants to know, and gives the answer
// back. Stories of what comes of it are in testdata/story.
//
//	barrier.go   what is read, and what must be read before anything fires
//	input.go     the same of one topic
//	round.go     one try to let what is due go, question by question
//
// # Model
//
// Before anything due at T fires, everything that Kafka had in commands when asked
// at or after T has been read. What waits for receipts (retries, steps, time-outs)
// waits for the same of receipts as well. Nothing else does, so a transaction left
// open on receipts holds up no one-shot.
//
// The end asked for is the high watermark, not the last stable offset: behind a
// foreign producer's open transaction an acknowledged cancel is invisible. Such a
// transaction holds firing back for at most MaxHold, once per stable offset. A mere
// backlog is read, however long it is.
//
// # Who is right
//
// The leader of commands is. What it says counts for what is due up to the moment
// before it was asked, and no later.
//
// # Promises
//
//   - An end that was reached is never lowered but by giving it up behind an open
//     transaction; the position stays, and what that commits later is read as always.
//   - No goroutine, no lock, no clock: the caller brings the time.
package barrier

import (
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// Barrier is how far the inputs of a partition have been read, and how far they
// must be.
type Barrier struct {
	Commands, Receipts Input

	maxHold time.Duration // how long an open transaction may hold firing back
}

// New begins where the inputs are read from. A fetch that has only begun is no
// hidden tail.
func New(commands, receipts Start, maxHold time.Duration, now time.Time) Barrier {
	return Barrier{Commands: commands.input(now), Receipts: receipts.input(now), maxHold: maxHold}
}

// Start is where an input is read from.
type Start struct {
	Topic  string
	Offset int64
}

func (s Start) input(now time.Time) Input {
	return Input{Topic: s.Topic, at: s.Offset, moved: now, tolerated: -1}
}

// Read notes that everything of a topic up to an offset was polled.
func (b *Barrier) Read(topic string, offset int64, now time.Time) {
	switch topic {
	case b.Commands.Topic:
		b.Commands.at, b.Commands.moved = offset+1, now
	case b.Receipts.Topic:
		b.Receipts.at, b.Receipts.moved = offset+1, now
	}
}

// Patience is how long a poll may wait while something is due.
func (b *Barrier) Patience() time.Duration {
	if b.Commands.Reached() && b.Receipts.Reached() {
		return 0
	}
	return 2 * time.Millisecond
}

// Demand is what wants to fire.
type Demand struct {
	InWheel bool
	Wheel   trigger.Instant // the next timer in the wheel
	Ready   trigger.Instant // the latest that came to be ready without passing the wheel
	Held    trigger.Instant // the latest that waits for receipts
}

// mustAsk says that something is due by now that the last answer does not cover.
// What the wheel has let go is covered; what is still in it may not be, however
// old the rest is that waits to be caught up with, nor what came to be ready
// without passing the wheel.
func (b *Barrier) mustAsk(now trigger.Instant, d Demand) bool {
	return b.Commands.asked == 0 || d.InWheel && b.Commands.asked < d.Wheel && d.Wheel <= now ||
		b.Commands.asked < d.Ready ||
		b.Receipts.Reached() && b.Receipts.asked < d.Held
}

// answered takes the high watermarks that Kafka gave to a question put at asked.
// Those of receipts are not moved while the last ones are still to be reached:
// under a steady flow they never would be.
func (b *Barrier) answered(asked trigger.Instant, commands, receipts int64) {
	b.Commands.asked, b.Commands.end = asked, commands
	if b.Receipts.Reached() {
		b.Receipts.asked, b.Receipts.end = asked, receipts
	}
}
