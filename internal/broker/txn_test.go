package broker

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// opened has a producer with an open transaction of id x in both partitions of a, and its EndTxn.
func opened(t *testing.T, b *Broker) (*kgo.Client, *kmsg.EndTxnRequest) {
	t.Helper()
	create(t, b, "a", 2)
	cl := client(t, b, kgo.TransactionalID("x"))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, rec("a", 0, "k", "v"), rec("a", 1, "k", "v"))
	return cl, endOf(t, cl)
}

func endOf(t *testing.T, cl *kgo.Client) *kmsg.EndTxnRequest {
	t.Helper()
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.Commit, req.Version = "x", true, 5
	var err error
	if req.ProducerID, req.ProducerEpoch, err = cl.ProducerID(testContext(t)); err != nil {
		t.Fatal(err)
	}
	return req
}

// writeDown writes down the commit of a transaction of x that has a record in both partitions of a. kfake has not
// turned to it.
func writeDown(t *testing.T, b *Broker, opts ...kgo.Opt) {
	t.Helper()
	cl := client(t, b, append(opts, kgo.TransactionalID("x"))...)
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, rec("a", 0, "k", "v"), rec("a", 1, "k", "v"))
	if o, _, err := b.txns.prepare(endOf(t, cl)); err != nil || o == nil {
		t.Fatal("nothing was written down", err)
	}
}

// initX asks for the producer id of x, and returns the answer's error.
func initX(t *testing.T, b *Broker, timeout time.Duration) error {
	t.Helper()
	req, id := kmsg.NewPtrInitProducerIDRequest(), "x"
	req.TransactionalID = &id
	req.TransactionTimeoutMillis = int32(timeout.Milliseconds())
	resp, err := req.RequestWith(testContext(t), client(t, b))
	if err != nil {
		t.Fatal(err)
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

// withoutMarkers is a copy of dir as a power cut may leave it: the last marker of both partitions of a is gone.
func withoutMarkers(t *testing.T, dir string) string {
	t.Helper()
	crash := copyDir(t, dir)
	withoutJournal(t, crash)
	for p := range int32(2) {
		cutMarker(t, crash, p)
	}
	return crash
}

// cutMarker cuts the last marker off a partition of a.
func cutMarker(t *testing.T, dir string, partition int32) {
	t.Helper()
	path := segment0(dir, "a", partition)
	cut(t, path, size(t, path)-markerSize)
}

// writeIn writes a record into the transaction of x.
func writeIn(t *testing.T, b *Broker, end *kmsg.EndTxnRequest, partition, sequence int32, value string) {
	t.Helper()
	raw := inTxn(sequenced(end.ProducerID, end.ProducerEpoch, sequence, value))
	if p := produceIn(t, b, "x", "a", partition, raw); p.ErrorCode != 0 {
		t.Fatalf("%s: error %d", value, p.ErrorCode)
	}
}

func wantCommitted(t *testing.T, b *Broker, want ...string) {
	t.Helper()
	for p := range int32(2) {
		wantValues(t, read(t, b, "a", p, committed()), want...)
	}
}

// nothingUnsynced cuts the power so that no sector survives that was not synced.
var nothingUnsynced = rand.New(ones{})

type ones struct{}

func (ones) Uint64() uint64 { return 1<<64 - 1 }

// TestZombieHidesNoCommit: what a fenced producer still sends does not make what is known of its heir's
// transaction less.
func TestZombieHidesNoCommit(t *testing.T) {
	b := start(t, t.TempDir())
	create(t, b, "a", 2)
	old := endOf(t, client(t, b, kgo.TransactionalID("x")))
	cl := client(t, b, kgo.TransactionalID("x"))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, rec("a", 0, "k", "v"), rec("a", 1, "k", "v"))
	zombie := produceIn(t, b, "x", "a", 0, inTxn(sequenced(old.ProducerID, old.ProducerEpoch, 0, "zombie")))
	if zombie.ErrorCode != kerr.InvalidProducerEpoch.Code {
		t.Fatalf("zombie: error %d, want INVALID_PRODUCER_EPOCH", zombie.ErrorCode)
	}
	_, targets, err := b.txns.prepare(endOf(t, cl))
	if err != nil || len(targets) != 3 {
		t.Errorf("the commit waits for %v, %v; want both partitions and the outcome", targets, err)
	}
}

// TestRefusedInitFencesNobody: a commit was written down, and then somebody asks to take the transactional id
// over, which kfake refuses.
func TestRefusedInitFencesNobody(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	_, end := opened(t, b)
	if _, _, err := b.txns.prepare(end); err != nil {
		t.Fatal(err)
	}
	if err := initX(t, b, time.Hour); err != kerr.InvalidTransactionTimeout {
		t.Fatalf("a timeout of an hour: %v", err)
	}
	if resp := endTxn(t, b, end, 5); resp.ErrorCode != 0 {
		t.Fatalf("the commit: error %d", resp.ErrorCode)
	}
	wantCommitted(t, start(t, withoutMarkers(t, dir)), "v")
}

// TestCommitTakenBack: whatever comes between the outcome of a commit and kfake's turn to it takes the outcome
// back. The client is to try again, and then commits all.
func TestCommitTakenBack(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, b *Broker, cl *kgo.Client)
	}{
		{"refused init", func(t *testing.T, b *Broker, _ *kgo.Client) {
			if err := initX(t, b, time.Hour); err == nil {
				t.Error("a timeout of an hour was accepted")
			}
		}},
		{"more data", func(t *testing.T, _ *Broker, cl *kgo.Client) { produce(t, cl, rec("a", 0, "k", "more")) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			b := start(t, dir)
			cl, end := opened(t, b)
			stuck, release := make(chan struct{}), make(chan struct{})
			fsync := b.syncer.fsync
			b.syncer.fsync = func(f *os.File) error {
				if strings.HasPrefix(filepath.Base(f.Name()), "journal.") {
					select {
					case stuck <- struct{}{}:
						<-release
					default:
					}
				}
				return fsync(f)
			}
			answer := make(chan *kmsg.EndTxnResponse)
			go func() {
				resp, err := end.RequestWith(testContext(t), client(t, b))
				if err != nil {
					t.Error(err)
				}
				answer <- resp
			}()
			<-stuck // the outcome is written, and kfake has not seen the request
			done := make(chan struct{})
			go func() { defer close(done); c.do(t, b, cl) }()
			for b.txns.standing() > 0 {
				time.Sleep(time.Millisecond)
			}
			close(release)
			<-done
			if resp := <-answer; resp.ErrorCode != kerr.ConcurrentTransactions.Code {
				t.Fatalf("the commit: error %d, want CONCURRENT_TRANSACTIONS", resp.ErrorCode)
			}
			if resp := endTxn(t, b, end, 5); resp.ErrorCode != 0 {
				t.Fatalf("the commit, again: error %d", resp.ErrorCode)
			}
			want := values(read(t, b, "a", 0, committed()))
			wantValues(t, read(t, start(t, withoutMarkers(t, dir)), "a", 0, committed()), want...)
		})
	}
}

// standing is how many outcomes are written that kfake has not turned to.
func (x *txns) standing() (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, o := range x.owners {
		for _, t := range o.open {
			if t.outcome != nil && t.ends == 0 {
				n++
			}
		}
	}
	return n
}

// TestAbortAfterCommit: a connection died while its commit waited for the disk, and the client aborts.
func TestAbortAfterCommit(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	_, end := opened(t, b)
	if _, _, err := b.txns.prepare(end); err != nil {
		t.Fatal(err)
	}
	end.Commit = false
	if resp := endTxn(t, b, end, 5); resp.ErrorCode != 0 {
		t.Fatalf("the abort: error %d", resp.ErrorCode)
	}
	crash := withoutMarkers(t, dir)
	pids := filepath.Join(crash, dataDir, "pids.log")
	cut(t, pids, firstFrame(t, pids))
	wantCommitted(t, start(t, crash))
}

// TestAbortLeavesTheCommitBefore: a producer that keeps its epoch commits one transaction, and the next one is
// taken back. A power cut takes a marker of the first one, and the group's offset.
func TestAbortLeavesTheCommitBefore(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, b *Broker, end *kmsg.EndTxnRequest)
	}{
		{"abort", func(t *testing.T, b *Broker, end *kmsg.EndTxnRequest) {
			end.Commit = false
			if resp := endTxn(t, b, end, 4); resp.ErrorCode != 0 {
				t.Fatalf("the abort: error %d", resp.ErrorCode)
			}
		}},
		{"timeout", func(t *testing.T, b *Broker, _ *kmsg.EndTxnRequest) {
			read(t, b, "a", 1, committed()) // returns once it has timed out
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			b := start(t, dir)
			create(t, b, "a", 2)
			cl := client(t, b, kgo.TransactionalID("x"), kgo.TransactionTimeout(time.Second))
			end := endOf(t, cl)
			writeIn(t, b, end, 0, 0, "1")
			writeIn(t, b, end, 1, 0, "1")
			addOffset(t, b, end, "g", 1)
			if resp := endTxn(t, b, end, 4); resp.ErrorCode != 0 {
				t.Fatalf("the commit: error %d", resp.ErrorCode)
			}
			writeIn(t, b, end, 1, 1, "2")
			end.Version = 4
			if o, _, err := b.txns.prepare(end); err != nil || o == nil {
				t.Fatal("nothing was written down", err)
			}
			c.do(t, b, end)
			crash := withoutMarkers(t, dir)
			if err := os.Remove(filepath.Join(crash, dataDir, "groups.log")); err != nil {
				t.Fatal(err)
			}
			b = start(t, crash)
			wantCommitted(t, b, "1")
			wantOffset(t, b, "g", "a", 1)
		})
	}
}

// TestOlderCommitInAnotherPartition: as TestAbortLeavesTheCommitBefore, but the next transaction is committed too.
func TestOlderCommitInAnotherPartition(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 2)
	end := endOf(t, client(t, b, kgo.TransactionalID("x")))
	for p := range int32(2) {
		writeIn(t, b, end, p, 0, "v")
		if resp := endTxn(t, b, end, 4); resp.ErrorCode != 0 {
			t.Fatalf("the commit: error %d", resp.ErrorCode)
		}
	}
	wantCommitted(t, start(t, withoutMarkers(t, dir)), "v")
}

// TestCommitAfterTimeout: as TestAbortAfterCommit, but it was kfake that aborted. Nothing in the segments or in
// pids.log shows it.
func TestCommitAfterTimeout(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 2)
	writeDown(t, b, kgo.TransactionTimeout(300*time.Millisecond))
	wantCommitted(t, b) // returns once it has timed out
	crash := withoutMarkers(t, dir)
	pids := filepath.Join(crash, dataDir, "pids.log")
	cut(t, pids, firstFrame(t, pids))
	wantCommitted(t, start(t, crash))
}

// TestOffsetsAreGivenOnce: readers go past what was aborted, and past markers, so a power cut does not take them.
func TestOffsetsAreGivenOnce(t *testing.T) {
	begin := func(t *testing.T, b *Broker, opts ...kgo.Opt) *kgo.Client {
		cl := client(t, b, append(opts, kgo.TransactionalID("x"))...)
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		produce(t, cl, rec("a", 0, "k", "v"))
		return cl
	}
	add := func(t *testing.T, b *Broker) *kmsg.EndTxnRequest {
		end := endOf(t, client(t, b, kgo.TransactionalID("x")))
		addPartition(t, b, end)
		return end
	}
	for _, c := range []struct {
		name string
		end  int64
		do   func(t *testing.T, b *Broker)
	}{
		{"abort", 2, func(t *testing.T, b *Broker) {
			if err := begin(t, b).EndTransaction(testContext(t), kgo.TryAbort); err != nil {
				t.Fatal(err)
			}
		}},
		{"fenced", 2, func(t *testing.T, b *Broker) {
			begin(t, b)
			if err := initX(t, b, time.Minute); err != nil {
				t.Fatal(err)
			}
		}},
		{"timeout", 2, func(t *testing.T, b *Broker) {
			begin(t, b, kgo.TransactionTimeout(200*time.Millisecond))
			read(t, b, "a", 0, committed()) // returns once it has timed out
		}},
		{"commit without data", 1, func(t *testing.T, b *Broker) {
			if resp := endTxn(t, b, add(t, b), 5); resp.ErrorCode != 0 {
				t.Fatal(resp)
			}
		}},
		{"abort without data", 1, func(t *testing.T, b *Broker) {
			end := add(t, b)
			end.Commit = false
			if resp := endTxn(t, b, end, 5); resp.ErrorCode != 0 {
				t.Fatal(resp)
			}
		}},
		{"marker of an operator", 1, func(t *testing.T, b *Broker) { writeMarker(t, b) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := start(t, t.TempDir())
			create(t, b, "a", 1)
			d := mount(t, b)
			c.do(t, b)
			wantEnds(t, b, c.end, c.end)
			after := t.TempDir()
			d.cut(t, after, nothingUnsynced)
			wantEnds(t, start(t, after), c.end, c.end)
		})
	}
}

// writeMarker writes an ABORT marker to a/0 as an operator may.
func writeMarker(t *testing.T, b *Broker) {
	t.Helper()
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	topics := []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: "a", Partitions: []int32{0}}}
	req.Markers = []kmsg.WriteTxnMarkersRequestMarker{{ProducerID: 7000, Topics: topics}}
	if _, err := client(t, b).Broker(0).Request(testContext(t), req); err != nil {
		t.Fatal(err)
	}
}

// TestRefusedOffsetKeepsOthers: kfake refuses an offset of a group, and an earlier one of the same transaction,
// which it took, is in the outcome.
func TestRefusedOffsetKeepsOthers(t *testing.T) {
	b := start(t, t.TempDir())
	_, end := opened(t, b)
	commit := func(offset int64, member string) int16 {
		req := kmsg.NewPtrTxnOffsetCommitRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = "x", end.ProducerID, end.ProducerEpoch, "g"
		if req.Generation = -1; member != "" {
			req.Generation, req.MemberID = 5, member
		}
		req.Topics = []kmsg.TxnOffsetCommitRequestTopic{{
			Topic:      "a",
			Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Offset: offset, LeaderEpoch: -1}},
		}}
		v5 := kgo.MaxVersions(maxVersion(int16(kmsg.TxnOffsetCommit), 5))
		resp, err := req.RequestWith(testContext(t), client(t, b, v5))
		if err != nil {
			t.Fatal(err)
		}
		return resp.Topics[0].Partitions[0].ErrorCode
	}
	if code := commit(1, ""); code != 0 {
		t.Fatalf("error %d", code)
	}
	if code := commit(2, "stranger"); code == 0 {
		t.Fatal("a stranger's offset was taken")
	}
	if resp := endTxn(t, b, end, 5); resp.ErrorCode != 0 {
		t.Fatalf("the commit: error %d", resp.ErrorCode)
	}
	list := commitsIn(t, b.opts.Dir)
	if len(list) != 1 || len(list[0].offsets) != 1 || list[0].offsets[0].offset != 1 {
		t.Errorf("outcomes %+v; want one, of offset 1", list)
	}
}

// TestTransactionalBatchOfOthers: a batch whose producer has no transactional id, or another one, would be of a
// transaction that nothing ends.
func TestTransactionalBatchOfOthers(t *testing.T) {
	b := start(t, t.TempDir())
	create(t, b, "a", 1)
	ctx := testContext(t)
	plain, err := kmsg.NewPtrInitProducerIDRequest().RequestWith(ctx, client(t, b))
	if err != nil {
		t.Fatal(err)
	}
	other := endOf(t, client(t, b, kgo.TransactionalID("x")))
	for _, c := range []struct {
		name, id string
		pid      int64
		want     *kerr.Error
	}{
		{"no id", "", plain.ProducerID, kerr.TransactionalIDAuthorizationFailed},
		{"no id, and the producer has one", "", other.ProducerID, kerr.TransactionalIDAuthorizationFailed},
		{"the producer has none", "x", plain.ProducerID, kerr.InvalidProducerIDMapping},
		{"the producer has another one", "y", other.ProducerID, kerr.InvalidProducerIDMapping},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := produceIn(t, b, c.id, "a", 0, inTxn(sequenced(c.pid, 0, 0, "v")))
			if p.ErrorCode != c.want.Code {
				t.Errorf("error %d, want %v", p.ErrorCode, c.want)
			}
		})
	}
	produce(t, client(t, b), rec("a", 0, "k", "plain"))
	wantEnds(t, b, 1, 1)
}

// TestTransactionalIDsSurvive: a producer goes on after a restart in place.
func TestTransactionalIDsSurvive(t *testing.T) {
	b := start(t, t.TempDir())
	create(t, b, "a", 1)
	cl := client(t, b, kgo.TransactionalID("x"))
	for _, v := range []string{"1", "2"} {
		transact(t, cl, true, rec("a", 0, "k", v))
		if err := b.restart(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	wantValues(t, read(t, b, "a", 0, committed()), "1", "2")
}

// addOffset makes an offset of a/0 part of the transaction that end is to end.
func addOffset(t *testing.T, b *Broker, end *kmsg.EndTxnRequest, group string, offset int64) {
	t.Helper()
	addOffsetBy(t, b, end, group, offset, 5)
}

func addOffsetBy(t *testing.T, b *Broker, end *kmsg.EndTxnRequest, group string, offset int64, version int16) {
	t.Helper()
	if code := sendOffset(t, b, end, group, offset, version); code != 0 {
		t.Fatalf("the offset: error %d", code)
	}
}

// sendOffset returns the answer's error.
func sendOffset(t *testing.T, b *Broker, end *kmsg.EndTxnRequest, group string, offset int64, version int16) int16 {
	t.Helper()
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = "x", end.ProducerID, end.ProducerEpoch, group
	req.Generation = -1
	req.Topics = []kmsg.TxnOffsetCommitRequestTopic{{
		Topic:      "a",
		Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Offset: offset, LeaderEpoch: -1}},
	}}
	most := kgo.MaxVersions(maxVersion(int16(kmsg.TxnOffsetCommit), version))
	resp, err := req.RequestWith(testContext(t), client(t, b, most))
	if err != nil {
		t.Fatal(err)
	}
	return resp.Topics[0].Partitions[0].ErrorCode
}

// TestDeletedGroupStaysDeleted: the offsets of a group were committed by a transaction, and the group was deleted.
func TestDeletedGroupStaysDeleted(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	_, end := opened(t, b)
	addOffset(t, b, end, "g", 1)
	if resp := endTxn(t, b, end, 5); resp.ErrorCode != 0 {
		t.Fatalf("the commit: error %d", resp.ErrorCode)
	}
	wantOffset(t, b, "g", "a", 1)
	if _, err := kadm.NewClient(client(t, b)).DeleteGroup(testContext(t), "g"); err != nil {
		t.Fatal(err)
	}
	stop(t, b)
	b = start(t, dir)
	groups, err := kadm.NewClient(client(t, b)).ListGroups(testContext(t))
	if err != nil || slices.Contains(groups.Groups(), "g") {
		t.Errorf("groups %v, %v; want none", groups.Groups(), err)
	}
	wantCommitted(t, b, "v")
}

// TestDeletedOffsetsAfterKill: as TestDeletedGroupStaysDeleted, but the process is killed, after kfake has rewritten
// groups.log: nothing in there tells of the group.
func TestDeletedOffsetsAfterKill(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(ctx context.Context, adm *kadm.Client) error
	}{
		{"group", func(ctx context.Context, adm *kadm.Client) error {
			_, err := adm.DeleteGroup(ctx, "g")
			return err
		}},
		{"offset", func(ctx context.Context, adm *kadm.Client) error {
			var s kadm.TopicsSet
			s.Add("a", 0)
			resp, err := adm.DeleteOffsets(ctx, "g", s)
			return errors.Join(err, resp.Error())
		}},
		{"topic", func(ctx context.Context, adm *kadm.Client) error {
			if _, err := adm.DeleteTopic(ctx, "a"); err != nil {
				return err
			}
			_, err := adm.CreateTopic(ctx, 2, 1, nil, "a")
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			b := start(t, dir)
			_, end := opened(t, b)
			addOffset(t, b, end, "g", 1)
			if resp := endTxn(t, b, end, 5); resp.ErrorCode != 0 {
				t.Fatalf("the commit: error %d", resp.ErrorCode)
			}
			wantOffset(t, b, "g", "a", 1)
			if err := c.do(testContext(t), kadm.NewClient(client(t, b))); err != nil {
				t.Fatal(err)
			}
			for p := range int32(2) { // as much as before, in a topic that is new
				produce(t, client(t, b), rec("a", p, "k", "1"), rec("a", p, "k", "2"))
			}
			crash := copyDir(t, dir)
			cut(t, filepath.Join(crash, dataDir, "groups.log"), 0)
			b = start(t, crash)
			offsets, err := kadm.NewClient(client(t, b)).FetchOffsets(testContext(t), "g")
			if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
				t.Fatal(err)
			}
			if o, ok := offsets.Lookup("a", 0); ok && o.At >= 0 {
				t.Errorf("offset %d, want none", o.At)
			}
		})
	}
}

// TestStopThenPowerCut: a clean stop empties the outcome log, and nothing that it could have mended is lost.
func TestStopThenPowerCut(t *testing.T) {
	b := start(t, t.TempDir())
	_, end := opened(t, b)
	d := mount(t, b)
	if resp := endTxn(t, b, end, 5); resp.ErrorCode != 0 {
		t.Fatalf("the commit: error %d", resp.ErrorCode)
	}
	stop(t, b)
	after := t.TempDir()
	d.cut(t, after, nothingUnsynced)
	wantCommitted(t, start(t, after), "v")
}
