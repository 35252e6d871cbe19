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
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func delivered(context.Context, *DueEvent) (Result, error) { return Delivered(), nil }

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

// TestOrderByKey: events of one record key are handled one after the other, in order. Events of
// other keys run meanwhile.
func TestOrderByKey(t *testing.T) {
	w := newWorld(t, 1)
	var mu sync.Mutex
	running, order, most := map[string]int{}, map[string][]string{}, 0
	w.start(func(_ context.Context, e *DueEvent) (Result, error) {
		key := string(e.RecordKey)
		mu.Lock()
		running[key]++
		if running[key] > 1 {
			t.Errorf("two of %s at a time", key)
		}
		most = max(most, len(running))
		order[key] = append(order[key], e.Key)
		mu.Unlock()
		time.Sleep(time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		if running[key]--; running[key] == 0 {
			delete(running, key)
		}
		return Retry(0), nil // a retry does not block others
	}, Concurrency(8))
	var dues []due
	for i := range 200 {
		dues = append(dues, due{key: fmt.Sprintf("t-%03d", i), target: fmt.Sprintf("user-%d", i%10)})
	}
	w.write(dues...)
	w.receipts(200)
	mu.Lock()
	defer mu.Unlock()
	for key, keys := range order {
		if len(keys) != 20 || !slices.IsSorted(keys) {
			t.Errorf("%s: %v", key, keys)
		}
	}
	if most < 2 || most > 8 {
		t.Errorf("%d at a time", most)
	}
}

// TestThreeAttemptsAreSentOnce: the engine's receipt timeouts created attempts while no worker
// ran. The receiver gets only one.
func TestThreeAttemptsAreSentOnce(t *testing.T) {
	w := newWorld(t, 1)
	w.write(due{key: "pills", attempt: 1}, due{key: "pills", attempt: 2}, due{key: "pills", attempt: 3},
		due{key: "last"})
	var seen calls
	m := newCounting()
	w.start(func(_ context.Context, e *DueEvent) (Result, error) {
		seen.note(e)
		return Delivered(), nil
	}, WithMetrics(m))
	w.receipts(2)
	w.eventually("all is committed", func() bool { return w.committedAt(dueTopic, 0) == 4 })
	if got := seen.all(); len(got) != 2 || !slices.Contains(got, "pills/1") {
		t.Errorf("handled %v", got)
	}
	if n := m.get(func(m *counting) int { return m.skipped[SkipFinal] }); n != 2 || w.receiptCount() != 2 {
		t.Errorf("%d skipped, %d receipts", n, w.receiptCount())
	}
}

// TestRetryIsHandled: an attempt after the answered one is handled, and so is a postponement. A
// copy of either is not.
func TestRetryIsHandled(t *testing.T) {
	w := newWorld(t, 1)
	w.write(due{key: "a", attempt: 1}, due{key: "a", attempt: 1}, due{key: "a", attempt: 1, postponed: 1},
		due{key: "a", attempt: 2}, due{key: "a", attempt: 1, postponed: 2}, due{key: "z"})
	var seen calls
	w.start(func(_ context.Context, e *DueEvent) (Result, error) {
		seen.note(e)
		return Retry(0), nil
	})
	w.eventually("all is committed", func() bool { return w.committedAt(dueTopic, 0) == 6 })
	got := slices.DeleteFunc(seen.all(), func(s string) bool { return s == "z/1" })
	if !slices.Equal(got, []string{"a/1", "a/1", "a/2"}) {
		t.Errorf("handled %v", got)
	}
}

// TestKillBeforeReceipt: the handler has done its work, and the process dies before the receipt
// is acknowledged. Another worker gets the event.
func TestKillBeforeReceipt(t *testing.T) {
	w := newWorld(t, 1)
	handle := w.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: receiptTopic, Err: kerr.NotLeaderForPartition, Count: -1,
	})
	w.write(due{key: "a"})
	var seen calls
	note := func(_ context.Context, e *DueEvent) (Result, error) {
		seen.note(e)
		return Delivered(), nil
	}
	first := w.start(note, DrainTimeout(time.Second))
	w.eventually("the handler has run", func() bool { return len(seen.all()) == 1 })
	time.Sleep(100 * time.Millisecond) // time for some commits
	if at := w.committedAt(dueTopic, 0); at != -1 {
		t.Errorf("committed %d without a receipt", at)
	}
	first.kill()
	if err := first.wait(); !errors.Is(err, ErrUnfinished) {
		t.Errorf("the killed one ended with %v", err)
	}
	handle.Remove()
	w.start(note)
	w.receipts(1)
	if got := seen.all(); len(got) != 2 {
		t.Errorf("handled %v", got)
	}
	w.eventually("it is committed", func() bool { return w.committedAt(dueTopic, 0) == 1 })
}

// TestKillAfterReceipt: the receipt is written, but the offset is not committed. The next worker
// learns of the receipt from the receipts topic.
func TestKillAfterReceipt(t *testing.T) {
	for _, name := range []string{"memory", "no memory", "by key"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 4)
			w.write(due{key: "a", partition: 1}) // not the partition of a's receipts: only by_key writes there
			memory, want, byKey := Memory(100), 1, func(*options) {}
			switch name {
			case "no memory":
				memory, want = Memory(-1), 2
			case "by key":
				byKey = ByKey()
			case "memory":
				p := kgo.StickyKeyPartitioner(nil).ForTopic("").Partition(&kgo.Record{Key: []byte("a")}, 4)
				w.write(due{key: "a", partition: int32(p)})
				want = 2 // one per partition: the receipt of partition 1 is another partition's
			}
			var seen calls
			note := func(_ context.Context, e *DueEvent) (Result, error) {
				seen.note(e)
				return Delivered(), nil
			}
			first := w.start(note, memory, byKey, DrainTimeout(time.Second), CommitInterval(time.Hour))
			w.receipts(1)
			w.eventually("all are handled", func() bool { return w.receiptCount() >= 1 && len(seen.all()) >= 1 })
			if name == "memory" {
				w.receipts(2)
			}
			first.kill()
			_ = first.wait()
			m := newCounting()
			w.start(note, memory, byKey, WithMetrics(m))
			w.eventually("it is committed", func() bool { return w.committedAt(dueTopic, 1) == 1 })
			if name == "memory" {
				w.eventually("one is skipped", func() bool {
					return m.get(func(m *counting) int { return m.skipped[SkipFinal] }) == 1
				})
				want = 3 // the receipt of partition 1 is not known there
			}
			if got := seen.all(); len(got) != want {
				t.Errorf("handled %v, want %d", got, want)
			}
		})
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

// TestHighLaneFirst: a lane that is created while a worker runs is found. During a backlog, the
// next free handler takes its event.
func TestHighLaneFirst(t *testing.T) {
	w := newWorld(t, 1)
	var dues []due
	for i := range 50 {
		dues = append(dues, due{key: fmt.Sprintf("n-%d", i)})
	}
	w.write(dues...)
	var seen calls
	m, gate := newCounting(), make(chan struct{})
	w.start(func(_ context.Context, e *DueEvent) (Result, error) {
		if seen.note(e); e.High {
			return Accepted(), nil
		}
		<-gate
		return Delivered(), nil
	}, Concurrency(1), WithMetrics(m))
	w.eventually("it works", func() bool { return len(seen.all()) == 1 })
	w.create(dueTopic + ".high")
	created := time.Now()
	w.write(due{key: "urgent", topic: dueTopic + ".high"})
	w.eventually("both lanes are in memory", func() bool {
		return m.get(func(m *counting) int { return m.load.Ready }) == 50
	})
	t.Logf("the lane was read %v after its creation", time.Since(created))
	close(gate)
	w.receipts(51)
	if got := seen.all(); got[1] != "urgent/1" {
		t.Errorf("the urgent one came as number %d", slices.Index(got, "urgent/1"))
	}
}

// TestBackPressure: a slow handler pauses its partition, and memory is bounded.
func TestBackPressure(t *testing.T) {
	w := newWorld(t, 2)
	var dues []due
	for i := range 3000 {
		dues = append(dues, due{key: fmt.Sprintf("k-%d", i), partition: int32(i % 2)})
	}
	w.write(dues...)
	m := newCounting()
	gate := make(chan struct{})
	r := w.start(func(ctx context.Context, _ *DueEvent) (Result, error) {
		select {
		case <-gate:
			return Delivered(), nil
		case <-ctx.Done():
			return Result{}, ctx.Err()
		}
	}, Concurrency(4), Buffer(100, 1<<20), FetchBytes(64<<10), WithMetrics(m))
	w.eventually("both partitions are paused", func() bool {
		return m.get(func(m *counting) int { return m.load.Paused }) == 2
	})
	time.Sleep(time.Second)
	// A share of 50 for each, plus a poll of the same size.
	if n := m.get(func(m *counting) int { return m.most.Buffered }); n > 200 {
		t.Errorf("%d events in memory", n)
	}
	close(gate)
	w.receipts(3000)
	if err := r.drain(); err != nil {
		t.Error(err)
	}
	if a, b := w.committedAt(dueTopic, 0), w.committedAt(dueTopic, 1); a != 1500 || b != 1500 {
		t.Errorf("committed %d and %d", a, b)
	}
}

// fetched counts the records that a client has read, including those that it discards because
// their partition is paused.
type fetched struct{ n atomic.Int64 }

func (f *fetched) OnFetchRecordBuffered(*kgo.Record) { f.n.Add(1) }

// TestFetchedOnce: back-pressure does not make the client read a backlog many times.
func TestFetchedOnce(t *testing.T) {
	const events = 60_000
	w := newWorld(t, 4)
	dues := make([]due, events)
	for i := range dues {
		dues[i] = due{key: fmt.Sprintf("k-%d", i), partition: int32(i % 4), value: `{"title":"Take pills"}`}
	}
	w.write(dues...)
	f, a := &fetched{}, &acks{}
	r := w.start(delivered, Kafka(kgo.WithHooks(f)), WithMetrics(a))
	w.eventually("all have receipts", func() bool { return a.n.Load() >= events })
	if err := r.drain(); err != nil {
		t.Error(err)
	}
	if n := f.n.Load(); n > 3*events {
		t.Errorf("%d records were read, of %d", n, events)
	}
}

// TestGarbled: a record that is not a due event is counted and skipped.
func TestGarbled(t *testing.T) {
	w := newWorld(t, 1)
	w.write(
		due{key: "a", headers: map[string]string{"ce_id": "-"}},
		due{key: "b", headers: map[string]string{"ce_wcattempt": "first"}},
		due{key: "c", headers: map[string]string{"ce_wcattempt": "99999999999999999999"}},
		due{key: "d", headers: map[string]string{"ce_time": "noon\n\x1b[31m"}},
		due{key: "e", headers: map[string]string{"ce_subject": "other"}},
		due{key: "f", headers: map[string]string{"ce_type": "com.example.thing"}},
		due{key: "good"},
	)
	foreign := &kgo.Record{Topic: dueTopic, Value: []byte("hello")}
	if err := w.cl.ProduceSync(context.Background(), foreign).FirstErr(); err != nil {
		t.Fatal(err)
	}
	m := newCounting()
	w.start(delivered, WithMetrics(m))
	w.eventually("all is committed", func() bool { return w.committedAt(dueTopic, 0) == 8 })
	if rs := w.receipts(1); len(rs) != 1 || rs[0].Key != "good" {
		t.Errorf("%v", rs)
	}
	got := ""
	m.do(func() { got = fmt.Sprint(m.garbled) })
	if got != "map[ce_id:2 ce_time:1 ce_type:2 ce_wcattempt:2]" {
		t.Errorf("garbled: %s", got)
	}
}

// TestDrain: running handlers may finish during shutdown. The next worker gets the events of
// those that do not.
func TestDrain(t *testing.T) {
	w := newWorld(t, 1)
	w.write(due{key: "quick"}, due{key: "stuck"}, due{key: "deaf"})
	var begun atomic.Int64
	deaf := make(chan struct{})
	r := w.start(func(ctx context.Context, e *DueEvent) (Result, error) {
		begun.Add(1)
		switch e.Key {
		case "quick":
			time.Sleep(100 * time.Millisecond)
			return Delivered(), ctx.Err()
		case "stuck":
			<-ctx.Done()
			return Result{}, ctx.Err()
		}
		<-deaf // ignores its context
		return Delivered(), nil
	}, DrainTimeout(2*time.Second), CommitInterval(time.Hour)) // only the shutdown commits
	w.eventually("all have begun", func() bool { return begun.Load() == 3 })
	begin := time.Now()
	err := r.drain()
	if took := time.Since(begin); took > patience/2 {
		t.Errorf("drained for %v", took)
	}
	close(deaf)
	if !errors.Is(err, ErrUnfinished) || !strings.Contains(err.Error(), "1 handlers ran and 0 receipts") {
		t.Errorf("Run returned %v", err)
	}
	if rs := w.receipts(1); len(rs) != 1 || rs[0].Key != "quick" {
		t.Errorf("%v", rs)
	}
	if at := w.committedAt(dueTopic, 0); at != 1 {
		t.Errorf("committed %d", at)
	}
	var seen calls
	w.start(func(_ context.Context, e *DueEvent) (Result, error) {
		seen.note(e)
		return Delivered(), nil
	})
	w.receipts(3)
	if got := seen.all(); len(got) != 2 {
		t.Errorf("the next one handled %v", got)
	}
}

// TestRebalanceInMidHandler: a second worker joins while handlers of the first run. Their events
// finish before their partition moves, and are handled once.
func TestRebalanceInMidHandler(t *testing.T) {
	w := newWorld(t, 4)
	var seen calls
	note := func(_ context.Context, e *DueEvent) (Result, error) {
		seen.note(e)
		time.Sleep(300 * time.Millisecond)
		return Delivered(), nil
	}
	m := newCounting()
	w.start(note, WithMetrics(m), Memory(-1), CommitInterval(time.Hour)) // only the rebalance commits
	var dues []due
	for i := range 40 {
		dues = append(dues, due{key: fmt.Sprintf("k-%d", i), target: fmt.Sprintf("u-%d", i%8), partition: int32(i % 4)})
	}
	w.write(dues...)
	w.eventually("it works", func() bool { return len(seen.all()) > 0 })
	second := newCounting()
	w.start(note, WithMetrics(second), Memory(-1))
	w.eventually("both have partitions", func() bool {
		return second.get(func(m *counting) int { return m.load.Assigned }) == 2
	})
	w.receipts(40)
	got := seen.all()
	slices.Sort(got)
	if len(slices.Compact(got)) != 40 || len(seen.all()) != 40 {
		t.Errorf("handled %d, of these %d different", len(seen.all()), len(slices.Compact(got)))
	}
	if n := m.get(func(m *counting) int { return m.abandoned }); n != 0 {
		t.Errorf("%d abandoned", n)
	}
}

// TestRebalanceWithStuckHandler: a handler that does not end is abandoned, and the other worker
// gets its event.
func TestRebalanceWithStuckHandler(t *testing.T) {
	w := newWorld(t, 2)
	w.write(due{key: "a", partition: 0}, due{key: "b", partition: 1})
	var begun atomic.Int64
	m := newCounting()
	w.start(func(ctx context.Context, _ *DueEvent) (Result, error) {
		begun.Add(1)
		<-ctx.Done()
		return Result{}, ctx.Err()
	}, RevokeTimeout(200*time.Millisecond), WithMetrics(m), DrainTimeout(time.Second))
	w.eventually("both have begun", func() bool { return begun.Load() == 2 })
	w.start(delivered)
	w.receipts(1)
	if n := m.get(func(m *counting) int { return m.abandoned }); n != 1 {
		t.Errorf("%d abandoned", n)
	}
}

// TestZombie: a worker was away for longer than its session and is no longer a member. Its
// commits are refused, and it rejoins as a new member.
func TestZombie(t *testing.T) {
	w := newWorld(t, 1)
	gate := make(chan struct{})
	var first calls
	r := w.start(func(_ context.Context, e *DueEvent) (Result, error) {
		first.note(e)
		if e.Key == "a" {
			<-gate
		}
		return Delivered(), nil
	})
	w.write(due{key: "a"})
	w.eventually("it has begun", func() bool { return len(first.all()) == 1 })
	r.net.cut()
	second := w.start(delivered)
	w.receipts(1)
	w.eventually("the second has committed", func() bool { return w.committedAt(dueTopic, 0) == 1 })
	w.write(due{key: "b"})
	w.eventually("the second has committed", func() bool { return w.committedAt(dueTopic, 0) == 2 })
	r.net.mend()
	close(gate)
	time.Sleep(500 * time.Millisecond)
	if at := w.committedAt(dueTopic, 0); at != 2 {
		t.Errorf("the zombie has committed %d", at)
	}
	if err := second.drain(); err != nil {
		t.Error(err)
	}
	w.write(due{key: "c"})
	w.eventually("the first works on", func() bool { return w.committedAt(dueTopic, 0) == 3 })
}

// TestBrokerAway: nothing is lost while the brokers cannot be reached.
func TestBrokerAway(t *testing.T) {
	w := newWorld(t, 2)
	r := w.start(delivered)
	for i := range 50 {
		w.write(due{key: fmt.Sprintf("k-%d", i), partition: int32(i % 2)})
		switch i {
		case 10:
			r.net.cut()
		case 40:
			time.Sleep(500 * time.Millisecond)
			r.net.mend()
		}
	}
	keys := map[string]bool{}
	for w.receiptCount() < 50 {
		w.receipts(w.receiptCount() + 1)
	}
	for _, r := range w.receipts(50) {
		keys[r.Key] = true
	}
	w.eventually("all is committed", func() bool {
		return w.committedAt(dueTopic, 0) == 25 && w.committedAt(dueTopic, 1) == 25
	})
	if len(keys) != 50 {
		t.Errorf("receipts of %d triggers", len(keys))
	}
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

// TestBatch: the hook sees each event once, before its handler, which gets the hook's value.
func TestBatch(t *testing.T) {
	w := newWorld(t, 2)
	var dues []due
	for i := range 500 {
		dues = append(dues, due{key: fmt.Sprintf("k-%d", i), partition: int32(i % 2)})
	}
	w.write(dues...)
	var batches atomic.Int64
	w.start(func(ctx context.Context, e *DueEvent) (Result, error) {
		users, ok := BatchValue[map[string]bool](ctx)
		if !ok || !users[e.Key] || FromContext(ctx) != e {
			return Fail("no_value", ""), nil
		}
		return Delivered(), nil
	}, Concurrency(50), BatchMax(20), OnBatch(func(_ context.Context, events []*DueEvent) any {
		if len(events) > 20 || len(events) == 0 {
			t.Errorf("a batch of %d", len(events))
		}
		if batches.Add(1) == 1 {
			panic("a bug")
		}
		users := map[string]bool{}
		for _, e := range events {
			users[e.Key] = true
		}
		return users
	}))
	got := map[string]int{}
	for _, r := range w.receipts(500) {
		got[r.text("outcome")+" "+r.text("code")]++
	}
	if n := got["retry panic"]; n == 0 || n > 20 || got["delivered "] != 500-n {
		t.Errorf("%v", got)
	}
	if n := batches.Load(); n < 25 || n > 400 {
		t.Errorf("%d batches", n)
	}
}

// TestBulkhead: a group that hangs occupies only its own handlers. Events that exceed its bounds
// are answered without a handler. Other groups go on.
func TestBulkhead(t *testing.T) {
	w := newWorld(t, 1)
	var dues []due
	for i := range 150 {
		host := []string{"bad", "bad", "good"}[i%3]
		dues = append(dues, due{key: fmt.Sprintf("%s/%d", host, i)})
	}
	w.write(dues...)
	gate := make(chan struct{})
	w.start(func(ctx context.Context, e *DueEvent) (Result, error) {
		if e.Tenant == "bad" {
			<-gate
		}
		return Delivered(), nil
	}, Concurrency(10), PerGroup(Bulkhead{
		Group: func(e *DueEvent) string { return e.Tenant }, InFlight: 5, Waiting: 60,
		Overflow: func(*DueEvent) Result { return Postpone(time.Second, "bulkhead") },
	}))
	got := map[string]int{}
	for _, r := range w.receipts(50 + 35) {
		got[r.Key[:3]+" "+r.text("outcome")]++
	}
	if got["goo delivered"] != 50 || got["bad postponed"] != 35 {
		t.Errorf("%v", got)
	}
	close(gate)
	w.receipts(150)
}

// TestKeysAreATenants: a tenant uses another tenant's record key as a target_key, and its
// handlers hang. The other tenant's events do not wait.
func TestKeysAreATenants(t *testing.T) {
	w := newWorld(t, 1)
	w.write(due{key: "bad/1", target: "good/1"}, due{key: "good/1"})
	gate := make(chan struct{})
	w.start(func(_ context.Context, e *DueEvent) (Result, error) {
		if e.Tenant == "bad" {
			<-gate
		}
		return Delivered(), nil
	})
	if r := w.receipts(1)[0]; r.Key != "good/1" {
		t.Errorf("%v", r)
	}
	close(gate)
	w.receipts(2)
}

// TestManyBehindOneThatHangs: one key has more events than the buffer of a partition holds, and
// the first one hangs. The other events on the partition are not blocked.
func TestManyBehindOneThatHangs(t *testing.T) {
	w := newWorld(t, 1)
	const many = 400
	var dues []due
	for i := range many {
		dues = append(dues, due{key: fmt.Sprintf("bad/%d", i), target: "same"})
	}
	for i := range 20 {
		dues = append(dues, due{key: fmt.Sprintf("good/%d", i)})
	}
	w.write(dues...)
	gate := make(chan struct{})
	w.start(func(_ context.Context, e *DueEvent) (Result, error) {
		if e.Tenant == "bad" {
			<-gate
		}
		return Delivered(), nil
	}, Buffer(100, 1<<20), PerGroup(Bulkhead{
		Group:    func(e *DueEvent) string { return e.Tenant },
		Overflow: func(*DueEvent) Result { return Postpone(time.Second, "bulkhead") },
	}))
	got := map[string]int{}
	for n := 1; got["goo delivered"] < 20; {
		clear(got)
		all := w.receipts(n)
		for _, r := range all {
			got[r.Key[:3]+" "+r.text("outcome")]++
		}
		n = len(all) + 1
	}
	// Events that wait without filling the buffer may continue to wait.
	if got["bad delivered"] != 0 || got["bad postponed"] < many-100 {
		t.Errorf("%v", got)
	}
	close(gate)
	w.receipts(many + 20)
}

// TestHandlerTimeout: the handler's context ends, and the event is retried.
func TestHandlerTimeout(t *testing.T) {
	w := newWorld(t, 1)
	w.write(due{key: "a"})
	w.start(func(ctx context.Context, _ *DueEvent) (Result, error) {
		<-ctx.Done()
		return Result{}, ctx.Err()
	}, HandlerTimeout(50*time.Millisecond))
	if r := w.receipts(1)[0]; r.text("outcome") != "retry" || r.text("code") != CodeTimeout {
		t.Errorf("%v", r)
	}
}

// TestOptions: the error names every wrong option.
func TestOptions(t *testing.T) {
	err := Run(context.Background(), "Push!", nil, Concurrency(0), DrainTimeout(-1), Memory(0), Logger(nil))
	for _, want := range []string{"Push!", "Concurrency 0", "DrainTimeout", "Memory 0", "Logger", "handler is nil"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
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

// TestTransactions: due events of an aborted transaction are not handled. Markers and aborted
// records at the end of the receipts topic do not delay reading it.
func TestTransactions(t *testing.T) {
	w := newWorld(t, 1)
	tx, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.TransactionalID("engine"))
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	for i, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err := tx.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		d := due{key: fmt.Sprintf("k-%d", i)}
		receipt := &kgo.Record{Topic: receiptTopic, Key: []byte("other"), Value: []byte(`{"due_id":"other@x#0"}`)}
		if err := tx.ProduceSync(context.Background(), d.record(), receipt).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := tx.EndTransaction(context.Background(), end); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.BeginTransaction(); err != nil { // and a transaction that stays open
		t.Fatal(err)
	}
	open := &kgo.Record{Topic: receiptTopic, Key: []byte("other"), Value: []byte(`{"due_id":"other@y#0"}`)}
	if err := tx.ProduceSync(context.Background(), open).FirstErr(); err != nil {
		t.Fatal(err)
	}
	var seen calls
	w.start(func(_ context.Context, e *DueEvent) (Result, error) {
		seen.note(e)
		return Delivered(), nil
	})
	w.eventually("it is committed", func() bool { return w.committedAt(dueTopic, 0) == 1 })
	w.write(due{key: "last"})
	w.eventually("the last one is handled", func() bool { return len(seen.all()) == 2 })
	if got := seen.all(); !slices.Equal(got, []string{"k-0/1", "last/1"}) {
		t.Errorf("handled %v", got)
	}
}

type tracer struct{ ends chan string }

func (t tracer) Start(ctx context.Context, e *DueEvent) (context.Context, func(Result)) {
	return context.WithValue(ctx, tracer{}, e.TraceParent), func(r Result) {
		t.ends <- e.TraceParent + " " + string(r.Outcome)
	}
}

// TestTracer: the handler gets the context of its span. The span ends with the result.
func TestTracer(t *testing.T) {
	w := newWorld(t, 1)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	w.write(due{key: "a", headers: map[string]string{"traceparent": parent}})
	ends := make(chan string, 1)
	w.start(func(ctx context.Context, _ *DueEvent) (Result, error) {
		if got := ctx.Value(tracer{}); got != parent {
			t.Errorf("the handler's span is %v", got)
		}
		return Accepted(), nil
	}, WithTracer(tracer{ends}))
	select {
	case got := <-ends:
		if got != parent+" accepted" {
			t.Errorf("ended with %s", got)
		}
	case <-time.After(patience):
		t.Error("no span ended")
	}
}

// TestSays: the log has what an operator needs to know, but no payload.
func TestSays(t *testing.T) {
	w := newWorld(t, 1)
	w.write(due{key: "a", value: "secret-canary", headers: map[string]string{"mine": "secret-canary"}},
		due{key: "b", value: "secret-canary", headers: map[string]string{"ce_time": "noon"}})
	var log logged
	logger := Logger(slog.New(slog.NewTextHandler(&log, nil)))
	w.start(func(context.Context, *DueEvent) (Result, error) { panic("a bug") }, logger)
	w.receipts(1)
	w.eventually("the garbled record is logged", func() bool { return log.has("not a due event") })
	w.start(delivered, logger, Topic("elsewhere"), func(o *options) { o.askInterval = 50 * time.Millisecond })
	w.eventually("the missing topic is logged", func() bool { return log.has("topic=elsewhere") })
	for _, want := range []string{"the handler panicked", "dispatch.go", "ce_time"} {
		if !log.has(want) {
			t.Errorf("the log does not have %q", want)
		}
	}
	if log.has("secret-canary") {
		t.Error("the log has payloads or headers")
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
