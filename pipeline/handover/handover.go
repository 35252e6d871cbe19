// Package handover decides how a new owner continues a partition, from what the last owner
// left
// and from what Kafka holds now. It does not ask Kafka: its caller asks the questions of
// Resumption.Next. Story files are in testdata.
//
//	handover.go  Resumption: the checks in their order, and the result
//	topics.go    topics that were deleted and made again
//	input.go     an input that lost its beginning or its end
//
// Only an operator can accept a loss (Accept). Without that the partition is refused, and
// nothing in it changes.
package handover

import (
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Left is what the last owner left; Progress.Seq is 0 if there was none.
type Left struct {
	Progress topics.Progress
	Guard    topics.Guard
}

// Found describes the partition's topics as they are now.
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

// Owner is the new owner.
type Owner struct {
	Partition int32
	Group     string
	Member    string // its group.instance.id
	Address   string // of its internal interface
	Now       trigger.Instant
}

// Accept reports whether an operator lets the partition continue at an offset although
// records before it are lost: nil, or why the partition is refused. For a topic that was made
// again the offset is a number of its own (Anew), and so it is for a long absence.
type Accept func(offset int64, lost string) error

// Resumption runs the checks in their order. Next returns the questions on the way.
type Resumption struct {
	owner  Owner
	found  Found
	accept Accept
	out    Result
	input  int // index of the input under check; 2: all are done
}

// Result says how the new owner continues.
type Result struct {
	Progress topics.Progress
	Guard    topics.Guard

	Follow      [2]Follow // commands, receipts
	TakenFrom   string    // the member that ran the partition before, if another
	ControlAnew bool      // control was made again: read it from its beginning
}

// Follow is the offset from which an input is read, and where its log starts.
type Follow struct {
	Topic       string
	Start, Next int64
}

// Question asks whether a log still holds the record that was read last.
type Question struct {
	Topic string
	Last  topics.LastRead
}

// compactionLag is min.compaction.lag.ms of topic commands. Younger records are all there.
const compactionLag = 7 * 24 * time.Hour

// Begin makes the checks that need no question.
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

// Next returns the next question; nil when Result is complete.
func (r *Resumption) Next() (*Question, error) {
	for ; r.input < len(r.out.Follow); r.input++ {
		if in := r.at(); in.mayHaveLost() {
			return &Question{Topic: in.log.Topic, Last: *in.last}, nil
		}
		if err := r.follow(); err != nil {
			return nil, err
		}
	}
	r.out.Guard.Seq = 0 // so the first turn writes the guard
	return nil, nil
}

// Result returns how the owner continues. Call it after Next has returned nil.
func (r *Resumption) Result() Result { return r.out }

// takeOver notes the new owner.
func (r *Resumption) takeOver() {
	p, g := &r.out.Progress, &r.out.Guard
	if p.Seq > 0 && p.Member != r.owner.Member {
		r.out.TakenFrom = p.Member
	}
	p.Term++
	p.Owner, p.Member = r.owner.Address, r.owner.Member
	p.CommandsID, p.StateID = r.found.Commands.ID, r.found.State
	g.ReceiptsID, g.ControlID, g.Group = r.found.Receipts.ID, r.found.Control, r.owner.Group
	p.Channels = nil // written by an older engine; the topics themselves count
}
