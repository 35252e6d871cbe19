package dangling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/waterclock/waterclock/internal/kafkapart"
)

// TopicPartition is where a transaction may be open.
type TopicPartition = kafkapart.TopicPartition

// Resolution decides how dangling transactions of one producer are ended. It
// asks nobody: its caller does what Next says, and gives the answer back.
//
//	Inspect ─▶ (FindEnding) ─▶ End aborted ⇄ Check ─▶ End committed ⇄ Check ─▶ Done
type Resolution struct {
	how    Ending
	before map[TopicPartition]Ending // due topics that have not answered since an opening before
	isDue  func(topic string) bool
	warn   func(msg string, args ...any)

	left       Leftover // as inspected
	groups     []Step   // to be ended yet; the first one is at hand
	refused    []TopicPartition
	unresolved map[TopicPartition]Ending
	next       Step
}

// Step is what is to be done next.
type Step struct {
	Do  Do
	How Ending           // of End
	At  []TopicPartition // of FindEnding, End and Check
}

// Do is a kind of step.
type Do string

// The steps, and the method that takes the answer.
const (
	Inspect    Do = "inspect"     // where anything is open: Inspected
	FindEnding Do = "find ending" // in topic state, as nobody knows it: Found
	End        Do = "end"         // what is open: Ended
	Check      Do = "check"       // that it is ended: Checked
	Done       Do = "done"
)

// Leftover is where transactions are open that nobody seems to end.
type Leftover struct {
	Ours    []TopicPartition         // one of our producer
	Perhaps []TopicPartition         // whose it is we may not ask, which needs READ
	Unknown map[TopicPartition]error // no answer
}

// All are those where something is open.
func (l *Leftover) All() []TopicPartition { return slices.Concat(l.Ours, l.Perhaps) }

// NewResolution begins with how the last transaction ended. before is what
// Unresolved was when the partition was opened last.
func NewResolution(
	how Ending, before map[TopicPartition]Ending, isDue func(string) bool, warn func(string, ...any),
) *Resolution {
	r := &Resolution{how: how, before: before, isDue: isDue, warn: warn, next: Step{Do: Inspect}}
	if how == NeverBegun {
		r.unresolved, r.next = before, Step{Do: Done}
	}
	return r
}

// Next is what is to be done now.
func (r *Resolution) Next() Step { return r.next }

// Unresolved are due topics that have not said whether a transaction is open
// there, with how it must be ended. Until they have, nothing may be written there.
func (r *Resolution) Unresolved() map[TopicPartition]Ending { return r.unresolved }

// Inspected takes where anything is open.
func (r *Resolution) Inspected(left Leftover) error {
	r.left = left
	if open := left.All(); r.how == Forgotten && len(open)+len(left.Unknown) > 0 {
		r.next = Step{Do: FindEnding, At: open}
		return nil
	}
	return r.plan()
}

// Found takes how the last transaction ended.
func (r *Resolution) Found(how Ending) error {
	r.how = how
	return r.plan()
}

// plan ends each partition as its last transaction ended. Nothing was written
// since to one that has not answered before.
func (r *Resolution) plan() error {
	was := func(at TopicPartition) Ending { return cmp.Or(r.before[at], r.how) }
	r.unresolved = map[TopicPartition]Ending{}
	for _, at := range sorted(r.left.Unknown) {
		err := r.left.Unknown[at]
		if !r.isDue(at.Topic) {
			return fmt.Errorf("where %s/%d ends: %w", at.Topic, at.Partition, err)
		}
		r.warn("a due topic does not say whether a transaction was left open in it; what is due there waits",
			"topic", at.Topic, "its_partition", at.Partition, "error", err)
		r.unresolved[at] = was(at)
	}
	for _, how := range []Ending{Aborted, Committed} {
		these := slices.DeleteFunc(r.left.All(), func(at TopicPartition) bool { return was(at) != how })
		if len(these) > 0 {
			r.groups = append(r.groups, Step{Do: End, How: how, At: these})
		}
	}
	r.begin()
	return nil
}

// begin takes the first group to hand.
func (r *Resolution) begin() {
	if len(r.groups) == 0 {
		r.next = Step{Do: Done}
		return
	}
	r.next = r.groups[0]
	r.warn("a transaction was left open; ending what is ours in it",
		"how", string(r.next.How), "where", fmt.Sprint(r.next.At))
}

// Ended takes which partitions refused to be ended. Due topics may.
func (r *Resolution) Ended(refused []TopicPartition) error {
	for _, at := range refused {
		if !r.isDue(at.Topic) {
			return fmt.Errorf("end what was left open in %s/%d: refused", at.Topic, at.Partition)
		}
		r.warn("a due topic refuses to have a transaction ended that was left open in it",
			"topic", at.Topic, "its_partition", at.Partition)
	}
	r.refused = append(r.refused, refused...)
	open := slices.DeleteFunc(slices.Clone(r.next.At), func(at TopicPartition) bool {
		return slices.Contains(refused, at)
	})
	if len(open) == 0 {
		r.closeGroup()
		return nil
	}
	r.next = Step{Do: Check, How: r.next.How, At: open}
	return nil
}

// Checked takes what is still open of what was to be ended: that is ended once
// more. A leader may have gone before its marker came.
func (r *Resolution) Checked(left Leftover) error {
	for _, at := range sorted(left.Unknown) {
		return fmt.Errorf("whether %s/%d is ended: %w", at.Topic, at.Partition, left.Unknown[at])
	}
	if len(left.Perhaps) > 0 {
		r.warn("a transaction is open in a topic that the engine may not read; after its own was ended it is taken "+
			"for somebody else's", "where", fmt.Sprint(left.Perhaps))
	}
	if len(left.Ours) == 0 {
		r.closeGroup()
		return nil
	}
	r.next = Step{Do: End, How: r.next.How, At: left.Ours}
	return nil
}

// closeGroup goes on with the next group. What refused and is surely ours stays
// unresolved.
func (r *Resolution) closeGroup() {
	for _, at := range r.refused {
		if slices.Contains(r.left.Ours, at) {
			r.unresolved[at] = r.groups[0].How
		}
	}
	r.groups, r.refused = r.groups[1:], nil
	r.begin()
}

func sorted[V any](m map[TopicPartition]V) []TopicPartition {
	return slices.SortedFunc(maps.Keys(m), TopicPartition.Compare)
}
