package pipeline

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/decompress"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// A batch that the broker has taken may be one that nobody can read: it would
// fill the memory once decompressed, or does not decode at all. kgo returns an
// error for it and stays where it is, and so would every owner after us. Such a
// batch is passed over: the turn that moves the position past it refuses it, as
// one, with its offsets.
//
// What kgo says is only a hint. The batch is fetched again by itself and
// decoded here, so that nothing is passed over for an error of another kind.

// unreadable is a batch to be passed over.
type unreadable struct {
	topics.UnreadableBatch
	code    trigger.Code
	why     string
	damaged bool // its checksum is wrong: another replica may have it whole
}

func (u *unreadable) refusal() *trigger.Error { return u.Refusal(u.code, u.why) }

// damagedFor is how long a batch whose checksum is wrong is fetched again before
// it is passed over: a leader that has a bad disk may be replaced.
const damagedFor = 30 * time.Second

func (o *Options) damagedFor() time.Duration { return cmp.Or(o.damaged, damagedFor) }

// walkFor bounds what looking for batches after the first may take of a turn.
const walkFor = 200 * time.Millisecond

// suspicion is a partition from which kgo could not go on.
type suspicion struct {
	err   error
	since time.Time
	next  time.Time // when it is looked at again
	tries int       // looks that found nothing wrong
}

// mostSuspicions is how often kgo may complain of what we find well before the
// partition is opened again.
const mostSuspicions = 5

// suspect notes an error of a fetch that may be a batch's fault; false says that
// it is not one of these.
func (s *session) suspect(at place, err error) bool {
	if _, answered := errors.AsType[*kerr.Error](err); answered || errors.Is(err, kgo.ErrClientClosed) {
		return false
	}
	if _, lost := errors.AsType[*kgo.ErrDataLoss](err); lost {
		return false
	}
	if s.suspects[at] == nil {
		s.suspects[at] = &suspicion{since: time.Now()}
	}
	s.suspects[at].err = err
	return true
}

// passUnreadable looks at what the session suspects, and puts the batches that
// nobody can read into the turn's input, where they stand.
func (p *Partition) passUnreadable(ctx context.Context, in *input) error {
	for at, s := range p.kafka.suspects {
		if time.Now().Before(s.next) {
			continue
		}
		offset := p.position(at.topic)
		found, next, err := p.kafka.unreadableFrom(ctx, p.opts, at, *offset)
		if err != nil {
			return err
		}
		if next == *offset {
			stands := s.err == errStands
			if err := p.wait(at, s, found); err != nil {
				return err
			}
			if !stands { // kgo may have stopped there
				p.readAgain()
			}
			continue
		}
		for i := range found {
			p.log.Error("a batch cannot be read and is passed over", "topic", at.topic, "partition", at.partition, "first", found[i].First, "last", found[i].Last, "reason", found[i].why)
			in.pass(&found[i])
		}
		delete(p.kafka.suspects, at)
		*offset = next
		p.readAgain()
	}
	return nil
}

// readAgain makes kgo read all inputs on from where they are. Each of them,
// because moving one drops what was fetched of the others, and with it the word
// that kgo has stopped at a batch of theirs: it would not be told again.
func (p *Partition) readAgain() {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for topic, partitions := range p.kafka.planned {
		for partition := range partitions {
			offsets[topic] = map[int32]kgo.EpochOffset{partition: {Epoch: -1, Offset: *p.position(topic)}}
		}
	}
	p.kafka.cl.SetOffsets(offsets)
}

// passInRange is passUnreadable for who looks back at a log: commands and
// receipts were refused in their turn, and of settings the log tells.
func (p *Partition) passInRange(ctx context.Context, cl *kgo.Client, at place, offset int64) (int64, error) {
	s := p.kafka.suspects[at]
	if s == nil || time.Now().Before(s.next) {
		return offset, nil
	}
	found, next, err := p.kafka.unreadableFrom(ctx, p.opts, at, offset)
	if err != nil {
		return offset, err
	}
	if next > offset {
		for i := range found {
			p.log.Error("a batch cannot be read and is left out", "topic", at.topic, "partition", at.partition, "first", found[i].First, "last", found[i].Last, "reason", found[i].why)
		}
		delete(p.kafka.suspects, at)
	} else if err := p.wait(at, s, found); err != nil {
		return offset, err
	}
	goOn(cl, at, next)
	return next, nil
}

// wait puts the next look at a suspicion off: the batch is damaged, and may be
// whole the next time; or nothing is wrong with it.
func (p *Partition) wait(at place, s *suspicion, found []unreadable) error {
	if len(found) > 0 {
		if s.next.IsZero() {
			p.log.Error("a batch is damaged; fetching it again", "topic", at.topic, "partition", at.partition, "first", found[0].First, "reason", found[0].why, "for", p.opts.damagedFor())
		}
		s.next = time.Now().Add(time.Second)
		return nil
	}
	if s.err == errStands { // an open transaction, or a slow broker
		delete(p.kafka.suspects, at)
		return nil
	}
	if s.tries++; s.tries > mostSuspicions {
		return &fetchError{at.topic, at.partition, s.err}
	}
	s.next = time.Now().Add(100 * time.Millisecond)
	return nil
}

// goOn makes a client that reads one partition read it from an offset on.
func goOn(cl *kgo.Client, at place, offset int64) {
	cl.SetOffsets(map[string]map[int32]kgo.EpochOffset{at.topic: {at.partition: {Epoch: -1, Offset: offset}}})
}

// position is the next offset to read of an input.
func (p *Partition) position(topic string) *int64 {
	switch topic {
	case p.opts.Names.Commands():
		return &p.barrier.commands.at
	case p.opts.Names.Receipts():
		return &p.barrier.receipts.at
	}
	return &p.controlAt
}

// standsFor is how long an input may bring nothing although the barrier waits
// for it before its next batch is looked at: kgo says nothing of a batch that
// holds fewer records than it claims, and fetches it for ever.
const standsFor = 5 * time.Second

// suspectStanding notes inputs that stand still.
func (p *Partition) suspectStanding() {
	if time.Since(p.stood) < standsFor {
		return
	}
	for _, in := range []*inputBarrier{&p.barrier.commands, &p.barrier.receipts} {
		if !in.reached() && time.Since(in.moved) >= standsFor {
			p.stood = time.Now()
			p.kafka.suspect(place{in.topic, p.id}, errStands)
		}
	}
}

var errStands = errors.New("nothing comes, although there is more")

// pass puts a batch into the input, behind what was read before it.
func (in *input) pass(u *unreadable) {
	r := &kgo.Record{Topic: u.Topic, Partition: u.Partition, Offset: u.First}
	if in.unreadable == nil {
		in.unreadable = map[*kgo.Record]*unreadable{}
	}
	in.unreadable[r] = u
	in.records = append(in.records, r)
}

// applyUnreadable moves the turn past a batch, and refuses it. Settings have
// nobody who waits for an answer: the log tells of those.
func (p *Partition) applyUnreadable(t *turn, u *unreadable) {
	var next *int64
	switch u.Topic {
	case p.opts.Names.Commands():
		next = &t.progress.NextCommand
		t.commands++
	case p.opts.Names.Receipts():
		next = &t.progress.NextReceipt
	default:
		return
	}
	if u.Last < *next {
		return
	}
	*next = u.Last + 1
	t.source = topics.Source(u.Topic, u.Partition, u.First)
	refusal := u.refusal()
	out := p.machine.Reject(nil, refusal, "")
	p.perform(t, &entry{}, &out)
	p.produce(t, &kgo.Record{Topic: p.opts.Names.Rejected(), Partition: p.id, Headers: kgoHeaders(topics.RejectedBatch(&u.UnreadableBatch, refusal))})
	p.opts.Listener.Command("", string(refusal.Code))
}

// unreadableFrom returns the batches that nobody can read in the run that begins
// at an offset, and where the run ends: at the offset itself if the batch there
// can be read, or is damaged and may yet be whole. What is hidden from every
// reader is passed over without a word.
func (s *session) unreadableFrom(ctx context.Context, o *Options, at place, offset int64) ([]unreadable, int64, error) {
	p, err := s.peek(ctx, at.topic, at.partition, offset, readCommitted)
	if err != nil || p == nil {
		return nil, offset, err
	}
	var found []unreadable
	next, begin := offset, time.Now()
	for b := range batches(p) {
		if b.last() < offset {
			continue
		}
		if time.Since(begin) > walkFor && next > offset {
			break
		}
		if b.hidden {
			next = b.last() + 1
			continue
		}
		u, bad := b.examine(at, o.decompressor())
		if !bad {
			break
		}
		u.First = max(u.First, offset)
		found = append(found, u)
		if suspect := s.suspects[at]; u.damaged && (suspect == nil || time.Since(suspect.since) < o.damagedFor()) {
			if len(found) > 1 {
				return found[:len(found)-1], next, nil
			}
			return found, next, nil
		}
		next = b.last() + 1
	}
	return found, next, nil
}

// rawBatch is a batch as it was fetched.
type rawBatch struct {
	bytes  []byte
	hidden bool // from who reads what is committed
}

func (b *rawBatch) first() int64 { return int64(binary.BigEndian.Uint64(b.bytes)) }
func (b *rawBatch) last() int64 {
	return b.first() + int64(int32(binary.BigEndian.Uint32(b.bytes[batchLastDelta:])))
}
func (b *rawBatch) count() int { return int(int32(binary.BigEndian.Uint32(b.bytes[batchNumRecords:]))) }

func (b *rawBatch) attributes() uint16 { return binary.BigEndian.Uint16(b.bytes[batchAttributes:]) }

// batches are the whole batches of an answer. As in hiddenThrough, one of a
// transaction is hidden from the first record of an aborted one of its producer
// up to the marker that ends it.
func batches(p *kmsg.FetchResponseTopicPartition) func(func(*rawBatch) bool) {
	return func(yield func(*rawBatch) bool) {
		begins := slices.SortedFunc(slices.Values(p.AbortedTransactions), func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
			return cmp.Compare(a.FirstOffset, b.FirstOffset)
		})
		aborted := map[int64]bool{}
		for rest := p.RecordBatches; len(rest) >= batchHeader; {
			size := batchLengthStart + int(int32(binary.BigEndian.Uint32(rest[batchLength:])))
			if size < batchHeader || size > len(rest) {
				return // the answer ends within it
			}
			b := &rawBatch{bytes: rest[:size]}
			rest = rest[size:]
			producer := int64(binary.BigEndian.Uint64(b.bytes[batchProducerID:]))
			for len(begins) > 0 && begins[0].FirstOffset <= b.last() {
				aborted[begins[0].ProducerID] = true
				begins = begins[1:]
			}
			switch {
			case b.attributes()&attrControl != 0:
				delete(aborted, producer)
				b.hidden = true
			case b.count() == 0: // compacted
				b.hidden = true
			default:
				b.hidden = b.attributes()&attrTransaction != 0 && aborted[producer]
			}
			if !yield(b) {
				return
			}
		}
	}
}

var codecs = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// examine decodes a batch as kgo does, and says what is wrong with it.
func (b *rawBatch) examine(at place, d kgo.Decompressor) (u unreadable, bad bool) {
	u = unreadable{code: trigger.CodeInvalid, UnreadableBatch: topics.UnreadableBatch{
		Topic: at.topic, Partition: at.partition, First: b.first(), Last: b.last(), Records: b.count(), Bytes: len(b.bytes), Codec: fmt.Sprint(b.attributes() & 7)}}
	if n := int(b.attributes() & 7); n < len(codecs) {
		u.Codec = codecs[n]
	}
	if crc := crc32.Checksum(b.bytes[batchAttributes:], castagnoli); crc != binary.BigEndian.Uint32(b.bytes[batchCRC:]) {
		u.why, u.damaged = "whose checksum is wrong", true
		return u, true
	}
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.RecordBatches = at.partition, b.bytes
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Offset: b.first(), Topic: at.topic, Partition: at.partition}, &p, d, nil)
	switch bound := (*decompress.Bound)(nil); {
	case errors.Is(fp.Err, kgo.ErrMaxDecompress):
		most := ""
		if bound, _ = d.(*decompress.Bound); bound != nil {
			most = fmt.Sprintf(": %d bytes", bound.Batch())
		}
		u.code, u.why = trigger.CodeTooLarge, "takes more memory decompressed than limits.batch_bytes"+most
	case fp.Err != nil:
		u.why = "does not decode: " + fp.Err.Error()
	case next <= b.last():
		u.why = fmt.Sprintf("holds %d records that decode", len(fp.Records))
	default:
		return u, false
	}
	return u, true
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batchCRC is where a batch's checksum stands; it counts from the attributes on.
const batchCRC = 17
