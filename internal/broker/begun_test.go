package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestStaleBatchOpensNothing: a batch of a fenced producer is refused, and its heir is not in a transaction because of
// it, which would time out and fence the heir too.
func TestStaleBatchOpensNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		fence func(t *testing.T, b *Broker, old *kmsg.EndTxnRequest)
		abort int16 // what the fenced producer's own abort gets
	}{
		{"by an heir", func(t *testing.T, b *Broker, old *kmsg.EndTxnRequest) {
			writeIn(t, b, old, 1, 0, "open")
			if err := initX(t, b, time.Minute); err != nil {
				t.Fatal(err)
			}
		}, kerr.ProducerFenced.Code},
		{"by a timeout", func(t *testing.T, b *Broker, old *kmsg.EndTxnRequest) {
			writeIn(t, b, old, 1, 0, "slow")
			read(t, b, "a", 1, committed()) // returns once it has timed out
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := start(t, t.TempDir())
			create(t, b, "a", 2)
			old := endOf(t, client(t, b, kgo.TransactionalID("x"), kgo.TransactionTimeout(300*time.Millisecond)))
			c.fence(t, b, old)
			p := produceIn(t, b, "x", "a", 0, inTxn(sequenced(old.ProducerID, old.ProducerEpoch, 0, "stale")))
			if p.ErrorCode != kerr.InvalidProducerEpoch.Code {
				t.Errorf("the stale batch: error %d, want INVALID_PRODUCER_EPOCH", p.ErrorCode)
			}
			req := kmsg.NewPtrDescribeTransactionsRequest()
			req.TransactionalIDs = []string{"x"}
			resp, err := req.RequestWith(testContext(t), client(t, b))
			if err != nil || resp.TransactionStates[0].State != "Empty" {
				t.Errorf("x is in a transaction: %+v, %v", resp.TransactionStates, err)
			}
			// It must not get its heir's epoch by that: their records would be taken for one another's.
			abort := *old
			abort.Commit = false
			if got := endTxn(t, b, &abort, 5).ErrorCode; got != c.abort {
				t.Errorf("its own abort: error %d, want %d", got, c.abort)
			}
		})
	}
}

// TestIDBegunAnew: kfake forgets a transactional id that is idle for long, and then gives the same producer id again,
// with epoch 0. Its batches are no stale ones.
func TestIDBegunAnew(t *testing.T) {
	b := start(t, t.TempDir())
	create(t, b, "a", 1)
	end := endOf(t, client(t, b, kgo.TransactionalID("x")))
	x := b.current().txns
	req, resp := kmsg.NewPtrInitProducerIDRequest(), kmsg.NewPtrInitProducerIDResponse()
	req.TransactionalID, resp.ProducerID, resp.ProducerEpoch = &end.TransactionalID, end.ProducerID, 1000
	x.fenced(req, resp)
	if x.find(end.ProducerID, 0) != nil || x.owners[end.ProducerID].epoch != 1000 {
		t.Fatalf("the owner is %+v", x.owners[end.ProducerID])
	}
	resp.ProducerEpoch = 0
	x.fenced(req, resp)
	if p := produceIn(t, b, "x", "a", 0, inTxn(sequenced(end.ProducerID, 0, 0, "anew"))); p.ErrorCode != 0 {
		t.Errorf("a batch of epoch 0: error %d", p.ErrorCode)
	}
	end.ProducerEpoch, end.Commit = 0, true
	if got := endTxn(t, b, end, 5).ErrorCode; got != 0 {
		t.Errorf("its commit: error %d", got)
	}
}

// TestRefutedCommitStaysSo: a power cut took records that a commit speaks of, so a start aborts the transaction. That
// start is killed, wherever that may be, and the next one must not believe the commit because the marker has taken the
// records' place.
func TestRefutedCommitStaysSo(t *testing.T) {
	b := start(t, t.TempDir())
	create(t, b, "a", 1)
	end := endOf(t, client(t, b, kgo.TransactionalID("x")))
	writeIn(t, b, end, 0, 0, "1")
	part := size(t, segment0(b.opts.Dir, "a", 0))
	writeIn(t, b, end, 0, 1, "2")
	addOffset(t, b, end, "g", 1)
	if o, _, err := b.txns.prepare(end); err != nil || o == nil {
		t.Fatal("nothing was written down", err)
	}
	for steps := 1; ; steps++ {
		crash := copyDir(t, b.opts.Dir)
		withoutJournal(t, crash)
		cut(t, segment0(crash, "a", 0), part)
		ctx := &dying{after: int64(steps)}
		_, err := repair(ctx, Options{Dir: crash}.withDefaults(), quiet, nil)
		if err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		second := start(t, crash)
		if resp := endTxn(t, second, end, 5); resp.ErrorCode == 0 {
			t.Errorf("killed at %d: the commit, asked for again, succeeds", steps)
		}
		offsets := commitsOf(t, second, "g")
		if got := read(t, second, "a", 0, committed()); len(got) > 0 || len(offsets) > 0 {
			t.Errorf("killed at %d: records %q and offsets %v of the transaction", steps, values(got), offsets)
		}
		if err == nil {
			return
		}
	}
}

// TestCommitSurvivesCompaction: a start that compacts a partition is killed, wherever that may be. The next one does
// not take a commit back because the partition is shorter than the commit says: the producer goes on in its epoch.
func TestCommitSurvivesCompaction(t *testing.T) {
	b := start(t, t.TempDir())
	create(t, b, "a", 1, "cleanup.policy", "compact")
	produce(t, client(t, b), rec("a", 0, "first", "stays")) // so the compacted segment begins where it did
	end := endOf(t, client(t, b, kgo.TransactionalID("x")))
	for seq := range int32(20) {
		addPartition(t, b, end)
		writeIn(t, b, end, 0, seq, "value")
		if resp := endTxn(t, b, end, 4); resp.ErrorCode != 0 {
			t.Fatalf("the commit: error %d", resp.ErrorCode)
		}
	}
	for steps := 1; ; steps++ {
		crash := copyDir(t, b.opts.Dir)
		ctx := &dying{after: int64(steps)}
		o := Options{Dir: crash, CompactBytes: 1}.withDefaults()
		_, err := repair(ctx, o, quiet, nil)
		if err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		second := start(t, crash)
		addPartition(t, second, end)
		writeIn(t, second, end, 0, 20, "next")
		if resp := endTxn(t, second, end, 4); resp.ErrorCode != 0 {
			t.Errorf("killed at %d: the next commit: error %d", steps, resp.ErrorCode)
		}
		if err == nil {
			return
		}
	}
}

// dying ends a start after some steps.
type dying struct {
	steps atomic.Int64
	after int64
}

var errKilled = errors.New("killed")

func (*dying) Deadline() (end time.Time, ok bool) { return end, false }
func (*dying) Done() <-chan struct{}              { return nil }
func (*dying) Value(any) any                      { return nil }

func (d *dying) Err() error {
	if d.steps.Add(1) > d.after {
		return errKilled
	}
	return nil
}

// commitsOf are the offsets of a group that groups.log has.
func commitsOf(t *testing.T, b *Broker, group string) (list []groupEntry) {
	t.Helper()
	entries, _, err := loadLog[groupEntry](b.groupsLog().path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Type == "commit" && e.Group == group {
			list = append(list, e)
		}
	}
	return list
}

// TestNewProducerIDSurvivesAPowerCut: a commit uses up the epochs of a producer id, and its answer has another one.
func TestNewProducerIDSurvivesAPowerCut(t *testing.T) {
	b := start(t, t.TempDir())
	create(t, b, "a", 1)
	d := mount(t, b)
	end := endOf(t, client(t, b, kgo.TransactionalID("x")))
	end.ProducerEpoch = lastEpoch
	writeIn(t, b, end, 0, 0, "last")
	resp := endTxn(t, b, end, 5)
	if resp.ErrorCode != 0 || resp.ProducerID == end.ProducerID {
		t.Fatalf("the commit: %+v", resp)
	}
	after := t.TempDir()
	d.cut(t, after, nothingUnsynced)
	b = start(t, after)
	next := *end
	next.ProducerID, next.ProducerEpoch = resp.ProducerID, resp.ProducerEpoch
	writeIn(t, b, &next, 0, 0, "next")
	commitX(t, b, &next)
	wantValues(t, read(t, b, "a", 0, committed()), "last", "next")
}

// TestNothingBehindATornOutcome: once a frame could not be written, none is written behind it: a start would not see
// it, and somebody may have got an answer that it has to keep.
func TestNothingBehindATornOutcome(t *testing.T) {
	b := start(t, t.TempDir())
	x := b.txns
	log := x.log
	var err error
	if x.log, err = os.Open(log.Name()); err != nil { // takes no bytes
		t.Fatal(err)
	}
	defer x.log.Close()
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.append(outcome{kind: kindBegun}); err == nil {
		t.Fatal("the first frame is written")
	}
	x.log = log
	if err := x.append(outcome{kind: kindBegun}); err == nil || size(t, log.Name()) > int64(len(outcomeMagic)) {
		t.Errorf("a frame is written behind one that may be torn: %v", err)
	}
}

// TestRepeatedEmptyCommit: a transaction has nothing and is committed, the power is cut, and the client repeats that.
func TestRepeatedEmptyCommit(t *testing.T) {
	b := start(t, t.TempDir())
	create(t, b, "a", 1)
	d := mount(t, b)
	end := endOf(t, client(t, b, kgo.TransactionalID("x")))
	addPartition(t, b, end)
	if resp := endTxn(t, b, end, 5); resp.ErrorCode != 0 {
		t.Fatalf("the commit: error %d", resp.ErrorCode)
	}
	after := t.TempDir()
	d.cut(t, after, nothingUnsynced)
	resp := endTxn(t, start(t, after), end, 5)
	if resp.ErrorCode != 0 || resp.ProducerEpoch != end.ProducerEpoch+1 {
		t.Errorf("repeated: error %d, epoch %d after %d", resp.ErrorCode, resp.ProducerEpoch, end.ProducerEpoch)
	}
}

// TestRefusedEnd: kfake refuses to end a transaction that it does not have, of a client that keeps its epoch. What that
// client writes then is a transaction, and a start that aborts it says so.
func TestRefusedEnd(t *testing.T) {
	for _, commit := range []bool{true, false} {
		t.Run(fmt.Sprintf("commit %v", commit), func(t *testing.T) {
			b := start(t, t.TempDir())
			create(t, b, "a", 1)
			end := endOf(t, client(t, b, kgo.TransactionalID("x")))
			addPartition(t, b, end) // so that there is a last end, of the other kind
			end.Commit = !commit
			if resp := endTxn(t, b, end, 4); resp.ErrorCode != 0 {
				t.Fatalf("the end before: error %d", resp.ErrorCode)
			}
			if code := sendOffset(t, b, end, "g", 1, 4); code != kerr.InvalidTxnState.Code {
				t.Fatalf("an offset of a group that is in no transaction: error %d", code)
			}
			end.Commit = commit
			if resp := endTxn(t, b, end, 4); resp.ErrorCode != kerr.InvalidTxnState.Code {
				t.Fatalf("the end: error %d, want INVALID_TXN_STATE", resp.ErrorCode)
			}
			addGroup(t, b, end, "g", 1)
			b = start(t, copyDir(t, b.opts.Dir))
			end.Commit = true
			rest := inTxn(sequenced(end.ProducerID, end.ProducerEpoch, 0, "rest"))
			produced := produceIn(t, b, "x", "a", 0, rest)
			if resp := endTxn(t, b, end, 4); resp.ErrorCode == 0 {
				t.Errorf("the commit succeeds, and the record got %d: the offset is lost", produced.ErrorCode)
			}
		})
	}
}

// TestLogBegunAnewWhileOneEnds: the outcome log starts anew after kfake turned to the end of a transaction, of a client
// that keeps its epoch, and before it has ended it. Then the broker is killed.
func TestLogBegunAnewWhileOneEnds(t *testing.T) {
	b := start(t, t.TempDir())
	create(t, b, "a", 1)
	end := endOf(t, client(t, b, kgo.TransactionalID("x")))
	addPartition(t, b, end)
	writeIn(t, b, end, 0, 0, "v")
	end.Version, end.Commit = 4, false
	if err := b.txns.ending(end); err != nil {
		t.Fatal(err)
	}
	b.txns.mu.Lock()
	err := b.txns.restart()
	b.txns.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	b = start(t, copyDir(t, b.opts.Dir))
	if resp := endTxn(t, b, end, 4); resp.ErrorCode != 0 {
		t.Errorf("the abort, after a start: error %d", resp.ErrorCode)
	}
	wantValues(t, read(t, b, "a", 0, committed()))
}

// TestLogStaysShortWithoutEnds: transactions that their clients do not end make the outcome log no longer than others.
func TestLogStaysShortWithoutEnds(t *testing.T) {
	b := start(t, t.TempDir())
	create(t, b, "a", 2)
	addPartition(t, b, endOf(t, client(t, b, kgo.TransactionalID("x"))))
	b.txns.mu.Lock()
	b.txns.size = maxOutcomeBytes + 1
	b.txns.mu.Unlock()
	if err := initX(t, b, time.Minute); err != nil {
		t.Fatal(err)
	}
	if n := size(t, filepath.Join(b.opts.Dir, outcomeFile)); n != int64(len(outcomeMagic)) {
		t.Errorf("the log has %d bytes", n)
	}
}
