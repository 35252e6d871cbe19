package broker

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestForgottenTransaction: a start has ended a transaction that had group offsets alone. Its commit is not taken for
// a retry of the one before.
func TestForgottenTransaction(t *testing.T) {
	for _, killed := range []bool{true, false} {
		t.Run(fmt.Sprintf("killed %v", killed), func(t *testing.T) {
			dir := t.TempDir()
			b := start(t, dir)
			create(t, b, "a", 1)
			end := endOf(t, client(t, b, kgo.TransactionalID("x")))
			commitOffsets(0)(t, b, end)
			addOffset(t, b, end, "g", 1)
			if !killed {
				stop(t, b)
			}
			b = start(t, copyDir(t, dir))
			if resp := endTxn(t, b, end, 5); resp.ErrorCode != kerr.InvalidTxnState.Code {
				t.Errorf("the commit: error %d", resp.ErrorCode)
			}
			wantOffset(t, b, "g", "a", 0)
			if err := initX(t, b, time.Minute); err != nil { // the producer begins anew
				t.Fatal(err)
			}
		})
	}
}

// TestAbortBesideAnOlderCommit: after a power cut one partition lacks the marker of a commit, another one has an open
// transaction of the same epoch. That one is aborted, so its producer must not commit it.
func TestAbortBesideAnOlderCommit(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 2)
	end := endOf(t, client(t, b, kgo.TransactionalID("x")))
	writeIn(t, b, end, 1, 0, "old")
	if resp := endTxn(t, b, end, 4); resp.ErrorCode != 0 {
		t.Fatalf("the commit: error %d", resp.ErrorCode)
	}
	writeIn(t, b, end, 0, 0, "new")
	crash := copyDir(t, dir)
	withoutJournal(t, crash)
	cutMarker(t, crash, 1)
	b = start(t, crash)
	if resp := endTxn(t, b, end, 4); resp.ErrorCode == 0 {
		t.Error("a commit of what was aborted succeeds")
	}
	wantValues(t, read(t, b, "a", 1, committed()), "old")
	wantValues(t, read(t, b, "a", 0, committed()))
}

// addPartition adds a/0 to the transaction of x, as clients before KIP-890 do.
func addPartition(t *testing.T, b *Broker, end *kmsg.EndTxnRequest) {
	t.Helper()
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = "x", end.ProducerID, end.ProducerEpoch
	req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "a", Partitions: []int32{0}}}
	v3 := kgo.MaxVersions(maxVersion(int16(kmsg.AddPartitionsToTxn), 3))
	resp, err := req.RequestWith(testContext(t), client(t, b, v3))
	if err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatal(err, resp)
	}
}

// addGroup adds a group to the transaction of x, as clients before KIP-890 do, and an offset of a/0.
func addGroup(t *testing.T, b *Broker, end *kmsg.EndTxnRequest, group string, offset int64) {
	t.Helper()
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = "x", end.ProducerID, end.ProducerEpoch, group
	resp, err := req.RequestWith(testContext(t), client(t, b))
	if err != nil || resp.ErrorCode != 0 {
		t.Fatal(err, resp)
	}
	addOffsetBy(t, b, end, group, offset, 4)
}

// TestKeptEpoch: a client that keeps its epoch asks for the end of a transaction, and the broker has stopped meanwhile.
// What a start has ended is not taken for the transaction before it, and what had ended is answered as before.
func TestKeptEpoch(t *testing.T) {
	var seq int32
	write := func(t *testing.T, b *Broker, end *kmsg.EndTxnRequest, value string) {
		t.Helper()
		addPartition(t, b, end)
		writeIn(t, b, end, 0, seq, value)
		seq++
	}
	for _, c := range []struct {
		name    string
		second  func(t *testing.T, b *Broker, end *kmsg.EndTxnRequest)
		lose    bool // the power is cut: what the second one has written is gone
		stopped bool // cleanly
		commit  bool // is asked for
		fails   bool
		goesOn  bool // the producer may begin another one
	}{
		{"records, and a power cut", func(t *testing.T, b *Broker, end *kmsg.EndTxnRequest) {
			write(t, b, end, "second")
		}, true, false, true, true, false},
		{"offsets, and a kill", func(t *testing.T, b *Broker, end *kmsg.EndTxnRequest) {
			addGroup(t, b, end, "g", 1)
		}, false, false, true, true, false},
		{"offsets, and a stop", func(t *testing.T, b *Broker, end *kmsg.EndTxnRequest) {
			addGroup(t, b, end, "g", 1)
		}, false, true, true, true, false},
		{"an abort, and a kill", func(t *testing.T, b *Broker, end *kmsg.EndTxnRequest) {
			write(t, b, end, "second")
			abort := *end
			abort.Commit = false
			if resp := endTxn(t, b, &abort, 4); resp.ErrorCode != 0 {
				t.Fatalf("the abort: error %d", resp.ErrorCode)
			}
		}, false, false, false, false, true},
		{"an empty one committed, and a kill", func(t *testing.T, b *Broker, end *kmsg.EndTxnRequest) {
			addPartition(t, b, end)
			if resp := endTxn(t, b, end, 4); resp.ErrorCode != 0 {
				t.Fatalf("the empty commit: error %d", resp.ErrorCode)
			}
		}, false, false, true, false, true},
		{"nothing, and a kill", func(*testing.T, *Broker, *kmsg.EndTxnRequest) {}, false, false, true, false, true},
		{"nothing, and a stop", func(*testing.T, *Broker, *kmsg.EndTxnRequest) {}, false, true, true, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			seq = 0
			dir := t.TempDir()
			b := start(t, dir)
			create(t, b, "a", 1)
			end := endOf(t, client(t, b, kgo.TransactionalID("x")))
			write(t, b, end, "first")
			addGroup(t, b, end, "g", 0)
			if resp := endTxn(t, b, end, 4); resp.ErrorCode != 0 {
				t.Fatalf("the first commit: error %d", resp.ErrorCode)
			}
			before := size(t, segment0(dir, "a", 0))
			c.second(t, b, end)
			if c.stopped {
				stop(t, b)
			}
			crash := copyDir(t, dir)
			if c.lose {
				withoutJournal(t, crash)
				cut(t, segment0(crash, "a", 0), before)
			}
			b = start(t, crash)
			repeat := *end
			repeat.Commit = c.commit
			if resp := endTxn(t, b, &repeat, 4); resp.ErrorCode != 0 != c.fails {
				t.Errorf("repeated: error %d", resp.ErrorCode)
			}
			wantOffset(t, b, "g", "a", 0)
			wantValues(t, read(t, b, "a", 0, committed()), "first")
			if c.goesOn {
				write(t, b, end, "next")
				if resp := endTxn(t, b, end, 4); resp.ErrorCode != 0 {
					t.Errorf("the next commit: error %d", resp.ErrorCode)
				}
				wantValues(t, read(t, b, "a", 0, committed()), "first", "next")
			}
		})
	}
}

// TestEndedByOthers: what a start answers to a commit whose transaction something else has ended before the broker was
// killed. The producer committed one before, which is not to be taken for it.
func TestEndedByOthers(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(t *testing.T, b *Broker)
	}{
		{"a timeout", func(t *testing.T, b *Broker) { read(t, b, "a", 0, committed()) }}, // returns once it is over
		{"an heir, and a start", func(t *testing.T, b *Broker) {
			if err := initX(t, b, time.Minute); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := start(t, t.TempDir())
			create(t, b, "a", 1)
			end := endOf(t, client(t, b, kgo.TransactionalID("x"), kgo.TransactionTimeout(time.Second)))
			writeIn(t, b, end, 0, 0, "first")
			commitX(t, b, end)
			b = start(t, copyDir(t, b.opts.Dir)) // its pids.log begins with how the last transaction ended
			writeIn(t, b, end, 0, 0, "second")
			c.end(t, b)
			b = start(t, copyDir(t, b.opts.Dir))
			if resp := endTxn(t, b, end, 5); resp.ErrorCode == 0 {
				t.Error("a commit of what was aborted succeeds")
			}
			wantValues(t, read(t, b, "a", 0, committed()), "first")
		})
	}
}

// TestRepeatedAbortOfNothing: a client aborts a transaction that has nothing, does not get the answer, and asks for it
// a second time once the broker is back. The transaction before it was committed.
func TestRepeatedAbortOfNothing(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 1)
	end := endOf(t, client(t, b, kgo.TransactionalID("x")))
	commitOffsets(0)(t, b, end)
	end.Commit = false
	b = start(t, copyDir(t, dir))
	if resp := endTxn(t, b, end, 5); resp.ErrorCode != 0 {
		t.Fatalf("the abort: error %d", resp.ErrorCode)
	}
	b = start(t, copyDir(t, b.opts.Dir))
	if resp := endTxn(t, b, end, 5); resp.ErrorCode != 0 || resp.ProducerEpoch != end.ProducerEpoch+1 {
		t.Errorf("the abort, a second time: error %d, epoch %d after %d", resp.ErrorCode, resp.ProducerEpoch,
			end.ProducerEpoch)
	}
}

// TestRepeatedAfterACompaction: kfake compacts pids.log as it writes the end of a transaction, and is killed. What is
// left is an entry of what it knew then, and the next epoch.
func TestRepeatedAfterACompaction(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 1)
	end := endOf(t, client(t, b, kgo.TransactionalID("x")))
	addOffset(t, b, end, "g", 0)
	if resp := endTxn(t, b, end, 5); resp.ErrorCode != 0 {
		t.Fatalf("the commit: error %d", resp.ErrorCode)
	}
	crash := copyDir(t, dir)
	path := filepath.Join(crash, dataDir, "pids.log")
	entries, _, err := loadLog[pidEntry](path)
	if err != nil || len(entries) < 2 {
		t.Fatal(err, entries)
	}
	compacted := &entries[len(entries)-2]
	if compacted.Type != "endtx" {
		t.Fatalf("%+v", entries)
	}
	compacted.Type, compacted.TxID, compacted.Timeout = "init", "x", 60_000
	if err := storeLog(path, entries[len(entries)-2:]); err != nil {
		t.Fatal(err)
	}
	if resp := endTxn(t, start(t, crash), end, 5); resp.ErrorCode != 0 || resp.ProducerEpoch != end.ProducerEpoch+1 {
		t.Errorf("repeated: error %d, epoch %d after %d", resp.ErrorCode, resp.ProducerEpoch, end.ProducerEpoch)
	}
}

// TestInterruptedAbort: a client that keeps its epoch asks for an abort, and kfake does not get to it before a kill.
func TestInterruptedAbort(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 1)
	end := endOf(t, client(t, b, kgo.TransactionalID("x")))
	end.Commit = false
	addPartition(t, b, end)
	writeIn(t, b, end, 0, 0, "v")
	if resp := endTxn(t, b, end, 4); resp.ErrorCode != 0 {
		t.Fatalf("the abort: error %d", resp.ErrorCode)
	}
	crash := copyDir(t, dir)
	withoutJournal(t, crash)
	cutMarker(t, crash, 0)
	pids := filepath.Join(crash, dataDir, "pids.log")
	cut(t, pids, firstFrame(t, pids))
	b = start(t, crash)
	if resp := endTxn(t, b, end, 4); resp.ErrorCode != 0 {
		t.Errorf("the abort, a second time: error %d", resp.ErrorCode)
	}
	wantValues(t, read(t, b, "a", 0, committed()))
}

// TestBegunBeforeAStart: a transaction has something when the broker is killed, or loses its power. Its producer does
// not hear of that, writes a record, and commits: it is not to get a part of what it asked for.
func TestBegunBeforeAStart(t *testing.T) {
	kill := func(t *testing.T, d *disk) string { return copyDir(t, d.dir) }
	powerCut := func(t *testing.T, d *disk) string {
		to := t.TempDir()
		d.cut(t, to, nothingUnsynced)
		return to
	}
	offset := func(t *testing.T, b *Broker, end *kmsg.EndTxnRequest) { addOffset(t, b, end, "g", 1) }
	record := func(t *testing.T, b *Broker, end *kmsg.EndTxnRequest) { writeIn(t, b, end, 1, 0, "first") }
	for _, c := range []struct {
		name  string
		begin func(t *testing.T, b *Broker, end *kmsg.EndTxnRequest)
		crash func(t *testing.T, d *disk) string
	}{
		{"an offset, killed", offset, kill},
		{"an offset, power cut", offset, powerCut},
		{"a record, killed", record, kill},
		{"a record, power cut", record, powerCut},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := start(t, t.TempDir())
			create(t, b, "a", 2)
			end := endOf(t, client(t, b, kgo.TransactionalID("x")))
			d := mount(t, b)
			c.begin(t, b, end)
			b = start(t, c.crash(t, d))
			raw := inTxn(sequenced(end.ProducerID, end.ProducerEpoch, 0, "v"))
			produced := produceIn(t, b, "x", "a", 0, raw)
			if resp := endTxn(t, b, end, 5); resp.ErrorCode == 0 {
				t.Errorf("the commit succeeds, and the record got %d: what came before is lost", produced.ErrorCode)
			}
			wantCommitted(t, b)
		})
	}
}

// TestGroupOffsetsByOrder: which of several commits of a group offset counts after a crash is a matter of their order,
// also if the clock was set back between them.
func TestGroupOffsetsByOrder(t *testing.T) {
	const back = 60_000 // ms, by which what comes before the clock is set back is later
	for _, c := range []struct {
		name string
		do   func(t *testing.T, b *Broker, end *kmsg.EndTxnRequest)
		lost int // of the last entries of groups.log, or if below 0 of the first
		want int64
	}{
		{"both are there", commitOffsets(1, 2), 0, 2},
		{"the second one is lost", commitOffsets(1, 2), 1, 2},
		{"both are lost", commitOffsets(1, 2), 2, 2},
		{"the same offset as before, which is lost", func(t *testing.T, b *Broker, end *kmsg.EndTxnRequest) {
			commitOffsets(1)(t, b, end)
			commitPlain(t, b, 5)
			commitOffsets(1)(t, b, end)
		}, 1, 1},
		{"a plain one behind two, and compacted", func(t *testing.T, b *Broker, end *kmsg.EndTxnRequest) {
			commitOffsets(5, 7)(t, b, end)
			commitPlain(t, b, 5)
		}, -2, 5},
		{"a plain one behind it", func(t *testing.T, b *Broker, end *kmsg.EndTxnRequest) {
			commitOffsets(3)(t, b, end)
			commitPlain(t, b, 2)
		}, 0, 2},
	} {
		for _, setBack := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, clock set back %v", c.name, setBack), func(t *testing.T) {
				dir := t.TempDir()
				b := start(t, dir)
				create(t, b, "a", 1)
				c.do(t, b, endOf(t, client(t, b, kgo.TransactionalID("x"))))
				crash := copyDir(t, dir)
				withoutJournal(t, crash)
				path := filepath.Join(crash, dataDir, "groups.log")
				entries, _, err := loadLog[groupEntry](path)
				if err != nil {
					t.Fatal(err)
				}
				entries = slices.DeleteFunc(entries, func(e groupEntry) bool { return e.Type != "commit" })
				list := commitsIn(t, crash)
				if c.lost < 0 {
					entries = entries[-c.lost:]
				}
				if setBack && len(entries) > 1 { // behind the first commit
					list[0].at += back
					*entries[0].LastCommit += back
				}
				if err := storeLog(path, entries[:len(entries)-max(0, c.lost)]); err != nil {
					t.Fatal(err)
				}
				writeOutcomes(t, crash, list)
				wantOffset(t, start(t, crash), "g", "a", c.want)
			})
		}
	}
}

// commitOffsets has x commit offsets of group g, each in a transaction of its own.
func commitOffsets(offsets ...int64) func(*testing.T, *Broker, *kmsg.EndTxnRequest) {
	return func(t *testing.T, b *Broker, end *kmsg.EndTxnRequest) {
		t.Helper()
		for _, offset := range offsets {
			addOffset(t, b, end, "g", offset)
			commitX(t, b, end)
		}
	}
}

// commitX commits the transaction of x. The next one has the next epoch (KIP-890).
func commitX(t *testing.T, b *Broker, end *kmsg.EndTxnRequest) {
	t.Helper()
	resp := endTxn(t, b, end, 5)
	if resp.ErrorCode != 0 {
		t.Fatalf("the commit: error %d", resp.ErrorCode)
	}
	end.ProducerEpoch = resp.ProducerEpoch
}

func commitPlain(t *testing.T, b *Broker, offset int64) {
	t.Helper()
	var offsets kadm.Offsets
	offsets.AddOffset("a", 0, offset, -1)
	if err := kadm.NewClient(client(t, b)).CommitAllOffsets(testContext(t), "g", offsets); err != nil {
		t.Fatal(err)
	}
}

// TestFencedCommit: a commit was written down, and before kfake turned to it
// somebody took the transactional id over. It must not come back.
func TestFencedCommit(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 2)
	writeDown(t, b)
	if _, _, err := client(t, b, kgo.TransactionalID("x")).ProducerID(testContext(t)); err != nil {
		t.Fatal(err)
	}
	crash := copyDir(t, dir)
	for p := range int32(2) {
		cutMarker(t, crash, p)
	}
	b = start(t, crash)
	for p := range int32(2) {
		if got := read(t, b, "a", p, committed()); len(got) > 0 {
			t.Errorf("partition %d: %q of a fenced transaction", p, values(got))
		}
	}
}

// TestTimedOutCommit: as TestFencedCommit, but the transaction's timeout ran
// out, of which only kfake knows: its marker in one partition says it.
func TestTimedOutCommit(t *testing.T) {
	for _, c := range []struct {
		name    string
		evident int32 // partition that keeps the ABORT marker; 2: only pids.log tells
	}{{"marker in 0", 0}, {"marker in 1", 1}, {"pids.log", 2}} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			b := start(t, dir)
			create(t, b, "a", 2)
			writeDown(t, b, kgo.TransactionTimeout(300*time.Millisecond))
			read(t, b, "a", 0, committed()) // returns once it has timed out
			crash := copyDir(t, dir)
			for p := range int32(2) {
				if p != c.evident {
					cutMarker(t, crash, p)
				}
			}
			if pids := filepath.Join(crash, dataDir, "pids.log"); c.evident < 2 {
				cut(t, pids, firstFrame(t, pids))
			}
			b = start(t, crash)
			for p := range int32(2) {
				if got := read(t, b, "a", p, committed()); len(got) > 0 {
					t.Errorf("partition %d: %q of an aborted transaction", p, values(got))
				}
			}
		})
	}
}
