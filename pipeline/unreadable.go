package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/decompress"
	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/kafkarec"
	"github.com/waterclock/waterclock/pipeline/barrier"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// The broker may accept a batch that nobody can read: it would fill the memory once
// decompressed, or it does not decode. kgo returns an error for it and stays there, and so
// would every later owner. The partition skips such a batch. The turn that moves the
// position past it refuses it as one, with its offsets.
//
// kgo's error is only a hint. The batch is fetched separately and decoded here, so that no
// batch is skipped because of another error.

// unreadable is a batch to skip.
type unreadable struct {
	topics.UnreadableBatch
	code    trigger.Code
	why     string
	damaged bool // its checksum is wrong: another replica may have a good copy
}

func (u *unreadable) refusal() *trigger.Error { return u.Refusal(u.code, u.why) }

// damagedFor is how long a batch with a wrong checksum is fetched before it is skipped. A
// leader with a bad disk may be replaced meanwhile.
const damagedFor = 30 * time.Second

func (o *Options) damagedFor() time.Duration { return cmp.Or(o.damaged, damagedFor) }

// walkFor bounds how long one turn searches for batches after the first.
const walkFor = 200 * time.Millisecond

// suspicion is a partition that kgo could not read on.
type suspicion struct {
	err   error
	since time.Time
	next  time.Time // time of the next check
	tries int       // checks that found nothing wrong
}

// mostSuspicions is how often kgo may report a batch that we can read. After that the
// partition is opened anew.
const mostSuspicions = 5

// batchScan checks the batches that kgo could not read.
type batchScan struct {
	reader     *kafkapart.Reader
	decompress kgo.Decompressor
	damagedFor time.Duration

	suspects map[kafkapart.TopicPartition]*suspicion
}

func newBatchScan(r *kafkapart.Reader, o *Process) *batchScan {
	return &batchScan{
		reader: r, decompress: o.decompressor(), damagedFor: o.damagedFor(),
		suspects: map[kafkapart.TopicPartition]*suspicion{},
	}
}

// suspect notes an error of a fetch that a batch may have caused. It returns false for any
// other error.
func (s *batchScan) suspect(at kafkapart.TopicPartition, err error) bool {
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

// passUnreadable checks what the session suspects. It puts the batches that nobody can read
// into the turn's input, at their offsets.
func (c *consumer) passUnreadable(ctx context.Context, in *input) error {
	for at, s := range c.kafka.scan.suspects {
		if time.Now().Before(s.next) {
			continue
		}
		offset := c.position(at.Topic)
		found, next, err := c.kafka.scan.unreadableFrom(ctx, at, offset)
		if err != nil {
			return err
		}
		if next == offset {
			stands := errors.Is(s.err, errStands)
			if err := c.wait(at, s, found); err != nil {
				return err
			}
			if !stands { // kgo may have stopped at it
				c.resetInputs()
			}
			continue
		}
		for i := range found {
			c.log.Error("a batch cannot be read and is skipped", "topic", at.Topic, "partition", at.Partition,
				"first", found[i].First, "last", found[i].Last, "reason", found[i].why)
			in.pass(&found[i])
		}
		delete(c.kafka.scan.suspects, at)
		c.moveTo(at.Topic, next)
		c.resetInputs()
	}
	return nil
}

// resetInputs makes kgo read all inputs on from their positions. All of them, because
// moving one input drops what was fetched of the others. With that, kgo's report of a bad
// batch there would be lost, and kgo reports it only once.
func (c *consumer) resetInputs() {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for topic, partitions := range c.kafka.planned {
		for partition := range partitions {
			offsets[topic] = map[int32]kgo.EpochOffset{partition: {Epoch: -1, Offset: c.position(topic)}}
		}
	}
	c.kafka.cl.SetOffsets(offsets)
}

// passInRange is passUnreadable for reading a past range of a log. Commands and receipts
// there were refused in their turn; a bad setting is logged.
func (c *consumer) passInRange(ctx context.Context, cl *kgo.Client, at kafkapart.TopicPartition, offset int64) (int64,
	error,
) {
	s := c.kafka.scan.suspects[at]
	if s == nil || time.Now().Before(s.next) {
		return offset, nil
	}
	found, next, err := c.kafka.scan.unreadableFrom(ctx, at, offset)
	if err != nil {
		return offset, err
	}
	if next > offset {
		for i := range found {
			c.log.Error("a batch cannot be read and is skipped", "topic", at.Topic, "partition", at.Partition, "first",
				found[i].First, "last", found[i].Last, "reason", found[i].why)
		}
		delete(c.kafka.scan.suspects, at)
	} else if err := c.wait(at, s, found); err != nil {
		return offset, err
	}
	goOn(cl, at, next)
	return next, nil
}

// wait delays the next check of a suspicion: the batch is damaged and may be whole then, or
// nothing is wrong with it.
func (c *consumer) wait(at kafkapart.TopicPartition, s *suspicion, found []unreadable) error {
	if len(found) > 0 {
		if s.next.IsZero() {
			c.log.Error("a batch is damaged; fetching it again", "topic", at.Topic, "partition", at.Partition, "first",
				found[0].First, "reason", found[0].why, "for", c.opts.damagedFor())
		}
		s.next = time.Now().Add(time.Second)
		return nil
	}
	if errors.Is(s.err, errStands) { // an open transaction, or a slow broker
		delete(c.kafka.scan.suspects, at)
		return nil
	}
	if s.tries++; s.tries > mostSuspicions {
		return &kafkapart.FetchError{At: kafkapart.TopicPartition{Topic: at.Topic, Partition: at.Partition}, Err: s.err}
	}
	s.next = time.Now().Add(100 * time.Millisecond)
	return nil
}

// goOn makes a client of one partition continue at an offset.
func goOn(cl *kgo.Client, at kafkapart.TopicPartition, offset int64) {
	cl.SetOffsets(map[string]map[int32]kgo.EpochOffset{at.Topic: {at.Partition: {Epoch: -1, Offset: offset}}})
}

// position returns the next offset to read of an input.
func (c *consumer) position(topic string) int64 {
	switch topic {
	case c.opts.Names.Commands():
		return c.barrier.Commands.At()
	case c.opts.Names.Receipts():
		return c.barrier.Receipts.At()
	}
	return c.control
}

// moveTo sets the position of an input.
func (c *consumer) moveTo(topic string, offset int64) {
	switch topic {
	case c.opts.Names.Commands():
		c.barrier.Commands.MoveTo(offset)
	case c.opts.Names.Receipts():
		c.barrier.Receipts.MoveTo(offset)
	default:
		c.control = offset
	}
}

// standsFor is how long an input may bring nothing while the barrier waits for it. After
// that its next batch is scanned. kgo reports no error for a batch with fewer records than
// it claims, and fetches it for ever.
const standsFor = 5 * time.Second

// suspectStanding notes inputs that stand still.
func (c *consumer) suspectStanding() {
	if time.Since(c.suspectedAt) < standsFor {
		return
	}
	for _, in := range []*barrier.Input{&c.barrier.Commands, &c.barrier.Receipts} {
		if in.Stands(time.Now(), standsFor) {
			c.suspectedAt = time.Now()
			c.kafka.scan.suspect(kafkapart.TopicPartition{Topic: in.Topic, Partition: c.id}, errStands)
		}
	}
}

var errStands = errors.New("the fetch returns no records, although the log has more")

// pass puts a batch into the input, behind what was read before it.
func (in *input) pass(u *unreadable) {
	r := &kgo.Record{Topic: u.Topic, Partition: u.Partition, Offset: u.First}
	if in.unreadable == nil {
		in.unreadable = map[*kgo.Record]*unreadable{}
	}
	in.unreadable[r] = u
	in.records = append(in.records, r)
}

// applyUnreadable moves the turn past a batch and refuses it. For settings nobody waits for
// an answer, so they are only logged.
func (p *Partition) applyUnreadable(ctx context.Context, t *turn, u *unreadable) {
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
	p.applyDecision(ctx, t, &entry{}, &out)
	p.produce(ctx, t, &kgo.Record{
		Topic: p.opts.Names.Rejected(), Partition: p.id,
		Headers: kafkarec.Headers(topics.RejectedBatch(&u.UnreadableBatch, refusal)),
	})
	p.opts.Listener.Command("", string(refusal.Code))
}

// unreadableFrom returns the batches that nobody can read, in the run that begins at an
// offset, and the end of the run. The end is the offset itself if the batch there can be
// read, or is damaged and may yet be whole. Batches that are hidden from every reader are
// skipped without a report.
func (s *batchScan) unreadableFrom(ctx context.Context, at kafkapart.TopicPartition, offset int64) ([]unreadable, int64,
	error,
) {
	p, err := s.reader.TryFetch(ctx, at, offset, kafkapart.ReadCommitted)
	if err != nil || p == nil {
		return nil, offset, err
	}
	var found []unreadable
	next, begin := offset, time.Now()
	for b := range kafkapart.Batches(p) {
		if b.Last() < offset {
			continue
		}
		if time.Since(begin) > walkFor && next > offset {
			break
		}
		if b.Hidden {
			next = b.Last() + 1
			continue
		}
		u, bad := examine(b, at, s.decompress)
		if !bad {
			break
		}
		u.First = max(u.First, offset)
		found = append(found, u)
		if suspect := s.suspects[at]; u.damaged && (suspect == nil || time.Since(suspect.since) < s.damagedFor) {
			if len(found) > 1 {
				return found[:len(found)-1], next, nil
			}
			return found, next, nil
		}
		next = b.Last() + 1
	}
	return found, next, nil
}

var codecs = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// examine decodes a batch as kgo does, and says what is wrong with it.
func examine(b *kafkapart.Batch, at kafkapart.TopicPartition, d kgo.Decompressor) (u unreadable, bad bool) {
	u = unreadable{code: trigger.CodeInvalid, UnreadableBatch: topics.UnreadableBatch{
		Topic: at.Topic, Partition: at.Partition, First: b.First(), Last: b.Last(), Records: b.Count(),
		Bytes: len(b.Bytes), Codec: fmt.Sprint(b.Codec()),
	}}
	if n := b.Codec(); n < len(codecs) {
		u.Codec = codecs[n]
	}
	if b.Damaged() {
		u.why, u.damaged = "whose checksum is wrong", true
		return u, true
	}
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.RecordBatches = at.Partition, b.Bytes
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: b.First(), Topic: at.Topic,
		Partition: at.Partition,
	}, &p, d, nil)
	switch {
	case errors.Is(fp.Err, kgo.ErrMaxDecompress):
		most := ""
		if bound, ok := d.(*decompress.Bound); ok && bound != nil {
			most = fmt.Sprintf(": %d bytes", bound.Batch())
		}
		u.code, u.why = trigger.CodeTooLarge, "takes more memory decompressed than limits.batch_bytes"+most
	case fp.Err != nil:
		u.why = "does not decode: " + fp.Err.Error()
	case next <= b.Last():
		u.why = fmt.Sprintf("holds %d records that decode", len(fp.Records))
	default:
		return u, false
	}
	return u, true
}
