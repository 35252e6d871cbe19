package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/pipeline/output"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Every record is measured before it is produced, against what its topic takes:
// one record that the broker refuses fails the turn, and that of every owner
// after us.
//
//	event        loses payload, detail and tags          topics.AppendEventWithin
//	rejected     the beginning of key, headers, value    topics.RejectedWithin
//	dead letter  the same of the payload                 topics.DeadLetterWithin
//	state        the command is refused, too_large       tooLarge
//	due event    put off, then a dead letter             tooLargeToFire
//	progress     bounded by the number of partitions     stateFloor

// sizes is what an opened partition goes by: kgo asks once for each partition
// of a topic, so nothing changes until it is opened again.
type sizes struct {
	all *output.Sizes

	mu   sync.Mutex
	used map[string]int
}

// of is output.Sizes.Of as it was when it was first asked.
func (s *sizes) of(topic string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.used[topic]
	if !ok {
		n = output.MaxBatchBytes
		if s.all != nil {
			n = s.all.Of(topic)
		}
		s.used[topic] = n
	}
	return n
}

// forKgo is of for the client's batches. It takes no less than 512.
func (s *sizes) forKgo(topic string) int32 { return int32(max(s.of(topic), 512)) }

// learnSizes asks what our own topics take, and refuses those that take too
// little to say what does not fit.
func (p *Partition) learnSizes(ctx context.Context) error {
	n := p.opts.Names
	floors := map[string]int{
		n.State(): stateFloor(p.opts.Partitions), n.Events(): topics.MinRecordBytes,
		n.Rejected(): topics.MinRecordBytes, n.DeadLetter(): topics.MinRecordBytes,
	}
	all := p.dueTopics.Sizes
	if err := all.Learn(ctx, output.SizesFor, slices.Sorted(maps.Keys(floors))...); err != nil {
		p.log.Debug("what topics take is not known; going by Kafka's default", "error", err)
	}
	for topic, floor := range floors {
		if has := all.Of(topic); has < floor {
			return fmt.Errorf("topic %s takes records of %d bytes (max.message.bytes): it needs %d at least", topic,
				has, floor)
		}
	}
	return nil
}

// stateFloor is what a record of progress can take: two maps with an entry for
// each partition of commands and of receipts, and the topics of all channels.
func stateFloor(partitions int32) int { return 96<<10 + 2*2*30*int(partitions) }

// resize learns from a turn that failed because a record was too large for a
// topic. It returns false if that says nothing about sizes.
func (p *Partition) resize(refused *produceError) bool {
	if !errors.Is(refused.err, kerr.MessageTooLarge) && !errors.Is(refused.err, kerr.RecordListTooLarge) {
		return false
	}
	used := p.kafka.sizes.of(refused.topic)
	learned := p.dueTopics.Sizes.Refused(context.Background(), refused.topic, used, !p.dueTopics.IsDue(refused.topic))
	if learned {
		p.log.Warn("a topic takes smaller records than was known; going by that", "topic", refused.topic, "was", used,
			"is", p.dueTopics.Sizes.Of(refused.topic))
	}
	return learned
}

// most is what a record of ours on a topic may take.
func (p *Partition) most(topic string) int {
	return min(p.kafka.sizes.of(topic), topics.MaxRecordBytes)
}

// recordBytes is topics.RecordBytes of a record that kgo has.
func recordBytes(r *kgo.Record) int {
	size := topics.RecordBytes(r.Key, r.Value, nil)
	for i := range r.Headers {
		size += topics.HeaderBytes(r.Headers[i].Key, r.Headers[i].Value)
	}
	return size
}

// maxForwarded is what a record may take that is brought to its right partition,
// where three headers of ours are added. It depends on nothing, so that every
// owner forwards the same records.
const maxForwarded = output.MaxBatchBytes - 1<<10

var errNotForwarded = &trigger.Error{
	Code: trigger.CodeTooLarge,
	Msg:  "the record stands on another partition than its key's, and is too large to be forwarded",
}

// stateRoom is left for what a state grows by between commands: occurrences in
// flight, 128 at most, and firings remembered.
const stateRoom = 48 << 10

// mostState is what a state may take when a command has changed it.
func (p *Partition) mostState() int {
	n := p.kafka.sizes.of(p.names.state)
	return min(topics.MaxRecordBytes, n-min(stateRoom, n/2))
}

// tooLarge refuses a change whose record would not fit into topic state, as
// 128 occurrences in flight with different contents can make it, or a topic
// that takes less than we would write.
func (p *Partition) tooLarge(out *trigger.Outcome) *trigger.Error {
	if s := out.State; s == nil || len(s.Live) == 0 &&
		contentBytes(&s.Spec)+skipBytes*len(s.Series.Skip) < p.mostState()/4 {
		return nil
	}
	b, err := topics.AppendStateAs(nil, out.State, topics.Newest)
	if err != nil || topics.RecordBytes([]byte(out.State.Key), b, nil) > p.mostState() {
		return &trigger.Error{
			Code: trigger.CodeTooLarge,
			Msg:  "the trigger with what is in flight of it would not fit into a record",
		}
	}
	return nil
}

// skipBytes is about what an occurrence takes in a state that a skip left out.
const skipBytes = 32

// addsNothing are the ops that make a record no larger, but for the note of a
// pause, for which there is room: a trigger that what is in flight has filled must
// still be stopped by its owner.
var addsNothing = map[trigger.Op]bool{
	trigger.OpCancel: true, trigger.OpErase: true, trigger.OpAck: true,
	trigger.OpPause: true, trigger.OpResume: true,
}

// contentBytes is what of a Spec may be large.
func contentBytes(s *trigger.Spec) int {
	n := len(s.Payload) + 64*(len(s.When.Include)+len(s.When.Exclude))
	for i := range s.Headers {
		n += topics.HeaderBytes(s.Headers[i].Key, s.Headers[i].Value)
	}
	for i := range s.Tags {
		n += len(s.Tags[i].Key) + len(s.Tags[i].Value)
	}
	return n
}

// dueRoom is more than a due event takes beside its content.
const dueRoom = 8 << 10

// tooLargeToFire says that a due event does not fit its topic, which is its
// channel's and may take less than ours; "" if all do. Only this trigger waits
// for that, and fails of it at last: its neighbours' events fit.
func (p *Partition) tooLargeToFire(t *turn, fires []trigger.Fire) (reason string, err error) {
	for i := range fires {
		f := &fires[i]
		settings := p.opts.Channels.Settings(f.Channel)
		topic := p.dueTopic(&settings, f)
		most := p.kafka.sizes.of(topic)
		if contentBytes(f.Spec)+dueRoom <= most {
			continue
		}
		size := topics.RecordBytes(topics.DueRecord(f, p.dueEnv(t)))
		if size <= most {
			continue
		}
		if now := p.dueTopics.Sizes.Of(topic); size <= now {
			return "",
				fmt.Errorf("topic %s takes records of %d bytes by now, not %d: opening the partition again to send "+
					"them", topic, now, most)
		}
		p.dueTopics.Sizes.LearnBeside(topic)
		return fmt.Sprintf("the due event takes %d bytes, and topic %s takes records of %d (max.message.bytes)", size,
			topic, most), nil
	}
	return "", nil
}
