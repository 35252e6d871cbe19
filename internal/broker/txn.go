package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// txns follows open transactions, and writes down what was decided about them
// before kfake acts on it.
//
// A commit goes like this. The connection that reads the EndTxn request
// writes an outcome and waits until it and all data of the transaction are on
// disk; only then does kfake see the request. From that moment the
// transaction is committed, whatever happens: repair finishes what kfake
// could not. Should kfake refuse, because somebody fenced the producer while
// we were waiting, an abort is written before anybody hears of it.
type txns struct {
	b *node

	mu     sync.Mutex
	open   map[int64]*openTxn // by producer id
	ending map[int64]*endCall // commits written and not answered yet
	log    *os.File           // nil in memory
	size   int64
	moved  map[target]struct{} // partitions with markers since the log began
}

// openTxn is what a producer has written since its last EndTxn. It may name
// more than kfake has accepted, never less.
type openTxn struct {
	txnID   string
	epoch   int16
	parts   map[target]tail // sizes unset
	offsets []groupOffset
}

type endCall struct {
	outcome outcome
	txnID   string
	handled bool // kfake has turned to it: nobody can fence it any more
	void    bool // an abort is written
}

// maxOutcomeBytes is where the log starts anew.
const maxOutcomeBytes = 4 << 20

func newTxns(b *node) *txns {
	return &txns{b: b, open: map[int64]*openTxn{}, ending: map[int64]*endCall{}, moved: map[target]struct{}{}}
}

// wrote notes a transactional batch, in kfake's loop.
func (x *txns) wrote(txnID string, p *partCall) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.txn(p.batch.producerID(), p.batch.producerEpoch(), txnID)
	at := x.b.partition(p.topic.name, p.partition)
	t.parts[at] = tail{topic: p.topic.name, partition: p.partition}
}

// committed notes offsets that are to become valid with the transaction.
func (x *txns) committed(req *kmsg.TxnOffsetCommitRequest) {
	for i := range req.Topics {
		x.b.topics.name(&req.Topics[i].Topic, req.Topics[i].TopicID)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.txn(req.ProducerID, req.ProducerEpoch, req.TransactionalID)
	for _, rt := range req.Topics {
		for _, rp := range rt.Partitions {
			t.offsets = append(t.offsets, groupOffset{
				req.Group, rt.Topic, rp.Partition, rp.Offset, rp.LeaderEpoch,
				rp.Metadata,
			})
		}
	}
}

// refused takes back one of the offsets of a request.
func (x *txns) refused(req *kmsg.TxnOffsetCommitRequest, topic string, partition int32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.open[req.ProducerID]
	if t == nil || t.epoch != req.ProducerEpoch {
		return
	}
	t.offsets = slices.DeleteFunc(t.offsets, func(g groupOffset) bool {
		return g.group == req.Group && g.topic == topic && g.partition == partition
	})
}

func (x *txns) txn(pid int64, epoch int16, txnID string) *openTxn {
	t := x.open[pid]
	if t == nil || t.epoch != epoch {
		t = &openTxn{epoch: epoch, parts: map[target]tail{}}
		x.open[pid] = t
	}
	if txnID != "" {
		t.txnID = txnID
	}
	return t
}

// prepare writes the outcome of a commit. It returns nil if there is nothing
// that a crash could tear.
func (x *txns) prepare(req *kmsg.EndTxnRequest) (*endCall, []target, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.open[req.ProducerID]
	if x.log == nil || t == nil || t.epoch != req.ProducerEpoch || len(t.parts)+len(t.offsets) == 0 {
		return nil, nil, nil
	}
	e := &endCall{txnID: req.TransactionalID, outcome: outcome{
		kind:    kindCommit,
		pid:     req.ProducerID,
		epoch:   req.ProducerEpoch,
		bumps:   req.Version >= 5,
		at:      time.Now().UnixMilli(),
		offsets: t.offsets,
	}}
	targets := []target{x.target()}
	for at, part := range t.parts {
		end, ok, err := x.b.tailOf(at.path, part)
		if err != nil {
			return nil, nil, err
		}
		if !ok {
			continue
		}
		e.outcome.parts = append(e.outcome.parts, end)
		targets = append(targets, at)
		x.moved[at] = struct{}{}
	}
	if x.b.syncer != nil {
		x.b.syncer.note(targets) // before the outcome: see (*syncer).record
	}
	if err := x.append(e.outcome); err != nil {
		return nil, nil, err
	}
	x.ending[req.ProducerID] = e
	return e, targets, nil
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

// append writes one outcome. The lock is held.
func (x *txns) append(o outcome) error {
	frame := o.appendTo(nil)
	if _, err := x.log.Write(frame); err != nil {
		return fmt.Errorf("write outcome: %w", err)
	}
	x.size += int64(len(frame))
	return nil
}

// handling is called as kfake turns to an EndTxn request.
func (x *txns) handling(pid int64, epoch int16) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e := x.ending[pid]; e != nil && e.outcome.epoch == epoch {
		e.handled = true
	}
}

// fence is called as kfake turns to an InitProducerID request, which aborts
// whatever is open under the transactional id.
func (x *txns) fence(txnID string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for pid, e := range x.ending {
		if e.txnID != txnID || e.handled {
			continue
		}
		if err := x.abort(e); err != nil {
			return err
		}
		delete(x.ending, pid)
	}
	for pid, t := range x.open {
		if t.txnID == txnID {
			delete(x.open, pid)
		}
	}
	return nil
}

// abort takes a written commit back, durably. The lock is held.
func (x *txns) abort(e *endCall) error {
	if e.void {
		return nil
	}
	e.void = true
	o := outcome{kind: kindAbort, pid: e.outcome.pid, epoch: e.outcome.epoch, at: time.Now().UnixMilli()}
	if err := x.append(o); err != nil {
		return err
	}
	if !x.b.opts.Sync {
		return nil
	}
	if err := x.log.Sync(); err != nil {
		return fmt.Errorf("sync outcome: %w", err)
	}
	return nil
}

// ended is called with kfake's answer to an EndTxn request.
func (x *txns) ended(pid int64, epoch int16, e *endCall, ok bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e != nil && x.ending[pid] == e {
		delete(x.ending, pid)
	}
	if !ok {
		if e != nil {
			return x.abort(e)
		}
		return nil
	}
	if t := x.open[pid]; t != nil && t.epoch == epoch {
		delete(x.open, pid)
	}
	if x.size > maxOutcomeBytes {
		return x.restart()
	}
	return nil
}

// restart begins a new log once nothing in the old one matters: every marker
// it could have to restore is on disk, and so are offsets and epochs.
// Commits that kfake has not answered move over. The lock is held.
func (x *txns) restart() error {
	if x.b.opts.Sync {
		moved := []target{x.target(), x.b.groupsLog(), x.b.pidsLog()}
		for t := range x.moved {
			moved = append(moved, t)
		}
		if err := x.b.syncer.emptyJournal(moved...); err != nil {
			return err
		}
	}
	var keep []outcome
	clear(x.moved)
	for _, e := range x.ending {
		keep = append(keep, e.outcome)
		for _, part := range e.outcome.parts {
			x.moved[x.b.partition(part.topic, part.partition)] = struct{}{}
		}
	}
	return x.begin(x.log.Name(), keep)
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
		x.mu.Lock()
		n := len(x.open) + len(x.ending)
		x.mu.Unlock()
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

func (x *txns) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.log == nil {
		return nil
	}
	return x.log.Close()
}
