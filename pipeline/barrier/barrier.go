// Package barrier keeps the promise that an acknowledged cancel wins. It decides without
// Kafka: its caller asks the questions of a Round, and reports the answers. Story files
// are in testdata/story.
//
//	barrier.go   what has been read, and what must be read before a timer fires
//	input.go     the same for one topic
//	round.go     one try to fire what is due, question by question
//
// # Model
//
// Before a timer due at T fires, the partition reads everything that commands holds when
// asked at or after T. A timer that waits for receipts (retry, step, timeout) needs the same
// of receipts. No other timer does, so an open transaction on receipts delays no one-shot.
//
// The barrier asks for the high watermark, not for the last stable offset. An acknowledged
// cancel behind a foreign producer's open transaction is not visible yet. Such a transaction
// delays firing by at most MaxHold, once per stable offset. A chain of them does not delay
// it longer (Input.hold). A mere backlog is read to its end, however long it is.
//
// # Source of truth
//
// The leader of commands is. Its answer counts for what is due up to the moment before the
// question, and no later.
//
// # How a cancel could be missed
//
// A cancel that stands on its right partition before the due time, forwarded or not, could
// be missed in these ways. What excludes each:
//
//   - It is appended after the question. The answer counts only for what was due when the
//     clock was read, before the question (clock_set_back.txt; mutant: the clock read after).
//   - The clock was ahead then, and was set back. The answer is forgotten, also if nothing
//     is due when it is set back (clock_set_back_unnoticed.txt). By itself the clock is at
//     most a second ahead of the brokers' (pipeline/clock.go), also while a partition opens
//     (TestOpensWithoutTheBrokersTime).
//   - It is behind an open transaction, its own or another's. The high watermark counts. What
//     was open when it was given is waited for (open_transaction.txt, another_transaction.txt).
//   - A leader that was deposed answers. It is not believed, as far as can be known
//     (kafkapart.ListOffsets; GUARANTEES, deposed leaders).
//   - The partition has just opened. It begins at the first offset that is not applied, and
//     nothing counts as asked for.
//   - It is skipped. Only what no reader is ever given is skipped, up to the first batch that
//     is visible (hidden_tail.txt, kafkapart.HiddenThrough).
//   - It was read, and is not applied. What a turn has read, it applies before it fires; a
//     turn that fails is opened anew, from the offset in progress.
//   - It is taken for a copy of what was applied. Copies from one source come in the order
//     of its log, so below the highest origin offset that was applied there is nothing new
//     (pipeline/forwarded.go, outbox.go).
//   - Its timer is not in the wheel. Such timers ask, too (Demand.Ready).
//   - Its timer is armed by a command that was read with it, and the question came before that
//     command was decided (Demand.Expected). What was read is decided in its order, before
//     anything fires.
//
// A copy of a forwarded cancel counts from its append on the right partition, not from the
// moment at which the forwarder took it. A test's broker must stamp appends for that
// (pipelinetest/stamp.go, TestCancelForwardedLate).
//
// # Promises
//
//   - An end, once given, is lowered only if the barrier gives it up behind an open
//     transaction. The position stays, and what that transaction commits later is read.
//   - No goroutine, no lock, no clock: the caller brings the time.
package barrier

import (
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// Barrier knows how far the inputs of a partition have been read, and how far they must be.
type Barrier struct {
	Commands, Receipts Input

	maxHold time.Duration // how long an open transaction may delay firing
}

// New starts at the offsets where the inputs are read from. A fetch that has only begun
// does not count as hidden records.
func New(commands, receipts Start, maxHold time.Duration, now time.Time) Barrier {
	return Barrier{Commands: commands.input(now), Receipts: receipts.input(now), maxHold: maxHold}
}

// Start is the offset where an input is read from.
type Start struct {
	Topic  string
	Offset int64
}

func (s Start) input(now time.Time) Input {
	return Input{Topic: s.Topic, at: s.Offset, moved: now, tolerated: -1}
}

// Read notes that a topic was polled up to an offset.
func (b *Barrier) Read(topic string, offset int64, now time.Time) {
	switch topic {
	case b.Commands.Topic:
		b.Commands.at, b.Commands.moved = offset+1, now
	case b.Receipts.Topic:
		b.Receipts.at, b.Receipts.moved = offset+1, now
	}
}

// Clock notes the time. If the clock was set back, an answer given for a later time does not
// count any more, or it would count once more when that time comes. The caller reports every
// time that it reads while it waits, because the next round may be later than that.
func (b *Barrier) Clock(now trigger.Instant) {
	b.Commands.forget(now)
	b.Receipts.forget(now)
}

// MaxPollWait is how long a poll may wait while something is due.
func (b *Barrier) MaxPollWait() time.Duration {
	if b.Commands.Reached() && b.Receipts.Reached() {
		return 0
	}
	return 2 * time.Millisecond
}

// Demand is what is due.
type Demand struct {
	InWheel bool
	Wheel   trigger.Instant // due time of the next timer in the wheel
	Ready   trigger.Instant // latest due time of a ready timer that skipped the wheel
	Held    trigger.Instant // latest due time that waits for receipts
	Mark    trigger.Instant // when a watermark became due

	Expected trigger.Instant // since then commands are read that may be due at once; 0: they are not expected to
}

// mustAsk reports whether a due timer is not covered by the last answer. Timers that the
// wheel has released are covered. Timers still in the wheel may not be, however old the
// timers are that catch up. Neither may ready timers that skipped the wheel.
func (b *Barrier) mustAsk(now trigger.Instant, d Demand) bool {
	return b.Commands.asked == 0 || d.InWheel && b.Commands.asked < d.Wheel && d.Wheel <= now ||
		b.Commands.asked < d.Ready || b.Commands.asked < d.Mark || b.Commands.asked < d.Expected ||
		b.Receipts.Reached() && b.Receipts.asked < d.Held
}

// answered takes the high watermarks that Kafka gave to a question asked at asked. The end
// of receipts does not move before the last one is reached: under a steady flow it never
// would be.
func (b *Barrier) answered(asked trigger.Instant, commands, receipts int64) {
	b.Commands.give(asked, commands)
	if b.Receipts.Reached() {
		b.Receipts.give(asked, receipts)
	}
}
