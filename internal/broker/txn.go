package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
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
	open  []*openTxn // by epoch: what a fenced producer still asks for is apart
}

// openTxn is what a producer has asked for in one epoch since its last EndTxn.
type openTxn struct {
	pid     int64
	epoch   int16
	parts   map[target]txnPart
	offsets []groupOffset

	outcome *outcome // of the commit that is written down; nil: none that stands
	durable bool     // it is on disk, with all that it speaks of
	ends    int      // EndTxn requests that kfake has turned to
	touched []target // what they write, and may be shown before it is on disk
}

type txnPart struct {
	topic     string
	partition int32
	data      bool // not only added to the transaction
}

// maxOutcomeBytes is where the log starts anew.
const maxOutcomeBytes = 4 << 20

func newTxns(b *node) *txns {
	return &txns{b: b, owners: map[int64]*owner{}, moved: map[target]struct{}{}}
}

// own takes over the producers of a directory.
func (x *txns) own(pids *pidTable) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, p := range pids.byID {
		if p.txnID != "" {
			x.owners[id] = &owner{txnID: p.txnID}
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
	if o := x.owners[pid]; o == nil || o.txnID != txnID {
		return &refusal{kerr.InvalidProducerIDMapping.Code, -1, "the producer id is not of this transactional id"}
	}
	return nil
}

// wrote notes a transactional batch, in kfake's loop.
func (x *txns) wrote(p *partCall) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if t := x.change(p.batch.producerID(), p.batch.producerEpoch()); t != nil {
		t.parts[x.b.partition(p.topic.name, p.partition)] = txnPart{p.topic.name, p.partition, true}
	}
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

// committed notes offsets that are to become valid with the transaction.
func (x *txns) committed(req *kmsg.TxnOffsetCommitRequest) {
	x.b.nameTopics(req)
	x.mu.Lock()
	defer x.mu.Unlock()
	if o := x.owners[req.ProducerID]; o == nil || o.txnID != req.TransactionalID {
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
func (x *txns) change(pid int64, epoch int16) *openTxn {
	o := x.owners[pid]
	if x.log == nil || o == nil {
		return nil
	}
	t := x.find(pid, epoch)
	if t != nil && t.ends == 0 {
		x.takeBack(t)
		return t
	}
	// If kfake has ended it, this begins the next one, perhaps before the answer is on its way.
	o.drop(func(e *openTxn) bool { return e == t })
	t = &openTxn{pid: pid, epoch: epoch, parts: map[target]txnPart{}}
	o.open = append(o.open, t)
	return t
}

func (o *owner) drop(which func(*openTxn) bool) { o.open = slices.DeleteFunc(o.open, which) }

// prepare writes the outcome of a commit, unless it is written, and says what must be on disk
// before kfake may see the request. It returns nil if there is nothing that a crash could tear.
func (x *txns) prepare(req *kmsg.EndTxnRequest) (*outcome, []target, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.find(req.ProducerID, req.ProducerEpoch)
	if x.log == nil || t == nil || t.ends > 0 || t.empty() {
		return nil, nil, nil
	}
	targets := append(t.targets(true), x.target())
	if t.outcome != nil {
		return t.outcome, targets, nil
	}
	o, err := x.outcomeOf(t, req.Version >= 5)
	if err != nil {
		return nil, nil, err
	}
	if x.b.syncer != nil {
		x.b.syncer.note(targets) // before the outcome: see (*syncer).record
	}
	if err := x.append(*o); err != nil {
		return nil, nil, err
	}
	for _, at := range targets[:len(targets)-1] {
		x.moved[at] = struct{}{}
	}
	t.outcome = o
	return o, targets, nil
}

// prepared is called when the outcome is on disk.
func (x *txns) prepared(o *outcome) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if t := x.find(o.pid, o.epoch); t != nil && t.outcome == o {
		t.durable = true
	}
}

// empty says that nothing becomes visible with a commit.
func (t *openTxn) empty() bool { return len(t.offsets) == 0 && len(t.targets(true)) == 0 }

// targets are the partitions with data, or those without.
func (t *openTxn) targets(data bool) []target {
	var out []target
	for at, p := range t.parts {
		if p.data == data {
			out = append(out, at)
		}
	}
	return out
}

func (x *txns) outcomeOf(t *openTxn, bumps bool) (*outcome, error) {
	o := &outcome{
		kind: kindCommit, pid: t.pid, epoch: t.epoch, bumps: bumps, at: time.Now().UnixMilli(),
		offsets: latestOffsets(t.offsets),
	}
	for at, p := range t.parts {
		if !p.data {
			continue
		}
		end, ok, err := x.b.tailOf(at.path, tail{topic: p.topic, partition: p.partition})
		if err != nil {
			return nil, err
		}
		if ok {
			o.parts = append(o.parts, end)
		}
	}
	return o, nil
}

// tailOf says where a partition's log ends now; not ok, if it has none.
func (b *node) tailOf(dir string, t tail) (tail, bool, error) {
	bases, err := b.listings.bases(dir)
	if errors.Is(err, os.ErrNotExist) || len(bases) == 0 && err == nil {
		return t, false, nil
	}
	if err != nil {
		return t, false, err
	}
	t.base = bases[len(bases)-1]
	info, err := os.Stat(filepath.Join(dir, segmentName(t.base)))
	if err != nil {
		return t, false, err
	}
	t.size = info.Size()
	return t, true, nil
}

func (x *txns) target() target { return target{x.log.Name(), aLog} }

var errLongOutcome = errors.New("the transaction has too many partitions and group offsets")

// append writes one outcome. The lock is held.
func (x *txns) append(o outcome) error {
	frame := o.appendTo(nil)
	if len(frame) > maxFrame {
		return errLongOutcome // a start would take it, and all behind it, for a torn end
	}
	if _, err := x.log.Write(frame); err != nil {
		return fmt.Errorf("write outcome: %w", err)
	}
	x.size += int64(len(frame))
	return nil
}

// takeBack writes, durably, that a commit is none after all, unless kfake has turned to it. The lock is held.
func (x *txns) takeBack(t *openTxn) {
	if x.log == nil || t.outcome == nil || t.ends > 0 {
		return
	}
	t.outcome, t.durable = nil, false
	o := outcome{kind: kindAbort, pid: t.pid, epoch: t.epoch, at: time.Now().UnixMilli()}
	err := x.append(o)
	if err == nil && x.b.syncer != nil {
		err = x.b.syncer.fsync(x.log)
	}
	if err != nil {
		x.b.fail(fmt.Errorf("take back an outcome: %w", err))
	}
}

// ending is called as kfake turns to an EndTxn request; kfake must not see it if ok is false.
func (x *txns) ending(req *kmsg.EndTxnRequest) (ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.find(req.ProducerID, req.ProducerEpoch)
	switch {
	case t == nil:
		return true
	case t.ends > 0: // asked for twice: kfake knows the answer
	case req.Commit:
		if !t.empty() && !t.durable {
			return false
		}
		// A start writes the markers behind data anew, and those alone.
		t.touched = t.targets(false)
	default:
		x.takeBack(t)
		t.touched = x.aborted(t)
	}
	t.ends++
	x.touch(t.touched)
	return true
}

// aborted is what kfake writes as it aborts a transaction: to readers its offsets are as good as any.
func (x *txns) aborted(t *openTxn) []target {
	return append(append(t.targets(true), t.targets(false)...), x.b.pidsLog())
}

func (x *txns) touch(targets []target) {
	if x.b.syncer != nil && len(targets) > 0 {
		x.b.syncer.begin(targets)
	}
}

// ended is called with kfake's answer to an EndTxn request, and returns what it has touched.
func (x *txns) ended(req *kmsg.EndTxnRequest, resp *kmsg.EndTxnResponse) (touched []target) {
	x.mu.Lock()
	defer x.mu.Unlock()
	o, t := x.owners[req.ProducerID], x.find(req.ProducerID, req.ProducerEpoch)
	if t != nil {
		touched = t.touched
	}
	switch {
	case o == nil:
		return nil
	case resp.ErrorCode != 0:
		if t != nil && t.ends > 0 {
			if t.ends--; t.ends == 0 { // else the other request may have committed it
				x.takeBack(t)
			}
		}
		return touched
	}
	o.drop(func(e *openTxn) bool { return e == t && e.ends > 0 })
	switch {
	case resp.ProducerID < 0 || resp.Version < 5:
		x.forget(o, req.ProducerEpoch)
	case resp.ProducerID == req.ProducerID:
		x.forget(o, resp.ProducerEpoch)
	default: // its epochs are used up
		delete(x.owners, req.ProducerID)
		x.owner(resp.ProducerID, o.txnID)
	}
	if x.log != nil && x.size > maxOutcomeBytes {
		if err := x.restart(); err != nil {
			x.b.fail(err)
		}
	}
	return touched
}

// forget drops what was asked for in epochs below one that kfake has given.
func (x *txns) forget(o *owner, epoch int16) (touched []target) {
	o.drop(func(t *openTxn) bool {
		if t.epoch >= epoch {
			return false
		}
		touched = t.touched
		x.takeBack(t)
		return true
	})
	return touched
}

func (x *txns) owner(pid int64, txnID string) *owner {
	o := x.owners[pid]
	if o == nil {
		o = &owner{}
		x.owners[pid] = o
	}
	o.txnID = txnID
	return o
}

// fence is called as kfake turns to an InitProducerID request. If it accepts that, it aborts what is open
// under the transactional id, or of the producer id.
func (x *txns) fence(req *kmsg.InitProducerIDRequest) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var open []*openTxn
	var touched []target
	for pid, o := range x.owners {
		if o.txnID != *req.TransactionalID && pid != req.ProducerID {
			continue
		}
		for _, t := range o.open {
			if t.ends == 0 {
				x.takeBack(t)
				open, touched = append(open, t), append(touched, x.aborted(t)...)
			}
		}
	}
	for _, t := range open {
		t.touched = touched
	}
	x.touch(touched)
}

// fenced is called with the answer to an InitProducerID request that kfake accepted, and returns what it
// has touched.
func (x *txns) fenced(req *kmsg.InitProducerIDRequest, resp *kmsg.InitProducerIDResponse) (touched []target) {
	x.mu.Lock()
	defer x.mu.Unlock()
	txnID := *req.TransactionalID
	if req.ProducerID >= 0 && req.ProducerEpoch >= 0 { // kfake goes by the producer id then (KIP-360)
		o := x.owners[req.ProducerID]
		if o == nil {
			return nil
		}
		txnID = o.txnID
	}
	return x.forget(x.owner(resp.ProducerID, txnID), resp.ProducerEpoch)
}

// timedOut is called as kfake aborts a transaction by itself.
func (x *txns) timedOut(pid int64, epoch int16) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.find(pid, epoch)
	if t == nil {
		return
	}
	x.takeBack(t)
	x.touch(x.aborted(t))
	x.owners[pid].drop(func(e *openTxn) bool { return e == t })
}

// restart begins a new log once nothing in the old one matters. Commits that kfake has not answered
// move over. The lock is held.
func (x *txns) restart() error {
	if err := x.sync(); err != nil {
		return err
	}
	var keep []outcome
	clear(x.moved)
	for _, o := range x.owners {
		for _, t := range o.open {
			if t.outcome == nil {
				continue
			}
			keep = append(keep, *t.outcome)
			for _, at := range t.targets(true) {
				x.moved[at] = struct{}{}
			}
		}
	}
	return x.begin(x.log.Name(), keep)
}

// deleting is called as kfake turns to a request that may delete group offsets, or a topic: outcomes of before
// must not bring them back.
func (x *txns) deleting() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.log == nil || x.size <= int64(len(outcomeMagic)) {
		return
	}
	if err := x.restart(); err != nil {
		x.b.fail(err)
	}
}

// sync sees to it that nothing in the log matters: every marker that it could have to restore is on disk,
// and so are offsets and epochs.
func (x *txns) sync() error {
	if x.b.syncer == nil {
		return nil
	}
	return x.b.syncer.emptyJournal(append(slices.Collect(maps.Keys(x.moved)), x.target(), x.b.groupsLog(),
		x.b.pidsLog())...)
}

// begin replaces the log by one that holds keep.
func (x *txns) begin(path string, keep []outcome) error {
	if x.log != nil {
		x.log.Close()
	}
	f, size, err := createOutcomes(path, keep)
	x.log, x.size = f, size
	return err
}

func createOutcomes(path string, keep []outcome) (*os.File, int64, error) {
	raw := []byte(outcomeMagic)
	for _, o := range keep {
		raw = o.appendTo(raw)
	}
	if err := replaceFile(path, raw); err != nil {
		return nil, 0, fmt.Errorf("begin outcome log: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("begin outcome log: %w", err)
	}
	return f, int64(len(raw)), nil
}

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

// close ends the log. After a clean stop it is empty: what kfake has saved is all there is, and offsets in
// here may be of groups that were deleted since.
func (x *txns) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.log == nil {
		return nil
	}
	var err error
	if x.size > int64(len(outcomeMagic)) && x.b.failure() == nil {
		if err = x.sync(); err == nil {
			err = x.begin(x.log.Name(), nil)
		}
	}
	err = errors.Join(err, x.log.Close())
	x.log = nil
	return err
}
