package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestAppendTime: in a topic of LogAppendTime the broker's clock counts, for
// every record and codec, in the answer, by ListOffsets, and after a crash.
func TestAppendTime(t *testing.T) {
	for _, c := range []struct {
		name  string
		codec kgo.CompressionCodec
	}{
		{"none", kgo.NoCompression()},
		{"gzip", kgo.GzipCompression()},
		{"snappy", kgo.SnappyCompression()},
		{"lz4", kgo.Lz4Compression()},
		{"zstd", kgo.ZstdCompression()},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			b := start(t, dir)
			create(t, b, "a", 1, "message.timestamp.type", "LogAppendTime")
			cl := client(t, b, kgo.ProducerBatchCompression(c.codec), kgo.ProducerLinger(time.Second))
			long := strings.Repeat("x", 1000)
			r0, r1 := rec("a", 0, "k", long), rec("a", 0, "k", long)
			r0.Timestamp, r1.Timestamp = time.UnixMilli(5000), time.UnixMilli(9000)
			before := time.Now().Truncate(time.Millisecond)
			cl.Produce(testContext(t), r0, nil)
			produce(t, cl, r1)
			after := time.Now()
			live := read(t, b, "a", 0)
			crashed := read(t, start(t, copyDir(t, dir)), "a", 0)
			for i, r := range append(live, crashed...) {
				if r.Attrs.TimestampType() != 1 || r.Timestamp.Before(before) || r.Timestamp.After(after) ||
					!r.Timestamp.Equal(live[0].Timestamp) {
					t.Errorf("record %d: time %v of type %d, want type 1, from %v to %v, and all alike", i, r.Timestamp,
						r.Attrs.TimestampType(), before, after)
				}
			}
			if len(live) != 2 || len(crashed) != 2 {
				t.Fatalf("read %d records, %d after the crash", len(live), len(crashed))
			}
			at := live[0].Timestamp.UnixMilli()
			wantOffsetAt(t, b, at, 0, at)
			wantOffsetAt(t, b, at+1, -1, -1)
			wantOffsetAt(t, b, -3, 0, at)
			wantOffsetAt(t, b, 5000, 0, at)
		})
	}
}

// wantOffsetAt asks ListOffsets of a/0 for a time; -3 is the greatest one.
func wantOffsetAt(t testing.TB, b *Broker, at, offset, ms int64) {
	t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = "a"
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Timestamp = at
	rp.CurrentLeaderEpoch = -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(testContext(t), client(t, b))
	if err != nil {
		t.Fatal(err)
	}
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != 0 || p.Offset != offset || p.Timestamp != ms {
		t.Errorf("ListOffsets %d: offset %d, time %d, error %d; want offset %d, time %d", at, p.Offset, p.Timestamp,
			p.ErrorCode, offset, ms)
	}
}

// TestAppendTimeIsAnswered: the producer is told the append time, as Kafka does.
func TestAppendTimeIsAnswered(t *testing.T) {
	b := start(t, "")
	create(t, b, "a", 1, "message.timestamp.type", "LogAppendTime")
	p := produceRaw(t, b, "a", 0, rawBatch(rawRecord(0, []byte("k"), []byte("v"))))
	if got := read(t, b, "a", 0); len(got) != 1 || p.LogAppendTime != got[0].Timestamp.UnixMilli() {
		t.Errorf("answer says %d, log has %v", p.LogAppendTime, got)
	}
}

func TestCreateTimeIsTheProducers(t *testing.T) {
	b := start(t, "")
	create(t, b, "a", 1)
	r := rec("a", 0, "k", "v")
	r.Timestamp = time.UnixMilli(1_700_000_000_000)
	produce(t, client(t, b), r)
	got := read(t, b, "a", 0)
	if len(got) != 1 || !got[0].Timestamp.Equal(r.Timestamp) || got[0].Attrs.TimestampType() != 0 {
		t.Errorf("got %v", got)
	}
}

// TestClientTimeBits: a client that claims LogAppendTime itself would have
// kfake write a batch whose checksum is wrong.
func TestClientTimeBits(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 1, "retention.ms", "-1")
	raw := rawBatch(rawRecord(0, []byte("k"), []byte("v")))
	raw.setAttrs(attrAppendTime | attrStamped)
	raw.reseal()
	if p := produceRaw(t, b, "a", 0, raw); p.ErrorCode != 0 {
		t.Fatalf("error %d", p.ErrorCode)
	}
	b = start(t, copyDir(t, dir))
	wantValues(t, read(t, b, "a", 0), "v")
}

// TestRefusedRecords: what Kafka's LogValidator refuses.
func TestRefusedRecords(t *testing.T) {
	key, value := []byte("k"), []byte("v")
	broken := rawBatch(rawRecord(0, key, value))
	broken[len(broken)-1] = 9 // nine headers, of which none follows
	broken.reseal()
	flipped := rawBatch(rawRecord(0, key, value))
	flipped[len(flipped)-2] ^= 1
	for _, c := range []struct {
		name   string
		policy string
		batch  batch
		want   *kerr.Error
	}{
		{"null key, compacted", "compact", rawBatch(rawRecord(0, nil, value)), kerr.InvalidRecord},
		{
			"null key second, compacted and deleted", "compact,delete",
			rawBatch(rawRecord(0, key, value), rawRecord(1, nil, value)), kerr.InvalidRecord,
		},
		{"null key, deleted", "delete", rawBatch(rawRecord(0, nil, value)), nil},
		{"empty key, compacted", "compact", rawBatch(rawRecord(0, []byte{}, value)), nil},
		{"null value, compacted", "compact", rawBatch(rawRecord(0, key, nil)), nil},
		{"record that cannot be decoded", "delete", broken, kerr.CorruptMessage},
		{"offset twice", "delete", rawBatch(rawRecord(0, key, value), rawRecord(0, key, value)), kerr.CorruptMessage},
		{"checksum", "delete", flipped, kerr.CorruptMessage},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := start(t, "")
			create(t, b, "a", 1, "cleanup.policy", c.policy, "retention.ms", "-1")
			p := produceRaw(t, b, "a", 0, c.batch)
			if err := kerr.ErrorForCode(p.ErrorCode); !errors.Is(err, orNil(c.want)) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if got := read(t, b, "a", 0); c.want != nil && len(got) > 0 {
				t.Errorf("refused, and written all the same: %q", values(got))
			}
		})
	}
}

func orNil(e *kerr.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// TestRefusalIsPerPartition: beside a refused batch, a good one is written.
func TestRefusalIsPerPartition(t *testing.T) {
	b := start(t, "")
	create(t, b, "a", 2, "cleanup.policy", "compact")
	cl := client(t, b, kgo.ProducerLinger(time.Second), kgo.DisableIdempotentWrite())
	bad := &kgo.Record{Topic: "a", Partition: 0, Value: []byte("bad")}
	var badErr error
	cl.Produce(testContext(t), bad, func(_ *kgo.Record, err error) { badErr = err })
	produce(t, cl, rec("a", 1, "k", "good"))
	cl.Flush(testContext(t))
	if !errors.Is(badErr, kerr.InvalidRecord) {
		t.Errorf("null key: %v, want INVALID_RECORD", badErr)
	}
	wantValues(t, read(t, b, "a", 1), "good")
}

// TestOffsetsOfOpenTransaction: ListOffsets and Fetch stop at the last stable
// offset for those who read committed, and only for them.
func TestOffsetsOfOpenTransaction(t *testing.T) {
	b := start(t, t.TempDir())
	create(t, b, "a", 1)
	produce(t, client(t, b), rec("a", 0, "k", "plain"))
	cl := client(t, b, kgo.TransactionalID("x"))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, rec("a", 0, "k", "open"))
	wantEnds(t, b, 2, 1)
	if err := cl.EndTransaction(testContext(t), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	wantEnds(t, b, 3, 3)
	wantValues(t, read(t, b, "a", 0, committed()), "plain")
	wantValues(t, read(t, b, "a", 0), "plain", "open")
}

func wantEnds(t testing.TB, b *Broker, end, stable int64) {
	t.Helper()
	adm := kadm.NewClient(client(t, b))
	ends, err := adm.ListEndOffsets(testContext(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	stables, err := adm.ListCommittedOffsets(testContext(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	e, _ := ends.Lookup("a", 0)
	s, _ := stables.Lookup("a", 0)
	if e.Offset != end || s.Offset != stable {
		t.Errorf("end %d, stable %d; want %d and %d", e.Offset, s.Offset, end, stable)
	}
}

// TestTransactionTimeout: an owner that stops is aborted, and fenced.
func TestTransactionTimeout(t *testing.T) {
	b := start(t, t.TempDir())
	create(t, b, "a", 1)
	cl := client(t, b, kgo.TransactionalID("x"), kgo.TransactionTimeout(200*time.Millisecond))
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, cl, rec("a", 0, "k", "slow"))
	// returns once the abort marker is there
	if got := read(t, b, "a", 0, committed(), kgo.FetchMaxWait(50*time.Millisecond)); len(got) > 0 {
		t.Errorf("got %q", values(got))
	}
	if err := cl.EndTransaction(testContext(t), kgo.TryCommit); err == nil {
		t.Error("a transaction was committed after its timeout")
	}
}

// TestEpochsRollOver: each transaction takes an epoch of 16 bits; 40,000 take
// more than there are.
func TestEpochsRollOver(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	b := start(t, t.TempDir(), func(o *Options) { o.Sync = false })
	create(t, b, "a", 1)
	cl := client(t, b, kgo.TransactionalID("x"))
	ctx := context.Background()
	first, _, _ := cl.ProducerID(ctx)
	for range 40_000 {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(ctx, rec("a", 0, "k", "v")).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
	}
	if last, _, _ := cl.ProducerID(ctx); last == first {
		t.Errorf("producer id is still %d", first)
	}
	wantEnds(t, b, 80_000, 80_000)
}

// TestGroups runs the kinds of groups clients may ask for.
func TestGroups(t *testing.T) {
	for _, c := range []struct {
		name string
		opts []kgo.Opt
	}{
		{"classic", nil},
		{"classic, static member", []kgo.Opt{kgo.InstanceID("one")}},
		{"eager", []kgo.Opt{kgo.Balancers(kgo.RangeBalancer())}},
		{"KIP-848", []kgo.Opt{kgo.ServerSideBalancer()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			b := start(t, dir)
			create(t, b, "a", 2)
			produce(t, client(t, b), rec("a", 0, "k", "1"), rec("a", 1, "k", "2"))
			consume(t, b, 2, c.opts...)
			stop(t, b)
			b = start(t, dir)
			produce(t, client(t, b), rec("a", 0, "k", "3"))
			got := consume(t, b, 1, c.opts...)
			wantValues(t, got, "3") // the group went on where it was
		})
	}
}

// consume reads n records as group g, commits, and leaves.
func consume(t testing.TB, b *Broker, n int, opts ...kgo.Opt) []*kgo.Record {
	t.Helper()
	cl := client(t, b, append([]kgo.Opt{
		kgo.ConsumerGroup("g"), kgo.ConsumeTopics("a"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}, opts...)...)
	var got []*kgo.Record
	for len(got) < n {
		fs := cl.PollFetches(testContext(t))
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		got = append(got, fs.Records()...)
	}
	if err := cl.CommitRecords(testContext(t), got...); err != nil {
		t.Fatal(err)
	}
	cl.Close()
	slices.SortFunc(got, func(a, b *kgo.Record) int { return strings.Compare(string(a.Value), string(b.Value)) })
	return got
}

// TestAcksZero: nothing is answered, and everything is written.
func TestAcksZero(t *testing.T) {
	b := start(t, t.TempDir())
	create(t, b, "a", 1, "message.timestamp.type", "LogAppendTime")
	cl := client(t, b, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	for range 20 {
		produce(t, cl, rec("a", 0, "k", "v"))
	}
	produce(t, client(t, b), rec("a", 0, "k", "last"))
	want := func() bool { return len(read(t, b, "a", 0)) == 21 }
	for end := time.Now().Add(10 * time.Second); !want() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if !want() {
		t.Error("records of acks=0 are missing")
	}
}

// TestAcksZeroIsNotAnswered: the next answer is that to the next request.
func TestAcksZeroIsNotAnswered(t *testing.T) {
	b := start(t, t.TempDir())
	create(t, b, "a", 1)
	req := kmsg.NewPtrProduceRequest()
	req.Version = 9
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = rawBatch(rawRecord(0, []byte("k"), []byte("v")))
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: "a", Partitions: []kmsg.ProduceRequestTopicPartition{rp}}}
	next := kmsg.NewPtrMetadataRequest()
	next.Version = 9
	f := kmsg.NewRequestFormatter()
	got := exchange(t, b.Addr(), f.AppendRequest(nil, req, 1), f.AppendRequest(nil, next, 2))
	if corr := binary.BigEndian.Uint32(got); corr != 2 {
		t.Errorf("answer to request %d, want 2", corr)
	}
}

// TestHostileFrames: bytes that are not Kafka's close their connection and
// nothing else. kfake alone would panic on an unknown key, and make room for
// four gigabytes.
func TestHostileFrames(t *testing.T) {
	b := start(t, "")
	var closedBy atomic.Int32
	for _, raw := range [][]byte{
		{0xff, 0xff, 0xff, 0xff},
		{0, 0, 0, 0},
		{0, 0, 0, 10, 0x7f, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff},
		{0, 0, 0, 12, 0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff},
		[]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
	} {
		if hangUp(t, b.Addr(), raw) {
			closedBy.Add(1)
		}
	}
	if closedBy.Load() != 5 {
		t.Errorf("%d of 5 connections were closed", closedBy.Load())
	}
	create(t, b, "a", 1)
}
