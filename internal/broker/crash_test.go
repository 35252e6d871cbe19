package broker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	txn "github.com/waterclock/waterclock/internal/producer" // broker has a producer of its own
)

// copyDir makes dir as a crash might have left it.
func copyDir(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// unsynced is for tests that cut files: there is no journal to mend them.
func unsynced(o *Options) { o.Sync = false }

// segment0 is the first segment of a partition in the data directory dir.
func segment0(dir, topic string, partition int32) string {
	return filepath.Join(partitionDir(filepath.Join(dir, dataDir), topic, partition), segmentName(0))
}

// withoutJournal takes from dir what would restore the bytes that a test cuts.
func withoutJournal(t testing.TB, dir string) {
	t.Helper()
	for i := range 2 {
		if err := os.RemoveAll(filepath.Join(dir, journalName(i))); err != nil {
			t.Fatal(err)
		}
	}
}

// commitsIn are the commits that the outcome log of dir has.
func commitsIn(t testing.TB, dir string) []outcome {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, outcomeFile))
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := readOutcomes(raw)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list, func(o outcome) bool { return o.kind != kindCommit })
}

func writeOutcomes(t testing.TB, dir string, list []outcome) {
	t.Helper()
	raw := []byte(outcomeMagic)
	for i := range list {
		raw = list[i].appendTo(raw)
	}
	if err := os.WriteFile(filepath.Join(dir, outcomeFile), raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func cut(t testing.TB, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

func size(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// transact commits or aborts one transaction of recs.
func transact(t testing.TB, cl *kgo.Client, commit bool, recs ...*kgo.Record) {
	t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, recs...)
	if err := txn.EndTransaction(testContext(t), cl, kgo.TransactionEndTry(commit), recs...); err != nil {
		t.Fatal(err)
	}
}

// markerSize is the length of a marker in a segment.
var markerSize = int64(len(marker(0, 0, 0, 0, true, 0)))

// TestTornCommit takes every state a kill inside EndTxn can leave: kfake
// writes one marker a partition, in any order, so any subset may be missing.
// With the outcome on disk all partitions must come out committed; without
// it, which is before the first marker, none.
func TestTornCommit(t *testing.T) {
	const parts = 3
	dir := t.TempDir()
	b := start(t, dir, unsynced)
	create(t, b, "a", parts)
	cl := client(t, b, kgo.TransactionalID("x"))
	transact(t, cl, true, rec("a", 0, "k", "old"), rec("a", 1, "k", "old"), rec("a", 2, "k", "old"))
	base := outcomes(t, dir)
	transact(t, cl, true, rec("a", 0, "k", "new"), rec("a", 1, "k", "new"), rec("a", 2, "k", "new"))
	now := outcomes(t, dir)
	// No Close: that is the crash. The copies below are what it left.

	for mask := range 1 << parts {
		for _, outcome := range []bool{true, false} {
			if !outcome && mask != 1<<parts-1 {
				continue // the outcome is written first
			}
			t.Run(fmt.Sprintf("missing markers %03b, outcome %v", mask, outcome), func(t *testing.T) {
				crash := copyDir(t, dir)
				for p := range int32(parts) {
					if mask>>p&1 == 1 {
						cutMarker(t, crash, p)
					}
				}
				want := []string{"old", "new"}
				if !outcome {
					cut(t, filepath.Join(crash, outcomeFile), now-1)
					want = want[:1]
				}
				b := start(t, crash)
				for p := range int32(parts) {
					wantValues(t, read(t, b, "a", p, committed()), want...)
				}
			})
		}
	}
	if base == now {
		t.Fatal("the outcome log did not grow")
	}
}

func outcomes(t testing.TB, dir string) int64 { return size(t, filepath.Join(dir, outcomeFile)) }

// TestOutcomeCutEverywhere cuts the outcome log after every byte: the last
// transaction is committed in both partitions or in neither.
func TestOutcomeCutEverywhere(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir, unsynced)
	create(t, b, "a", 2)
	cl := client(t, b, kgo.TransactionalID("x"))
	transact(t, cl, true, rec("a", 0, "k", "1"), rec("a", 1, "k", "1"))
	log := filepath.Join(dir, outcomeFile)
	for n := int64(0); n <= outcomes(t, dir); n++ {
		crash := copyDir(t, dir)
		for p := range int32(2) {
			cutMarker(t, crash, p)
		}
		cut(t, filepath.Join(crash, outcomeFile), n)
		r := repaired0(t, crash)
		commit := []bool{}
		for _, p := range r {
			commit = append(commit, len(p.aborted) == 0)
		}
		if whole := n == size(t, log); commit[0] != whole || commit[1] != whole {
			t.Errorf("cut after %d of %d bytes: committed %v", n, size(t, log), commit)
		}
	}
}

// repaired0 repairs dir and scans what that made of topic a.
func repaired0(t testing.TB, dir string) []*partScan {
	t.Helper()
	if _, err := repair(testContext(t), Options{Dir: dir}.withDefaults(), quiet, nil); err != nil {
		t.Fatal(err)
	}
	var out []*partScan
	for p := range int32(2) {
		s, err := scanPartition(partitionDir(filepath.Join(dir, dataDir), "a", p), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.open) > 0 {
			t.Errorf("transactions stay open after repair: %v", s.open)
		}
		out = append(out, s)
	}
	return out
}

// TestSegmentCutEverywhere cuts a segment after every byte: what is whole
// stays, the torn rest goes, and the broker writes on behind it.
func TestSegmentCutEverywhere(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir, unsynced)
	create(t, b, "a", 2)
	cl := client(t, b)
	var ends []int64
	path := segment0(dir, "a", 0)
	for i := range 3 {
		produce(t, cl, rec("a", 0, "k", fmt.Sprint(i)))
		ends = append(ends, size(t, path))
	}
	for n := int64(0); n <= ends[2]; n++ {
		crash := copyDir(t, dir)
		cut(t, segment0(crash, "a", 0), n)
		want := int64(0)
		for i, end := range ends {
			if n >= end {
				want = int64(i) + 1
			}
		}
		if got := repaired0(t, crash)[0].end; got != want {
			t.Errorf("cut after %d bytes: log ends at %d, want %d", n, got, want)
		}
	}
	crash := copyDir(t, dir)
	cut(t, segment0(crash, "a", 0), ends[2]-1)
	b = start(t, crash)
	produce(t, client(t, b), rec("a", 0, "k", "after"))
	stop(t, b)
	wantValues(t, read(t, start(t, crash), "a", 0), "0", "1", "after")
}

// TestDamageInside flips a bit where good records follow: those were
// acknowledged, so the broker refuses to start rather than cut them off.
func TestDamageInside(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 1)
	cl := client(t, b)
	path := segment0(dir, "a", 0)
	for i := range 3 {
		produce(t, cl, rec("a", 0, "k", fmt.Sprint(i)))
	}
	stop(t, b)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[65] ^= 1
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Start(testContext(t), Options{Dir: dir, Listen: "127.0.0.1:0", Logger: quiet})
	if err == nil || !strings.Contains(err.Error(), "restore a copy") {
		t.Fatalf("started on a damaged segment: %v", err)
	}
}

// TestHoleAtTheEnd is what a power cut may leave: a page of zeros, and later
// pages written. Nothing of it was acknowledged.
func TestHoleAtTheEnd(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 1)
	cl := client(t, b)
	path := segment0(dir, "a", 0)
	produce(t, cl, rec("a", 0, "k", "kept"))
	kept := size(t, path)
	produce(t, cl, rec("a", 0, "k", strings.Repeat("x", 8192)))
	produce(t, cl, rec("a", 0, "k", "behind"))
	stop(t, b)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(raw[4096:8192])
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	b = start(t, dir)
	wantValues(t, read(t, b, "a", 0), "kept")
	if got := size(t, path); got != kept {
		t.Errorf("segment has %d bytes, want %d", got, kept)
	}
}

// TestOpenTransactionIsAborted: what a crash finds open is aborted, and its
// producer fenced, lest it commit the other half.
func TestOpenTransactionIsAborted(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 1)
	cl := client(t, b, kgo.TransactionalID("x"))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, rec("a", 0, "k", "first half"))
	crash := copyDir(t, dir)
	stop(t, b)

	b = start(t, crash, func(o *Options) { o.Listen = b.Addr() })
	if err := cl.ProduceSync(testContext(t), rec("a", 0, "k", "second half")).FirstErr(); err == nil {
		t.Error("a producer went on with a transaction that was aborted")
	}
	if err := cl.EndTransaction(testContext(t), kgo.TryCommit); err == nil {
		t.Error("half a transaction was committed")
	}
	if got := read(t, b, "a", 0, committed()); len(got) > 0 {
		t.Errorf("got %q of an aborted transaction", values(got))
	}
	next := client(t, b, kgo.TransactionalID("x"))
	transact(t, next, true, rec("a", 0, "k", "next"))
	wantValues(t, read(t, b, "a", 0, committed()), "next")
}

// TestRetryAfterCrashIsKnown: a batch that was written and not answered is
// sent again after the crash, and kept once.
func TestRetryAfterCrashIsKnown(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 1)
	raw := sequenced(7000, 0, 0, "once")
	first := produceRaw(t, b, "a", 0, raw)
	crash := copyDir(t, dir)
	b = start(t, crash)
	second := produceRaw(t, b, "a", 0, raw)
	if first.ErrorCode != 0 || second.ErrorCode != 0 || first.BaseOffset != second.BaseOffset {
		t.Errorf("first at %d (error %d), retry at %d (error %d)", first.BaseOffset, first.ErrorCode, second.BaseOffset,
			second.ErrorCode)
	}
	wantValues(t, read(t, b, "a", 0), "once")
	gap := produceRaw(t, b, "a", 0, sequenced(7000, 0, 5, "gap"))
	if gap.ErrorCode != 45 {
		t.Errorf("a gap in the sequence after the crash: error %d, want OUT_OF_ORDER_SEQUENCE_NUMBER", gap.ErrorCode)
	}
}

// TestEpochsSurviveCrash: an owner that was fenced stays fenced.
func TestEpochsSurviveCrash(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 1)
	old := client(t, b, kgo.TransactionalID("x"))
	transact(t, old, true, rec("a", 0, "k", "old"))
	owner := client(t, b, kgo.TransactionalID("x"))
	transact(t, owner, true, rec("a", 0, "k", "owner"))
	oldID, oldEpoch, _ := old.ProducerID(testContext(t))
	newID, newEpoch, _ := owner.ProducerID(testContext(t))
	crash := copyDir(t, dir)

	b = start(t, crash)
	zombie := produceIn(t, b, "x", "a", 0, inTxn(sequenced(oldID, oldEpoch, 0, "zombie")))
	if zombie.ErrorCode != 47 {
		t.Errorf("zombie of epoch %d below %d: error %d, want INVALID_PRODUCER_EPOCH", oldEpoch, newEpoch,
			zombie.ErrorCode)
	}
	heir := client(t, b, kgo.TransactionalID("x"))
	transact(t, heir, true, rec("a", 0, "k", "heir"))
	id, epoch, _ := heir.ProducerID(testContext(t))
	if id == newID && epoch <= newEpoch {
		t.Errorf("producer %d has epoch %d after the crash, and had %d before", id, epoch, newEpoch)
	}
	wantValues(t, read(t, b, "a", 0, committed()), "old", "owner", "heir")
}

// TestGroupOffsetsOfTornCommit: kfake moves a transaction's group offsets
// after its markers; a crash between must not separate them.
func TestGroupOffsetsOfTornCommit(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "in", 1)
	create(t, b, "out", 1)
	produce(t, client(t, b), rec("in", 0, "k", "1"), rec("in", 0, "k", "2"))
	sess, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(b.Addrs()...), kgo.TransactionalID("x"), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("in"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer sess.Close()
	if err := sess.PollFetches(testContext(t)).Err(); err != nil {
		t.Fatal(err)
	}
	if err := sess.Begin(); err != nil {
		t.Fatal(err)
	}
	if err := sess.ProduceSync(testContext(t), rec("out", 0, "k", "done")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(b.groupsLog().path)
	if ok, err := sess.End(testContext(t), kgo.TryCommit); err != nil || !ok {
		t.Fatal(ok, err)
	}
	crash := copyDir(t, dir)
	groups := filepath.Join(crash, dataDir, "groups.log")
	// The frame is torn: kfake would append behind it and never read that.
	cut(t, groups, int64(len(before))+5)

	b = start(t, crash)
	wantOffset(t, b, "g", "in", 2)
	adm := kadm.NewClient(client(t, b))
	var more kadm.Offsets
	more.AddOffset("in", 0, 1, -1)
	if err := adm.CommitAllOffsets(testContext(t), "g2", more); err != nil {
		t.Fatal(err)
	}
	b = start(t, copyDir(t, crash))
	wantOffset(t, b, "g2", "in", 1)
	wantOffset(t, b, "g", "in", 2)
}

func wantOffset(t testing.TB, b *Broker, group, topic string, want int64) {
	t.Helper()
	os, err := kadm.NewClient(client(t, b)).FetchOffsets(testContext(t), group)
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := os.Lookup(topic, 0); !ok || o.At != want {
		t.Errorf("group %s is at %d, want %d", group, o.At, want)
	}
}

// TestDeletedTopicStaysDeleted: a directory kfake did not get to remove must
// not become the past of a new topic of that name.
func TestDeletedTopicStaysDeleted(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 1)
	produce(t, client(t, b), rec("a", 0, "k", "old"))
	old := copyDir(t, partitionDir(b.data, "a", 0))
	if _, err := kadm.NewClient(client(t, b)).DeleteTopic(testContext(t), "a"); err != nil {
		t.Fatal(err)
	}
	stop(t, b)
	if err := os.CopyFS(partitionDir(b.data, "a", 0), os.DirFS(old)); err != nil {
		t.Fatal(err)
	}
	b = start(t, dir)
	create(t, b, "a", 1)
	stop(t, b)
	b = start(t, dir)
	if got := values(read(t, b, "a", 0)); slices.Contains(got, "old") {
		t.Errorf("a new topic has the records of a deleted one: %q", got)
	}
}

// oldClient speaks as clients did before KIP-890: every transaction of a
// producer has the same epoch.
func oldClient(t testing.TB, b *Broker, id string) *kgo.Client {
	return client(t, b, kgo.TransactionalID(id), kgo.MaxVersions(kversion.V3_0_0()))
}

// TestSameEpochTwice: with old clients, producer and epoch do not name a
// transaction; the outcome of the first must not commit the second.
func TestSameEpochTwice(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 2)
	cl := oldClient(t, b, "x")
	_, before, _ := cl.ProducerID(testContext(t))
	transact(t, cl, true, rec("a", 0, "k", "first"), rec("a", 1, "k", "first"))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, rec("a", 0, "k", "open"), rec("a", 1, "k", "open"))
	if _, after, _ := cl.ProducerID(testContext(t)); after != before {
		t.Fatalf("epoch went from %d to %d: this is no old client", before, after)
	}
	b = start(t, copyDir(t, dir))
	for p := range int32(2) {
		wantValues(t, read(t, b, "a", p, committed()), "first")
	}
}

// TestRetriedEndTxn: the client that did not hear of its commit asks again
// after the crash, and is told it is done.
func TestRetriedEndTxn(t *testing.T) {
	for _, c := range []struct {
		version int16
		reached bool // kfake had written the marker, and the end
	}{{3, false}, {3, true}, {5, false}, {5, true}} {
		version := c.version
		t.Run(fmt.Sprintf("version %d reached %v", version, c.reached), func(t *testing.T) {
			dir := t.TempDir()
			b := start(t, dir)
			create(t, b, "a", 1)
			cl := oldClient(t, b, "x")
			if err := cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			produce(t, cl, rec("a", 0, "k", "v"))
			req := kmsg.NewPtrEndTxnRequest()
			req.TransactionalID = "x"
			req.ProducerID, req.ProducerEpoch, _ = cl.ProducerID(testContext(t))
			req.Commit = true
			if resp := endTxn(t, b, req, version); resp.ErrorCode != 0 {
				t.Fatalf("error %d", resp.ErrorCode)
			}
			crash := copyDir(t, dir)
			if !c.reached {
				cutMarker(t, crash, 0)
				pids := filepath.Join(crash, dataDir, "pids.log")
				cut(t, pids, firstFrame(t, pids))
			}
			b = start(t, crash)
			resp := endTxn(t, b, req, version)
			if resp.ErrorCode != 0 || version >= 5 && resp.ProducerEpoch != req.ProducerEpoch+1 {
				t.Errorf("retry: error %d, epoch %d after %d", resp.ErrorCode, resp.ProducerEpoch, req.ProducerEpoch)
			}
			wantValues(t, read(t, b, "a", 0, committed()), "v")
		})
	}
}

func endTxn(t testing.TB, b *Broker, req *kmsg.EndTxnRequest, version int16) *kmsg.EndTxnResponse {
	t.Helper()
	resp, err := req.RequestWith(testContext(t), client(t, b, kgo.MaxVersions(maxVersion(int16(kmsg.EndTxn), version))))
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func maxVersion(key, version int16) *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(key, version)
	return v
}

func firstFrame(t testing.TB, path string) int64 {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return int64(8 + len(nextLogEntry(raw)))
}

// TestOutcomeLogStartsAnew: it does not grow for ever, and forgets nothing
// that is not yet on disk.
func TestOutcomeLogStartsAnew(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 1)
	cl := client(t, b, kgo.TransactionalID("x"))
	transact(t, cl, true, rec("a", 0, "k", "1"))
	if err := b.txns.restart(); err != nil {
		t.Fatal(err)
	}
	if n := outcomes(t, dir); n != int64(len(outcomeMagic)) {
		t.Errorf("log has %d bytes", n)
	}
	transact(t, cl, true, rec("a", 0, "k", "2"))
	crash := copyDir(t, dir)
	cutMarker(t, crash, 0)
	wantValues(t, read(t, start(t, crash), "a", 0, committed()), "1", "2")
}
