package broker

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// prepare writes the outcome of a commit, unless it is written, and says what must be on disk
// before kfake may see the request. It returns nil if there is nothing that a crash could tear.
func (x *txns) prepare(req *kmsg.EndTxnRequest) (*outcome, []target, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.find(req.ProducerID, req.ProducerEpoch)
	if x.log == nil || t == nil || t.ends > 0 || t.empty() {
		return nil, nil, nil
	}
	targets := append(t.targets(true), x.b.outcomeLog())
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
	o := t.mark(kindCommit)
	o.bumps, o.offsets = bumps, latestOffsets(t.offsets)
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
	return &o, nil
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

// takeBack writes, durably, that a commit is none after all, unless kfake has turned to it. The lock is held.
func (x *txns) takeBack(t *openTxn) {
	if x.log == nil || t.outcome == nil || t.ends > 0 {
		return
	}
	t.outcome, t.durable = nil, false
	err := x.append(t.mark(kindAbort))
	if err == nil && x.b.syncer != nil {
		err = x.b.syncer.fsync(x.log)
	}
	if err != nil {
		x.b.fail(fmt.Errorf("take back an outcome: %w", err))
	}
}

// ending is called as kfake turns to an EndTxn request. If it returns an error, that is the answer, and kfake must
// not see the request.
func (x *txns) ending(req *kmsg.EndTxnRequest) *kerr.Error {
	x.mu.Lock()
	defer x.mu.Unlock()
	o, t := x.owners[req.ProducerID], x.find(req.ProducerID, req.ProducerEpoch)
	switch {
	case o != nil && req.ProducerEpoch < o.given:
		// kfake would take a request of the epoch before its own for a retry, and tell the client the heir's epoch.
		if req.Version < 2 {
			return kerr.InvalidProducerEpoch
		}
		return kerr.ProducerFenced
	case t == nil:
		// From version 5 on each transaction has its own epoch (KIP-890), so this is no retry. A start has forgotten
		// the transaction, and kfake would take it for the one before, and say that it is committed.
		if x.log != nil && req.Commit && req.Version >= 5 && o != nil && o.epoch == req.ProducerEpoch {
			return kerr.InvalidTxnState
		}
		return nil
	case t.ends > 0: // asked for twice: kfake knows the answer
	case req.Commit:
		if !t.empty() && !t.durable {
			return kerr.ConcurrentTransactions
		}
		// A start writes the markers behind data anew, and those alone.
		t.touched = t.targets(false)
		if t.empty() {
			o := t.mark(kindCommit)
			o.bumps = req.Version >= 5
			x.ends(t, o)
		}
	default:
		x.takeBack(t)
		t.touched = x.aborted(t)
		if req.Version < 5 { // else pids.log has the next epoch
			x.ends(t, t.mark(kindAborted))
		}
	}
	t.ends++
	x.touch(t.touched)
	return nil
}

// ends notes that a transaction is over, though nothing becomes visible: a start would take what has begun for open.
func (x *txns) ends(t *openTxn, how outcome) {
	x.write(how)
	t.ended = &how
	t.touched = append(t.touched, x.b.outcomeLog())
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
	defer x.shorten()
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
				x.begins(t) // what the log has of its end does not hold
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
	default: // its epochs are used up: nothing but pids.log has the new producer id
		touched = append(slices.Clip(touched), x.b.pidsLog())
		delete(x.owners, req.ProducerID)
		x.owner(resp.ProducerID, o.txnID).epoch = resp.ProducerEpoch
	}
	return touched
}

// forget drops what was asked for in epochs below one that kfake has given.
func (x *txns) forget(o *owner, epoch int16) (touched []target) {
	o.epoch = max(o.epoch, epoch)
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

// forgetTopics is called as kfake turns to a request that deletes topics. An outcome that names one would speak, at a
// start, of the next topic of that name, which is shorter.
func (x *txns) forgetTopics(deleted map[string]bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, o := range x.owners {
		for _, t := range o.open {
			before := len(t.parts)
			maps.DeleteFunc(t.parts, func(_ target, p txnPart) bool { return deleted[p.topic] })
			if len(t.parts) < before {
				x.takeBack(t)
			}
		}
	}
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
	defer x.shorten() // who ends none of its transactions asks for a producer id after each
	txnID := *req.TransactionalID
	if req.ProducerID >= 0 && req.ProducerEpoch >= 0 { // kfake goes by the producer id then (KIP-360)
		o := x.owners[req.ProducerID]
		if o == nil {
			return nil
		}
		txnID = o.txnID
	}
	o := x.owner(resp.ProducerID, txnID)
	if resp.ProducerEpoch == 0 { // it begins anew: kfake forgets a transactional id that is idle for long
		o.epoch, o.given = 0, 0
	}
	touched = x.forget(o, resp.ProducerEpoch)
	o.given = max(o.given, resp.ProducerEpoch)
	return touched
}

// timedOut is called as kfake aborts a transaction by itself. It raises the epoch, but at the last one.
func (x *txns) timedOut(pid int64, epoch int16) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if t := x.find(pid, epoch); t != nil {
		x.takeBack(t)
		x.touch(x.aborted(t))
		x.owners[pid].drop(func(e *openTxn) bool { return e == t })
	}
	if o := x.owners[pid]; o != nil {
		o.epoch = max(o.epoch, min(epoch, lastEpoch-1)+1)
	}
}
