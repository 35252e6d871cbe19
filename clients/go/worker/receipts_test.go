package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestReceipts: each result becomes its receipt, on the partition that Kafka's Java client would
// choose for the trigger.
func TestReceipts(t *testing.T) {
	w := newWorld(t, 4)
	w.start(func(_ context.Context, e *DueEvent) (Result, error) {
		switch e.Key {
		case "a":
			return Delivered(), nil
		case "b":
			return Accepted().WithCode("queued"), nil
		case "c":
			return Retry(90 * time.Second), nil
		case "d":
			return Fail("gone", "410 \"Gone\""), nil
		case "e":
			return Postpone(time.Minute, "quiet_hours"), nil
		case "f":
			return Suppress("opted_out"), nil
		case "g":
			return Result{}, errors.New("no route")
		case "h":
			panic("a bug")
		}
		return Result{}, nil
	})
	for i, key := range strings.Split("abcdefghi", "") {
		w.write(due{key: key, attempt: 3, postponed: i % 2, partition: int32(i % 4)})
	}
	want := map[string]string{
		"a": "delivered   ", "b": "accepted queued  ", "c": "retry   90000ms", "d": `failed gone 410 "Gone" `,
		"e": "postponed quiet_hours  60000ms", "f": "suppressed opted_out  ", "g": "retry error no route ",
		"h": "retry panic a bug ",
		"i": "retry no_result the handler returned no outcome: return worker.Delivered() or another one ",
	}
	partitioner := kgo.StickyKeyPartitioner(nil).ForTopic("")
	for _, r := range w.receipts(len(want)) {
		got := fmt.Sprintf("%s %s %s %s", r.text("outcome"), r.text("code"), r.text("detail"), r.text("retry_after"))
		if got != want[r.Key] {
			t.Errorf("%s: %q, want %q", r.Key, got, want[r.Key])
		}
		if r.text("due_id") != (due{key: r.Key}).id() || r.text("channel") != "print" || r.Receipt["attempt"] != 3.0 {
			t.Errorf("%v", r)
		}
		odd := strings.Index("abcdefghi", r.Key) % 2
		if postponed := r.Receipt["postponed"]; postponed != float64(odd) {
			t.Errorf("%s: postponed is %v, want %d", r.Key, postponed, odd)
		}
		if want := partitioner.Partition(&kgo.Record{Key: []byte(r.Key)}, 4); int(r.Partition) != want {
			t.Errorf("%s is on partition %d, want %d", r.Key, r.Partition, want)
		}
		delete(want, r.Key)
	}
	w.eventually("all offsets are committed", func() bool { return w.committedAt(dueTopic, 0) == 3 })
}

// TestMurmur2 compares with values of Kafka's Java client, in case the client library changes.
func TestMurmur2(t *testing.T) {
	partitioner := kgo.StickyKeyPartitioner(nil).ForTopic("")
	for key, hash := range map[string]int32{ // from Utils.murmur2 in Kafka's UtilsTest
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
	} {
		if got := partitioner.Partition(&kgo.Record{Key: []byte(key)}, 1000); got != int(hash&0x7fffffff)%1000 {
			t.Errorf("%s: %d", key, got)
		}
	}
}

// TestOffsetsBehindReceipts: handlers end in any order, and the brokers refuse receipts at
// random. No commit that reaches the brokers covers an event whose receipt has not reached them
// before.
func TestOffsetsBehindReceipts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	const parts, n = 4, 400
	w := newWorld(t, parts)
	keys := map[int32][]string{} // by partition and offset
	var dues []due
	for i := range n {
		d := due{key: fmt.Sprintf("k-%d", i), partition: rnd.Int32N(parts)}
		keys[d.partition] = append(keys[d.partition], d.key)
		dues = append(dues, d)
	}
	w.write(dues...)
	broker := rand.New(rand.NewPCG(seed, 2)) // used below on the cluster's goroutine
	there, commits := map[string]bool{}, 0
	w.cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		req := r.(*kmsg.ProduceRequest)
		if broker.IntN(3) == 0 {
			return refuse(req), nil, true
		}
		for _, key := range keysIn(req) {
			there[key] = true
		}
		return nil, nil, false
	})
	w.cluster.ControlKey(int16(kmsg.OffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		for _, topic := range r.(*kmsg.OffsetCommitRequest).Topics {
			for _, p := range topic.Partitions {
				for offset, key := range keys[p.Partition][:p.Offset] {
					if !there[key] {
						t.Errorf("committed %d of partition %d, but offset %d has no receipt",
							p.Offset, p.Partition, offset)
					}
				}
				commits++
			}
		}
		return nil, nil, false
	})
	var mu sync.Mutex
	r := w.start(func(context.Context, *DueEvent) (Result, error) {
		mu.Lock()
		d := time.Duration(rnd.IntN(5000)) * time.Microsecond
		mu.Unlock()
		time.Sleep(d)
		return Delivered(), nil
	}, CommitInterval(time.Millisecond), Concurrency(16), Kafka(kgo.ProducerBatchCompression(kgo.NoCompression())))
	w.receipts(n)
	for p := range int32(parts) {
		w.eventually("all is committed", func() bool { return w.committedAt(dueTopic, p) == int64(len(keys[p])) })
	}
	if err := r.drain(); err != nil {
		t.Error(err)
	}
	w.cluster.Close()
	if commits < parts || len(there) != n {
		t.Errorf("%d commits, %d receipts", commits, len(there))
	}
}

// refuse answers a produce request with a retriable error.
func refuse(req *kmsg.ProduceRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			part := kmsg.NewProduceResponseTopicPartition()
			part.Partition, part.ErrorCode = p.Partition, kerr.NotEnoughReplicas.Code
			topic.Partitions = append(topic.Partitions, part)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

var dueIDs = regexp.MustCompile(`"due_id":"([^@]+)@`)

// keysIn returns the trigger keys of the receipts in an uncompressed request.
func keysIn(req *kmsg.ProduceRequest) (keys []string) {
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			for _, m := range dueIDs.FindAllSubmatch(p.Records, -1) {
				keys = append(keys, string(m[1]))
			}
		}
	}
	return keys
}

// TestReceiptsTopicAway: without the receipts topic nothing is handled, because nothing could be
// answered.
func TestReceiptsTopicAway(t *testing.T) {
	w := newWorld(t, 1)
	if err := w.cluster.DeleteTopic(receiptTopic); err != nil {
		t.Fatal(err)
	}
	w.write(due{key: "a"})
	var seen calls
	m := newCounting()
	w.start(func(_ context.Context, e *DueEvent) (Result, error) {
		seen.note(e)
		return Delivered(), nil
	}, WithMetrics(m))
	w.eventually("it is held", func() bool {
		return m.get(func(m *counting) int { return min(m.load.Held, m.load.Buffered) }) == 1
	})
	time.Sleep(300 * time.Millisecond)
	if got := seen.all(); len(got) != 0 {
		t.Errorf("handled %v", got)
	}
	w.create(receiptTopic)
	w.receipts(1)
	w.eventually("it is committed", func() bool { return w.committedAt(dueTopic, 0) == 1 })
}

// TestReceiptsRefused: the request for a producer id is refused once. After that, a client of the
// library fails every record.
func TestReceiptsRefused(t *testing.T) {
	w := newWorld(t, 1)
	w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Count: 1})
	m := newCounting()
	w.start(delivered, WithMetrics(m))
	w.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: receiptTopic, Err: kerr.TopicAuthorizationFailed, Count: 2,
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.DisableIdempotentWrite())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(context.Background(), due{key: "a"}.record()).FirstErr(); err != nil {
		t.Fatal(err)
	}
	w.eventually("it is committed", func() bool { return w.committedAt(dueTopic, 0) == 1 })
	if n := m.get(func(m *counting) int { return m.failed }); n < 2 {
		t.Errorf("%d receipts failed", n)
	}
}

// TestTooLate: after ce_wcreceiptby an event is skipped. After ce_expirytime its receipt says
// that it has expired.
func TestTooLate(t *testing.T) {
	w := newWorld(t, 1)
	stamp := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339Nano) }
	w.write(
		due{key: "late", headers: map[string]string{"ce_wcreceiptby": stamp(-time.Minute)}},
		due{key: "useless", headers: map[string]string{"ce_expirytime": stamp(-time.Minute)}},
		due{key: "good", headers: map[string]string{
			"ce_expirytime": stamp(time.Hour), "ce_wcreceiptby": stamp(time.Hour),
		}},
	)
	var seen calls
	m := newCounting()
	w.start(func(_ context.Context, e *DueEvent) (Result, error) {
		seen.note(e)
		return Delivered(), nil
	}, WithMetrics(m))
	w.eventually("all is committed", func() bool { return w.committedAt(dueTopic, 0) == 3 })
	if got := seen.all(); !slices.Equal(got, []string{"good/1"}) {
		t.Errorf("handled %v", got)
	}
	for _, r := range w.receipts(2) {
		if r.Key == "useless" && (r.text("outcome") != "suppressed" || r.text("code") != "expired") {
			t.Errorf("%v", r)
		}
	}
	if w.receiptCount() != 2 || m.get(func(m *counting) int { return m.skipped[SkipReceiptBy] }) != 1 {
		t.Errorf("%d receipts, skipped %v", w.receiptCount(), m.skipped)
	}
}

// TestWrongClock: ce_wcreceiptby is compared with the brokers' clock. One event is enough to
// learn its offset.
func TestWrongClock(t *testing.T) {
	w := newWorld(t, 1)
	var seen calls
	m := newCounting()
	w.start(func(_ context.Context, e *DueEvent) (Result, error) {
		seen.note(e)
		return Delivered(), nil
	}, WithMetrics(m), func(o *options) {
		o.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
		o.byBroker = func(*kgo.Record) bool { return true } // kfake does not support LogAppendTime
		o.askInterval = 50 * time.Millisecond
	})
	w.eventually("it is assigned", func() bool {
		return m.get(func(m *counting) int { return m.load.Assigned - m.load.Held }) == 1
	})
	time.Sleep(200 * time.Millisecond)
	for _, key := range []string{"a", "b"} {
		by := time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano)
		w.write(due{key: key, headers: map[string]string{"ce_wcreceiptby": by}})
	}
	w.receipts(2)
	if got := seen.all(); len(got) != 2 {
		t.Errorf("handled %v", got)
	}
}

// TestBombOnReceipts: a batch of receipts that takes too much memory is stepped over. It holds up no
// events, and what stands behind it is read.
func TestBombOnReceipts(t *testing.T) {
	w := newWorld(t, 2)
	bomber, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.GzipCompression()))
	if err != nil {
		t.Fatal(err)
	}
	defer bomber.Close()
	known := due{key: "known"}
	for _, value := range [][]byte{
		make([]byte, 900<<10),
		fmt.Appendf(nil, `{"due_id":%q,"channel":"print","outcome":"delivered","attempt":1}`, known.id()),
		make([]byte, 900<<10),
	} {
		if err := bomber.ProduceSync(t.Context(), &kgo.Record{Topic: receiptTopic, Key: []byte("known"), Value: value}).
			FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	w.write(known, due{key: "a"}, due{key: "b", partition: 1})
	var seen calls
	w.start(func(_ context.Context, e *DueEvent) (Result, error) {
		seen.note(e)
		return Delivered(), nil
	}, Kafka(kgo.MaxDecompressBatchBytes(64<<10)))
	w.eventually("both are handled", func() bool { return len(seen.all()) == 2 })
	time.Sleep(200 * time.Millisecond)
	if got := seen.all(); len(got) != 2 {
		t.Errorf("handled %v", got)
	}
}

// TestMemoryIsTheTail: the memory holds the last receipts of the topic, whoever wrote them, but
// not those of other channels.
func TestMemoryIsTheTail(t *testing.T) {
	w := newWorld(t, 1)
	var receipts []*kgo.Record
	var dues []due
	for i := range 300 {
		d := due{key: fmt.Sprintf("k-%d", i)}
		channel := []string{`"channel":"print",`, ""}[i%2]
		if i == 299 {
			channel = `"channel":"sms",`
		}
		receipts = append(receipts, &kgo.Record{
			Topic: receiptTopic, Key: []byte(d.key),
			Value: fmt.Appendf(nil, `{"due_id":%q,%s"outcome":"accepted"}`, d.id(), channel),
		})
		dues = append(dues, d)
	}
	if err := w.cl.ProduceSync(context.Background(), receipts...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(dues) // otherwise the handled events would push the known ones out
	w.write(dues...)
	m := newCounting()
	w.start(delivered, WithMetrics(m), Memory(100))
	w.eventually("all is committed", func() bool { return w.committedAt(dueTopic, 0) == 300 })
	if n := m.get(func(m *counting) int { return m.skipped[SkipFinal] }); n != 99 || w.receiptCount() != 300+201 {
		t.Errorf("%d skipped, %d receipts", n, w.receiptCount())
	}
}

// TestReceiptsMadeAnew: offsets of a topic that was made anew begin at 0. The worker forgets the old
// ones, and reads the new topic.
func TestReceiptsMadeAnew(t *testing.T) {
	w := newWorld(t, 1)
	fill := make([]*kgo.Record, 100)
	for i := range fill {
		fill[i] = &kgo.Record{Topic: receiptTopic, Key: []byte("x"), Value: []byte("{}")}
	}
	if err := w.cl.ProduceSync(t.Context(), fill...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	var seen calls
	m := newCounting()
	w.start(func(_ context.Context, e *DueEvent) (Result, error) {
		seen.note(e)
		return Delivered(), nil
	}, WithMetrics(m), func(o *options) { o.askInterval = 50 * time.Millisecond })
	w.write(due{key: "a"})
	w.eventually("it is committed", func() bool { return w.committedAt(dueTopic, 0) == 1 })

	adm := kadm.NewClient(w.cl)
	if _, err := adm.DeleteTopics(t.Context(), receiptTopic); err != nil {
		t.Fatal(err)
	}
	if err := w.cluster.CreateTopic(receiptTopic, 1, nil); err != nil {
		t.Fatal(err)
	}
	theirs := &kgo.Record{
		Topic: receiptTopic, Key: []byte("b"),
		Value: fmt.Appendf(nil, `{"due_id":%q,"outcome":"delivered"}`, due{key: "b"}.id()),
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), theirs).FirstErr(); err != nil {
		t.Fatal(err)
	}
	redrives := 0 // redriven, as an engine says that has read the one receipt of the new topic
	w.eventually("the old receipt answers no more", func() bool {
		redrives++
		w.write(due{key: "a", headers: map[string]string{"ce_wcattempt": "2", "ce_wcbasis": "1.5.9.1.0"}})
		w.eventually("it is committed", func() bool { return w.committedAt(dueTopic, 0) == int64(1+redrives) })
		return len(seen.all()) == 2
	})
	w.write(due{key: "b"})
	w.eventually("it is committed", func() bool { return w.committedAt(dueTopic, 0) == int64(2+redrives) })
	if got := seen.all(); len(got) != 2 {
		t.Errorf("handled %v, want a twice, and not b: the new topic has its receipt", got)
	}
}

// TestReceiptsMadeAnewBeforeARebalance: if the reading for a new partition finds that the topic was
// made anew, it reads the memory of the others again, too.
func TestReceiptsMadeAnewBeforeARebalance(t *testing.T) {
	w := newWorld(t, 2)
	o, err := newOptions("print", []Option{Brokers(w.cluster.ListenAddrs()...)})
	if err != nil {
		t.Fatal(err)
	}
	have, assigned := newPartition(dueTopic, 0, laneNormal), newPartition(dueTopic, 1, laneNormal)
	run := &worker{
		options: o, reader: newReceiptReader("print"), admin: kadm.NewClient(w.cl),
		loading: make(chan struct{}, 1), wake: make(chan struct{}, 1), queue: newQueue(),
		memories: map[int32]*memory{},
		parts:    map[topicPartition]*partition{{dueTopic, 0}: have, {dueTopic, 1}: assigned},
	}
	load := func(p *partition) {
		t.Helper()
		if left, err := run.loadOnce(t.Context(), []*partition{p}); err != nil || len(left) > 0 {
			t.Fatalf("%d partitions are left: %v", len(left), err)
		}
	}
	load(have)
	if _, err := run.admin.DeleteTopics(t.Context(), receiptTopic); err != nil {
		t.Fatal(err)
	}
	w.create(receiptTopic)
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	receipt := &kgo.Record{
		Topic: receiptTopic, Key: []byte("a"),
		Value: fmt.Appendf(nil, `{"due_id":%q,"outcome":"delivered"}`, due{key: "a"}.id()),
	}
	if err := cl.ProduceSync(t.Context(), receipt).FirstErr(); err != nil {
		t.Fatal(err)
	}
	run.admin = kadm.NewClient(cl) // the other one may cache the old id for a while
	load(assigned)
	if got := run.memories[0].check(&DueEvent{ID: due{key: "a"}.id(), Attempt: 1}); got != SkipFinal {
		t.Errorf("a delivered event is %q", got)
	}
}

// TestPartitionCountsDiffer: if the due topic has more partitions than the receipts topic, the
// log names the option.
func TestPartitionCountsDiffer(t *testing.T) {
	w := newWorld(t, 1)
	if err := w.cluster.CreateTopic("wide", 3, nil); err != nil {
		t.Fatal(err)
	}
	w.write(due{key: "a", topic: "wide", partition: 2})
	var log logged
	r := w.start(delivered, Topic("wide"), Logger(slog.New(slog.NewTextHandler(&log, nil))))
	w.eventually("the option is named", func() bool { return log.has("worker.ByKey()") })
	if err := r.drain(); err != nil || w.receiptCount() != 0 {
		t.Errorf("%v, %d receipts", err, w.receiptCount())
	}
	w.start(delivered, Topic("wide"), ByKey())
	w.receipts(1)
}
