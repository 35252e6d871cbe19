package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/pipeline/output"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Every record is measured before it is produced, against the limit of its topic. One
// record
// that the broker refuses fails the turn, and then the turn of every later owner.
//
//	event        loses payload, detail and tags          topics.AppendEventWithin
//	rejected     the beginning of key, headers, value    topics.RejectedWithin
//	dead letter  the same of the payload                 topics.DeadLetterWithin
//	state        the command is refused, too_large       tooLarge
//	due event    put off, then a dead letter             tooLargeToFire
//	progress     bounded by the number of partitions     stateFloor

// sizes holds the size limits of an open partition. kgo asks once for each partition of a
// topic, so the limits stay the same until the partition is opened anew.
type sizes struct {
	all   *output.Sizes
	state string // topic state

	mu   sync.Mutex
	used map[string]int
}

// of is output.Sizes.Of as it was on the first call.
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

// forKgo is of for the client's batches, which have at least 512 bytes.
func (s *sizes) forKgo(topic string) int32 { return int32(max(s.of(topic), 512)) }

// learnSizes asks for the limits of our own topics. It refuses topics whose limit is too
// low to record what does not fit.
func (o *opening) learnSizes(ctx context.Context) error {
	n := o.opts.Names
	floors := map[string]int{
		n.State(): stateFloor(o.opts.Partitions), n.Events(): topics.MinRecordBytes,
		n.Rejected(): topics.MinRecordBytes, n.DeadLetter(): topics.MinRecordBytes,
	}
	all := o.dueTopics.Sizes
	if err := all.Learn(ctx, output.SizesFor, slices.Sorted(maps.Keys(floors))...); err != nil {
		o.log.Debug("the size limits of topics are not known; using Kafka's default", "error", err)
	}
	for topic, floor := range floors {
		if has := all.Of(topic); has < floor {
			return fmt.Errorf("topic %s takes records of %d bytes (max.message.bytes): it needs %d at least", topic,
				has, floor)
		}
	}
	return nil
}

// stateFloor is the largest progress record: two maps with an entry for each partition of
// commands and of receipts, and the topics of all channels.
func stateFloor(partitions int32) int { return 96<<10 + 2*2*30*int(partitions) }

// errStateTooLarge says that a trigger no longer fits topic state: the topic's limit was lowered after the trigger was
// written. Each owner would fail at it. Only an operator can raise the limit.
var errStateTooLarge = errors.New("a trigger does not fit topic state any more")

// refused is why a record was not produced. It says so if a state is larger than the limit that the topic has.
func (s *sizes) refused(r *kgo.Record, err error) error {
	size := recordBytes(r)
	if r.Topic != s.state || size <= s.of(r.Topic) || !errors.Is(err, kerr.MessageTooLarge) {
		return err
	}
	return fmt.Errorf("%w: %q takes %d bytes, and the topic takes records of %d. Set its max.message.bytes to %d or "+
		"more",
		errStateTooLarge, r.Key, size, s.of(r.Topic), size+stateRoom)
}

// resize learns from a turn that failed because a record was too large for a topic. It
// returns false if the error says nothing about sizes.
func (s *sizes) resize(refused *produceError, isDue bool, log *slog.Logger) bool {
	if !errors.Is(refused.err, kerr.MessageTooLarge) && !errors.Is(refused.err, kerr.RecordListTooLarge) {
		return false
	}
	used := s.of(refused.topic)
	learned := s.all.Refused(context.Background(), refused.topic, used, !isDue)
	if learned {
		log.Warn("a topic accepts smaller records than expected; using the smaller limit",
			"topic", refused.topic, "was", used, "is", s.all.Of(refused.topic))
	}
	return learned
}

// most is the largest record of ours on a topic.
func (s *sizes) most(topic string) int {
	return min(s.of(topic), topics.MaxRecordBytes)
}

// recordBytes is topics.RecordBytes for a record of kgo.
func recordBytes(r *kgo.Record) int {
	size := topics.RecordBytes(r.Key, r.Value, nil)
	for i := range r.Headers {
		size += topics.HeaderBytes(r.Headers[i].Key, r.Headers[i].Value)
	}
	return size
}

// maxForwarded is the largest record that is forwarded; three headers of ours are added. It
// is a constant, so that every owner forwards the same records.
const maxForwarded = output.MaxBatchBytes - 1<<10

var errNotForwarded = &trigger.Error{
	Code: trigger.CodeTooLarge,
	Msg:  "the record is not on the partition of its key, and is too large to be forwarded",
}

// stateRoom is kept free for what a state gains between commands: up to 128 occurrences in
// flight, and the firings that it lists.
const stateRoom = 48 << 10

// mostState is the largest state that a command may leave.
func (s *sizes) mostState() int {
	n := s.of(s.state)
	return min(topics.MaxRecordBytes, n-min(stateRoom, n/2))
}

// tooLarge refuses a change whose record would not fit into topic state. The causes are 128
// occurrences in flight with different contents, or a topic with a low limit.
func (s *sizes) tooLarge(out *trigger.Outcome) *trigger.Error {
	st := out.State
	if st == nil {
		return nil
	}
	listed, contents := listedBytes(st)
	if !contents && listed+contentBytes(&st.Spec) < s.mostState()/4 {
		return nil // so it need not be encoded twice
	}
	b, err := topics.AppendStateAs(nil, out.State, topics.Newest)
	if err != nil || topics.RecordBytes([]byte(out.State.Key), b, nil) > s.mostState() {
		return &trigger.Error{
			Code: trigger.CodeTooLarge,
			Msg:  "the trigger with its occurrences in flight would not fit into a record",
		}
	}
	return nil
}

// skipBytes is about the size of a skipped or redriven occurrence in a state, and liveBytes that of
// a live one, both without its name.
const (
	skipBytes = 32
	liveBytes = 256
)

// listedBytes is about the size of the occurrences that a state lists. contents says that one of
// them has a content of its own.
func listedBytes(s *trigger.State) (n int, contents bool) {
	n = skipBytes * len(s.Series.Skip)
	for i := range s.Redriven {
		n += skipBytes + len(s.Redriven[i].Occurrence)
	}
	for i := range s.Live {
		l := &s.Live[i]
		n += liveBytes + len(l.Occurrence) + len(l.Local)
		contents = contents || l.Was != nil
	}
	return n, contents
}

// addsNothing lists the ops that do not enlarge a record, but for the note of a pause,
// which has room. The owner of a full trigger must still be able to stop it.
var addsNothing = map[trigger.Op]bool{
	trigger.OpCancel: true, trigger.OpErase: true, trigger.OpAck: true,
	trigger.OpPause: true, trigger.OpResume: true,
}

// contentBytes is the size of the parts of a Spec that may be large.
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

// tooLargeToFire names the topic that a due event does not fit; "" if all fit. A channel's
// own topic may have a lower limit than ours. Only this trigger waits, and fails in the
// end. Its neighbours' events fit.
func (p *Partition) tooLargeToFire(t *turn, fires []trigger.Fire) (reason string, err error) {
	for i := range fires {
		f := &fires[i]
		settings := p.opts.Channels.Settings(f.Channel)
		topic := settings.dueTopic(f)
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
