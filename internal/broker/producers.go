package broker

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"time"
)

// producerIdle is how long a producer that is not transactional is known
// after its last batch (Kafka: producer.id.expiration.ms).
const producerIdle = 24 * time.Hour

// lastEpoch is where a producer id is used up; kfake gives the transactional
// id a new one then.
const lastEpoch = math.MaxInt16 - 1

// pidTable is what pids.log amounts to.
type pidTable struct {
	byID map[int64]*producer
}

type producer struct {
	id      int64
	epoch   int16
	txnID   string
	timeout int32
	commit  bool // the last transaction was committed
	ended   bool // the last entry says so
}

func readPids(entries []pidEntry) *pidTable {
	t := &pidTable{byID: map[int64]*producer{}}
	for _, e := range entries {
		p := t.byID[e.PID]
		switch {
		case e.Type == "init":
			// An epoch that follows on the end of a transaction: its client may repeat that, without the answer.
			commit := p != nil && p.ended && p.commit
			p = &producer{id: e.PID, txnID: e.TxID, timeout: e.Timeout, commit: commit}
			t.byID[e.PID] = p
		case p == nil:
			continue
		}
		p.epoch, p.ended = e.Epoch, e.Type == "endtx"
		switch {
		case e.Commit != nil: // of an end, or of what a start has written
			p.commit = *e.Commit
		case e.Type == "timeout":
			p.commit = false
		}
	}
	t.dropReplaced(entries)
	return t
}

// dropReplaced forgets ids that were used up: the transactional id lives on
// under its newest.
func (t *pidTable) dropReplaced(entries []pidEntry) {
	newest := map[string]int64{}
	for _, e := range entries {
		if e.Type == "init" && e.TxID != "" {
			newest[e.TxID] = e.PID
		}
	}
	for id, p := range t.byID {
		if p.txnID != "" && newest[p.txnID] != id {
			delete(t.byID, id)
		}
	}
}

// restoreProducers brings pids.log and seq_windows.json up to what the
// segments and outcomes show. A producer whose transaction we aborted is
// fenced: were its epoch left, it could go on and commit the other half.
func (r *repairer) restoreProducers(context.Context) error {
	path := filepath.Join(r.data, "pids.log")
	entries, _, err := loadLog[pidEntry](path)
	if err != nil {
		return err
	}
	r.pids = readPids(entries)
	for _, p := range r.parts {
		for pid, epoch := range p.epochs {
			r.pids.wrote(pid, epoch)
		}
	}
	last := map[inEpoch]*outcome{}
	for i := range r.outcomes {
		o := &r.outcomes[i]
		last[inEpoch{o.pid, o.epoch}] = o
	}
	for i := range r.outcomes { // in order: a commit may raise the epoch to that of the next
		o := &r.outcomes[i]
		txn := inEpoch{o.pid, o.epoch}
		switch {
		case o != last[txn]:
		case o.stands():
			r.pids.committed(o)
		case o.kind == kindAborted: // as the client has asked, so it may go on
			r.pids.aborted(txn)
			delete(r.aborted, txn)
		case r.pids.is(txn): // it was begun, and this start has ended it
			r.aborted[txn] = true
		}
	}
	for txn := range r.aborted {
		r.pids.fence(txn)
	}
	windows := r.windows()
	if err := r.writeWindows(windows); err != nil {
		return err
	}
	return storeLog(path, r.pids.entries(windows))
}

// wrote raises the epoch to one a producer was seen to write with.
func (t *pidTable) wrote(pid int64, epoch int16) {
	p := t.byID[pid]
	if p == nil {
		p = &producer{id: pid}
		t.byID[pid] = p
	}
	p.epoch = max(p.epoch, epoch)
}

// committed makes a retry of the EndTxn request succeed, as it would have.
func (t *pidTable) committed(o *outcome) {
	p := t.byID[o.pid]
	switch {
	case p == nil:
	case p.epoch == o.epoch:
		p.commit = true
		if o.bumps && p.epoch < lastEpoch {
			p.epoch++
		}
	case o.bumps && p.epoch == o.epoch+1: // pids.log has the next epoch, but perhaps no longer why
		p.commit = true
	}
}

// aborted makes a retry of an abort succeed.
func (t *pidTable) aborted(txn inEpoch) {
	if t.is(txn) {
		t.byID[txn.pid].commit = false
	}
}

// is says whether a transaction has the epoch of its producer.
func (t *pidTable) is(txn inEpoch) bool {
	p := t.byID[txn.pid]
	return p != nil && p.epoch == txn.epoch
}

func (t *pidTable) fence(txn inEpoch) {
	p := t.byID[txn.pid]
	if p == nil || p.epoch > txn.epoch {
		return
	}
	p.commit = false
	if p.epoch < lastEpoch {
		p.epoch++
		return
	}
	delete(t.byID, p.id)
	heir := *p
	heir.id, heir.epoch = t.newID(), 0
	t.byID[heir.id] = &heir
}

func (t *pidTable) newID() int64 {
	for {
		var b [8]byte
		rand.Read(b[:])
		id := int64(binary.BigEndian.Uint64(b[:]) >> 1)
		if t.byID[id] == nil {
			return id
		}
	}
}

// entries lists transactional producers, and others that have a window.
func (t *pidTable) entries(windows []seqWindowJSON) []pidEntry {
	active := map[int64]bool{}
	for _, w := range windows {
		active[w.PID] = true
	}
	var out []pidEntry
	for _, p := range t.byID {
		if p.txnID == "" && !active[p.id] {
			continue
		}
		e := pidEntry{Type: "init", PID: p.id, Epoch: p.epoch, TxID: p.txnID, Timeout: p.timeout}
		if p.txnID != "" {
			e.Commit = &p.commit
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b pidEntry) int { return int(min(max(a.PID-b.PID, -1), 1)) })
	return out
}

func (r *repairer) windows() []seqWindowJSON {
	var out []seqWindowJSON
	oldest := r.now.Add(-producerIdle).UnixMilli()
	for _, p := range r.parts {
		for pid, w := range p.seqs {
			known := r.pids.byID[pid]
			if w.at < oldest && (known == nil || known.txnID == "") {
				continue
			}
			out = append(out, w.json(pid, p.topic.Name, p.partition))
		}
	}
	return out
}

func (r *repairer) writeWindows(windows []seqWindowJSON) error {
	raw, err := json.Marshal(seqWindowsJSON{Version: kfakeFormat, Windows: windows})
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(r.data, "seq_windows.json"), raw)
}
