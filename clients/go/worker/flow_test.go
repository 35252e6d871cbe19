package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

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
