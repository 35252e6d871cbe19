package handover

import (
	"fmt"

	"github.com/waterclock/waterclock/topics"
)

// input is a log, and what is known of it.
type input struct {
	log  *Log
	last *topics.LastRead
	next *int64
}

func (r *Resumption) at() input {
	p, g := &r.out.Progress, &r.out.Guard
	if r.input == 0 {
		return input{&r.found.Commands, &g.Commands, &p.NextCommand}
	}
	return input{&r.found.Receipts, &g.Receipts, &p.NextReceipt}
}

// mayHaveLost reports whether there is a record to compare with. A log that was truncated
// and filled anew has the expected offsets but other records: commands that were never
// read.
func (in input) mayHaveLost() bool {
	return *in.last != (topics.LastRead{}) && in.last.Offset >= in.log.Start && in.last.Offset < *in.next
}

// Lost takes the answer: the offset from which on the log is not the one that was read. A
// value below 0 means that it is the same, or that nothing shows a difference.
func (r *Resumption) Lost(offset int64) error {
	if in := r.at(); offset >= 0 {
		from := min(offset, *in.next)
		err := r.accept(from, fmt.Sprintf(
			"%s/%d was read up to %d, but offset %d has another record: the log lost its end at %d or before, and "+
				"what was appended since was never read",
			in.log.Topic, r.owner.Partition, *in.next, in.last.Offset, from))
		if err != nil {
			return err
		}
		*in.next, *in.last = from, topics.LastRead{}
	}
	if err := r.follow(); err != nil {
		return err
	}
	r.input++
	return nil
}

// follow begins to read an input where progress says, if the log reaches that far.
func (r *Resumption) follow() error {
	in := r.at()
	log, next := in.log, in.next
	if *next < log.Start {
		if r.out.Progress.Seq > 0 { // also if nothing had come yet: an earlier owner saw the log begin
			err := r.accept(log.Start, fmt.Sprintf("%s/%d begins at %d, but was read only up to %d", log.Topic,
				r.owner.Partition, log.Start, *next))
			if err != nil {
				return err
			}
		}
		*next = log.Start
	}
	if *next > log.End {
		err := r.accept(log.End, fmt.Sprintf(
			"%s/%d ends at %d, but was read up to %d: the topic was made again, or lost its end", log.Topic,
			r.owner.Partition, log.End, *next))
		if err != nil {
			return err
		}
		*next = log.End
	}
	r.out.Follow[r.input] = Follow{Topic: log.Topic, Start: log.Start, Next: *next}
	return nil
}
