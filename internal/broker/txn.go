package broker

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// txns follows transactions, and writes down what was decided about them
// before kfake acts on it.
//
// A commit goes like this. The connection that reads the EndTxn request
// writes an outcome and waits until it and all data of the transaction are on
// disk; only then does kfake see the request. From that moment the
// transaction is committed, whatever happens: repair finishes what kfake
// could not.
//
// Until then anything may happen to the transaction: more data, an abort, a new
// owner, its timeout. Each takes the outcome back, durably, before kfake acts on
// it. And a commit without an outcome that stands never reaches kfake: its client
// is to try again. So it does not matter if kfake refuses what took it back.
//
// Hooks see requests before kfake has judged them. So a transaction may name more
// partitions than kfake has accepted, never fewer. Only an answer by which kfake
// has ended a transaction, or raised its producer's epoch, makes it forgotten.
type txns struct {
	b *node

	mu     sync.Mutex
	owners map[int64]*owner // by producer id
	log    *os.File         // nil in memory, and once closed
	size   int64
	moved  map[target]struct{} // partitions with markers since the log began
}

// owner is a producer that kfake gave a transactional id. Others have no transactions.
type owner struct {
	txnID string
	epoch int16      // the newest that kfake has given
	given int16      // the newest that an InitProducerID got
	open  []*openTxn // by epoch: what a fenced producer still asks for is apart
}

// inEpoch is a producer in one of its epochs.
type inEpoch struct {
	pid   int64
	epoch int16
}

// openTxn is what a producer has asked for in one epoch since its last EndTxn.
type openTxn struct {
	inEpoch
	parts   map[target]txnPart
	offsets []groupOffset
	begun   *round // after which the log on disk has where it began; nil: nobody waits for that yet

	outcome *outcome // of the commit that is written down; nil: none that stands
	durable bool     // it is on disk, with all that it speaks of
	ends    int      // EndTxn requests that kfake has turned to
	ended   *outcome // what the log has of them, if nothing becomes visible
	touched []target // what they write, and may be shown before it is on disk
}

type txnPart struct {
	topic     string
	partition int32
	data      bool // not only added to the transaction
}

func newTxns(b *node) *txns {
	return &txns{b: b, owners: map[int64]*owner{}, moved: map[target]struct{}{}}
}

// own takes over the producers of a directory.
func (x *txns) own(pids *pidTable) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, p := range pids.byID {
		if p.txnID != "" {
			x.owners[id] = &owner{txnID: p.txnID, epoch: p.epoch}
		}
	}
}

// refuse says what Kafka finds wrong with the producer of a transactional batch. kfake would
// write one of a producer that has no transactional id, and nothing would ever end it.
func (x *txns) refuse(txnID string, pid int64) *refusal {
	if txnID == "" {
		return &refusal{kerr.TransactionalIDAuthorizationFailed.Code, -1, "a transactional batch needs an id"}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.owns(pid, txnID) {
		return &refusal{kerr.InvalidProducerIDMapping.Code, -1, "the producer id is not of this transactional id"}
	}
	return nil
}

// writes notes a transactional batch, in kfake's loop. It refuses one of a producer that was fenced: kfake would, but
// only once it has put the heir into a transaction, which in time would fence the heir too.
func (x *txns) writes(p *partCall) *refusal {
	x.mu.Lock()
	defer x.mu.Unlock()
	pid, epoch := p.batch.producerID(), p.batch.producerEpoch()
	if o := x.owners[pid]; o != nil && epoch < o.epoch {
		return &refusal{kerr.InvalidProducerEpoch.Code, -1, "the producer is fenced"}
	}
	if t := x.change(pid, epoch); t != nil {
		t.parts[x.b.partition(p.topic.name, p.partition)] = txnPart{p.topic.name, p.partition, true}
	}
	return nil
}

// added notes partitions that get a marker with the transaction's end, whether or not they get data.
func (x *txns) added(req *kmsg.AddPartitionsToTxnRequest) {
	for i := range req.Topics {
		if x.b.topics.named(req.Topics[i].Topic) == nil {
			return // kfake adds none then
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.change(req.ProducerID, req.ProducerEpoch)
	if t == nil {
		return
	}
	for _, rt := range req.Topics {
		for _, p := range rt.Partitions {
			at := x.b.partition(rt.Topic, p)
			t.parts[at] = txnPart{rt.Topic, p, t.parts[at].data}
		}
	}
}

// begun notes a transaction that has nothing yet.
func (x *txns) begun(req *kmsg.AddOffsetsToTxnRequest) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.owns(req.ProducerID, req.TransactionalID) {
		x.change(req.ProducerID, req.ProducerEpoch)
	}
}

// committed notes offsets that are to become valid with the transaction.
func (x *txns) committed(req *kmsg.TxnOffsetCommitRequest) {
	x.b.nameTopics(req)
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.owns(req.ProducerID, req.TransactionalID) {
		return // kfake refuses it
	}
	t := x.change(req.ProducerID, req.ProducerEpoch)
	if t == nil {
		return
	}
	for _, rt := range req.Topics {
		for _, rp := range rt.Partitions {
			t.offsets = append(t.offsets, newGroupOffset(req.Group, rt.Topic, rp))
		}
	}
}

func (b *node) nameTopics(req *kmsg.TxnOffsetCommitRequest) {
	for i := range req.Topics {
		b.topics.name(&req.Topics[i].Topic, req.Topics[i].TopicID)
	}
}

func newGroupOffset(group, topic string, rp kmsg.TxnOffsetCommitRequestTopicPartition) groupOffset {
	return groupOffset{group, topic, rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata}
}

// refused takes back one of the offsets of a request. An earlier one of the same partition stays.
func (x *txns) refused(req *kmsg.TxnOffsetCommitRequest, topic string, partition int32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.find(req.ProducerID, req.ProducerEpoch)
	if t == nil {
		return
	}
	for _, rt := range req.Topics {
		for _, rp := range rt.Partitions {
			if rt.Topic != topic || rp.Partition != partition {
				continue
			}
			g := newGroupOffset(req.Group, topic, rp)
			for i := len(t.offsets) - 1; i >= 0; i-- {
				if t.offsets[i].equal(g) {
					t.offsets = slices.Delete(t.offsets, i, i+1)
					x.takeBack(t)
					break
				}
			}
		}
	}
}

// owns says whether a producer id is of a transactional id.
func (x *txns) owns(pid int64, txnID string) bool {
	o := x.owners[pid]
	return o != nil && o.txnID == txnID
}

// vouch is the syncer's ticket for an answer to a request that adds to transactions: besides what it writes, their
// beginning has to be on disk. Of a transaction the first answers wait, and share the round.
func (x *txns) vouch(list []inEpoch, writes []target) *round {
	x.mu.Lock()
	defer x.mu.Unlock()
	waits := len(writes) > 0
	var first []*openTxn
	for _, txn := range list {
		switch t := x.find(txn.pid, txn.epoch); {
		case t == nil: // kfake has refused the request, or it is over
		case t.begun == nil:
			first = append(first, t)
		case !t.begun.over():
			waits = true // for a round that is not before that one
		}
	}
	if len(first) > 0 {
		writes = append(slices.Clip(writes), x.b.outcomeLog())
	} else if !waits {
		return nil
	}
	r := x.b.syncer.ticket(writes)
	for _, t := range first {
		t.begun = r
	}
	return r
}

func (x *txns) find(pid int64, epoch int16) *openTxn {
	if o := x.owners[pid]; o != nil {
		for _, t := range o.open {
			if t.epoch == epoch {
				return t
			}
		}
	}
	return nil
}

// change returns the transaction that a request adds to: an outcome that was written speaks of less.
// It returns nil if nobody needs to know: in memory, or of a producer that kfake will not know.
//
// The log has where each transaction began: a start has to know what it ends, or the client goes on in the same epoch
// with the rest of it. Answers wait for that: see vouch.
func (x *txns) change(pid int64, epoch int16) *openTxn {
	o := x.owners[pid]
	if x.log == nil || o == nil || epoch < o.epoch { // of before: kfake refuses it
		return nil
	}
	t := x.find(pid, epoch)
	if t != nil && t.ends == 0 {
		x.takeBack(t)
		return t
	}
	// If kfake has ended it, this begins the next one, perhaps before the answer is on its way.
	o.drop(func(e *openTxn) bool { return e == t })
	t = &openTxn{inEpoch: inEpoch{pid, epoch}, parts: map[target]txnPart{}}
	o.open = append(o.open, t)
	x.begins(t)
	return t
}

// begins notes that a transaction is open from here on.
func (x *txns) begins(t *openTxn) {
	if x.log != nil {
		x.write(t.mark(kindBegun))
		t.begun, t.ended = nil, nil
	}
}

// mark is an entry of the log without partitions and offsets.
func (t *openTxn) mark(kind byte) outcome {
	return outcome{kind: kind, pid: t.pid, epoch: t.epoch, at: time.Now().UnixMilli()}
}

func (o *owner) drop(which func(*openTxn) bool) { o.open = slices.DeleteFunc(o.open, which) }

// quiet waits until no transaction is open, but not for long: it is a
// courtesy, since those that are will be aborted.
func (x *txns) quiet(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		n := x.count()
		if n == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// count is how many transactions kfake has not turned to the end of.
func (x *txns) count() (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, o := range x.owners {
		for _, t := range o.open {
			if t.ends == 0 {
				n++
			}
		}
	}
	return n
}
