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

// Resolution decides how dangling transactions of one producer are ended. It never
// calls Kafka: the caller does each step that Next returns, and reports the answer.
//
//	Inspect ─▶ (FindEnding) ─▶ End aborted ⇄ Check ─▶ End committed ⇄ Check ─▶ Done
type Resolution struct {
	how    Ending
	before map[TopicPartition]Ending // due topics that did not answer an earlier opening
	isDue  func(topic string) bool
	warn   func(msg string, args ...any)

	left       Leftover // result of the inspection
	groups     []Step   // still to be ended; the first one is under way
	refused    []TopicPartition
	unresolved map[TopicPartition]Ending
	next       Step
}

// Step is what to do next.
type Step struct {
	Do  Do
	How Ending           // of End
	At  []TopicPartition // of FindEnding, End and Check
}

// Do is a kind of step.
type Do string

// Each step has a method that takes its answer.
const (
	Inspect    Do = "inspect"     // find open transactions: Inspected
	FindEnding Do = "find ending" // find the ending in topic state, as the brokers forgot it: Found
	End        Do = "end"         // end what is open: Ended
	Check      Do = "check"       // check that it is ended: Checked
	Done       Do = "done"
)

// Leftover lists partitions with open transactions that no producer seems to end.
type Leftover struct {
	Ours    []TopicPartition         // a transaction of our producer
	Perhaps []TopicPartition         // the producer is unknown, because asking needs READ
	Unknown map[TopicPartition]error // the partition did not answer
}

// All lists the partitions where a transaction is open.
func (l *Leftover) All() []TopicPartition { return slices.Concat(l.Ours, l.Perhaps) }

// NewResolution starts with how the last transaction ended. before is the result of
// Unresolved in the last opening.
func NewResolution(
	how Ending, before map[TopicPartition]Ending, isDue func(string) bool, warn func(string, ...any),
) *Resolution {
	r := &Resolution{how: how, before: before, isDue: isDue, warn: warn, next: Step{Do: Inspect}}
	if how == NeverBegun {
		r.unresolved, r.next = before, Step{Do: Done}
	}
	return r
}

// Next returns the step to do now.
func (r *Resolution) Next() Step { return r.next }

// Unresolved lists the due topics that have not said whether a transaction is open there,
// with how it must be ended. No record may go there until they answer.
func (r *Resolution) Unresolved() map[TopicPartition]Ending { return r.unresolved }

// Inspected takes the partitions with open transactions.
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

// plan ends each partition the way its last transaction ended. A partition that did not
// answer an earlier opening got no records since, so the ending of that time counts.
func (r *Resolution) plan() error {
	was := func(at TopicPartition) Ending { return cmp.Or(r.before[at], r.how) }
	r.unresolved = map[TopicPartition]Ending{}
	for _, at := range sorted(r.left.Unknown) {
		err := r.left.Unknown[at]
		if !r.isDue(at.Topic) {
			return fmt.Errorf("end of %s/%d: %w", at.Topic, at.Partition, err)
		}
		r.warn("a due topic cannot be checked for a dangling transaction; its triggers wait",
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

// begin starts the first group.
func (r *Resolution) begin() {
	if len(r.groups) == 0 {
		r.next = Step{Do: Done}
		return
	}
	r.next = r.groups[0]
	r.warn("a transaction was left open; ending this engine's part",
		"how", string(r.next.How), "where", fmt.Sprint(r.next.At))
}

// Ended takes the partitions that refused. Only due topics may refuse.
func (r *Resolution) Ended(refused []TopicPartition) error {
	for _, at := range refused {
		if !r.isDue(at.Topic) {
			return fmt.Errorf("end the dangling transaction in %s/%d: refused", at.Topic, at.Partition)
		}
		r.warn("a due topic refuses the end of a dangling transaction",
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

// Checked takes what is still open. Those partitions are ended once more, because a leader
// may have gone before its marker came.
func (r *Resolution) Checked(left Leftover) error {
	for _, at := range sorted(left.Unknown) {
		return fmt.Errorf("check the end of the transaction in %s/%d: %w", at.Topic, at.Partition, left.Unknown[at])
	}
	if len(left.Perhaps) > 0 {
		r.warn("a transaction is open in a topic that the engine may not read; its own is ended, so this one "+
			"counts as another producer's", "where", fmt.Sprint(left.Perhaps))
	}
	if len(left.Ours) == 0 {
		r.closeGroup()
		return nil
	}
	r.next = Step{Do: End, How: r.next.How, At: left.Ours}
	return nil
}

// closeGroup goes on to the next group. A partition that refused, and surely has our
// transaction, stays unresolved.
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
