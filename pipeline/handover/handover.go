// Package handover decides how an owner goes on with a partition: from what the
// owner before it has left, and from what Kafka holds now. It asks nobody: whoever
// opens the partition puts its questions (Resumption.Next), and story files under
// testdata show what comes of the answers.
//
//	handover.go  Resumption: the checks in their order, and the result
//	topics.go    topics that were deleted and made again
//	input.go     an input that lost its beginning or its end
//
// What is lost can be passed only by an operator (Accept). Without that the
// partition is refused, and nothing of it changes.
package handover

import (
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Left is what the owner before has left; Progress.Seq is 0 if there was none.
type Left struct {
	Progress topics.Progress
	Guard    topics.Guard
}

// Found is what the partition's topics are now.
type Found struct {
	Commands, Receipts Log
	State, Control     [16]byte // topic ids
}

// Log is one input of the partition.
type Log struct {
	Topic      string
	ID         [16]byte // of the topic
	Start, End int64    // first offset, and high watermark
}

// Owner is who goes on.
type Owner struct {
	Partition int32
	Group     string
	Member    string // its group.instance.id
	Address   string // of its internal interface
	Now       trigger.Instant
}

// Accept answers whether an operator lets the partition go on from an offset
// although something before it is lost: nil, or why the partition is refused. A
// topic that was made again has a number of its own in place of an offset (Anew).
type Accept func(offset int64, lost string) error

// Resumption goes from check to check; Next says what must be asked on the way.
type Resumption struct {
	owner  Owner
	found  Found
	accept Accept
	out    Result
	input  int // the one at hand; 2: all are done
}

// Result is how the owner goes on.
type Result struct {
	Progress topics.Progress
	Guard    topics.Guard

	Follow      [2]Follow // commands, receipts
	TakenFrom   string    // the member that ran the partition before, if it is another
	ControlAnew bool      // control was made again: what it holds now is read from its beginning
}

// Follow is how far an input is known, and from where on it is read.
type Follow struct {
	Topic       string
	Start, Next int64
}

// Question asks whether a log still holds what was read of it last.
type Question struct {
	Topic string
	Last  topics.LastRead
}

// compactionLag is min.compaction.lag.ms of topic commands: what is younger is
// all there.
const compactionLag = 7 * 24 * time.Hour

// Begin checks what needs no question.
func Begin(owner Owner, left Left, found Found, accept Accept) (*Resumption, error) {
	r := &Resumption{
		owner: owner, found: found, accept: accept,
		out: Result{Progress: left.Progress, Guard: left.Guard},
	}
	if err := r.sameTopics(); err != nil {
		return nil, err
	}
	if err := r.keptFromCompaction(); err != nil {
		return nil, err
	}
	r.takeOver()
	return r, nil
}

// Next is the question at hand, or nil: then Result is complete.
func (r *Resumption) Next() (*Question, error) {
	for ; r.input < len(r.out.Follow); r.input++ {
		if in := r.at(); in.mayHaveLost() {
			return &Question{Topic: in.log.Topic, Last: *in.last}, nil
		}
		if err := r.follow(); err != nil {
			return nil, err
		}
	}
	r.out.Guard.Seq = 0 // the first turn writes it, whatever it changes
	return nil, nil
}

// Result is how the owner goes on, after Next has had no more questions.
func (r *Resumption) Result() Result { return r.out }

// takeOver writes down who owns the partition from now on.
func (r *Resumption) takeOver() {
	p, g := &r.out.Progress, &r.out.Guard
	if p.Seq > 0 && p.Member != r.owner.Member {
		r.out.TakenFrom = p.Member
	}
	p.Term++
	p.Owner, p.Member = r.owner.Address, r.owner.Member
	p.CommandsID, p.StateID = r.found.Commands.ID, r.found.State
	g.ReceiptsID, g.ControlID, g.Group = r.found.Receipts.ID, r.found.Control, r.owner.Group
	p.Channels = nil // of an engine of before: topics say which there are
}
