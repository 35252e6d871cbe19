package barrier

import (
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// Round is one try to fire what is due. It goes from question to question, and asks each at
// most once.
//
//	Ends ─▶ (commands: Stable ─▶ Skip) ─▶ (receipts: Stable ─▶ Skip) ─▶ Nothing
//
// Stable finds out why an input brings nothing although its end is not reached. Either the
// rest is compacted or aborted and will never be delivered, or a foreign transaction is open.
type Round struct {
	b        *Barrier
	now      trigger.Instant
	demand   Demand
	phase    phase
	stable   int64
	released [2]time.Time
}

type phase uint8

const (
	askEnds phase = iota
	ofCommands
	passCommands
	ofReceipts
	passReceipts
	over
)

// Question is what to ask now. For Ends, read the clock before asking: everything
// acknowledged until then is below the answer.
type Question struct {
	Ask   Ask
	Input *Input // of Stable and Skip
}

// Ask is a kind of question.
type Ask uint8

// Each question has a method that takes its answer.
const (
	Nothing Ask = iota
	Ends        // the high watermarks of both inputs: Round.Ends
	Stable      // the last stable offset of an input: Round.Stable
	Skip        // the end of the records that no reader gets, from its position on: Round.Skipped
)

// GaveUp is an end that was given up behind an open transaction.
type GaveUp struct {
	Topic       string
	Stable, End int64
	Held        time.Duration
}

// Begin is called with the time that decides what is due.
func (b *Barrier) Begin(now trigger.Instant, d Demand) Round {
	b.Clock(now)
	return Round{b: b, now: now, demand: d}
}

// Next returns the question to ask now. After Nothing, the inputs say what may fire.
func (r *Round) Next(now time.Time) Question {
	for ; r.phase < over; r.phase++ {
		switch r.phase {
		case askEnds:
			if r.b.mustAsk(r.now, r.demand) {
				return Question{Ask: Ends}
			}
		case ofCommands, ofReceipts:
			if in := r.input(); in.stalled(now) {
				in.checked = now
				return Question{Ask: Stable, Input: in}
			}
		case passCommands:
			r.released[0] = r.b.Commands.pass()
		case passReceipts:
			r.released[1] = r.b.Receipts.pass()
		}
	}
	return Question{}
}

// Released returns since when open transactions held the inputs that this round passed;
// zero if none did.
func (r *Round) Released() [2]time.Time { return r.released }

func (r *Round) input() *Input {
	if r.phase == ofCommands {
		return &r.b.Commands
	}
	return &r.b.Receipts
}

// Ends takes the high watermarks. asked must be read before the question.
func (r *Round) Ends(asked trigger.Instant, commands, receipts int64) {
	r.b.answered(asked, commands, receipts)
	r.phase++
}

// Stable takes the last stable offset of the input. Hidden records below it may be skipped;
// the next question asks for them.
func (r *Round) Stable(stable int64, now time.Time) (q Question, gaveUp *GaveUp) {
	in := r.input()
	r.stable = stable
	if in.at < stable {
		return Question{Ask: Skip, Input: in}, nil
	}
	return Question{}, r.hold(in, now)
}

// Skipped takes the end of the records that no reader gets.
func (r *Round) Skipped(next int64, now time.Time) *GaveUp {
	in := r.input()
	in.at = max(in.at, min(next, r.stable))
	return r.hold(in, now)
}

func (r *Round) hold(in *Input, now time.Time) (gaveUp *GaveUp) {
	end := in.end
	if in.hold(r.stable, now, r.b.maxHold) {
		gaveUp = &GaveUp{Topic: in.Topic, Stable: r.stable, End: end, Held: now.Sub(in.since)}
	}
	r.phase++
	return gaveUp
}
