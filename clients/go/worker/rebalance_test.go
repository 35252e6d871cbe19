package worker

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

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

// TestPartitionAway: the offsets of one partition cannot be asked for. The others are handled, and
// that one once it is back.
func TestPartitionAway(t *testing.T) {
	for topic, refusal := range map[string]*kerr.Error{
		receiptTopic: kerr.NotLeaderForPartition,    // in the answer, beside those of the others
		dueTopic:     kerr.TopicAuthorizationFailed, // the whole question fails, as without a leader
	} {
		t.Run(topic, func(t *testing.T) {
			w := newWorld(t, 2)
			away := w.cluster.Fault(kfake.Fault{
				Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topic, Partitions: []int32{1}, Err: refusal, Count: -1,
			})
			w.write(due{key: "a", partition: 0}, due{key: "b", partition: 1})
			var seen calls
			w.start(func(_ context.Context, e *DueEvent) (Result, error) {
				seen.note(e)
				return Delivered(), nil
			})
			w.eventually("the other one is handled", func() bool { return slices.Contains(seen.all(), "a/1") })
			away.Remove()
			w.eventually("both are handled", func() bool { return len(seen.all()) == 2 })
		})
	}
}

// TestRebalanceWithStuckHandler: a handler that does not end is abandoned, and the other worker
// gets its event. What becomes of the handler then is no answer, a panic neither.
func TestRebalanceWithStuckHandler(t *testing.T) {
	for name, end := range map[string]func(error) error{
		"error": func(err error) error { return err },
		"panic": func(err error) error { panic(err) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2)
			w.write(due{key: "a", partition: 0}, due{key: "b", partition: 1})
			var begun atomic.Int64
			m := newCounting()
			w.start(func(ctx context.Context, _ *DueEvent) (Result, error) {
				begun.Add(1)
				<-ctx.Done()
				return Result{}, end(ctx.Err())
			}, RevokeTimeout(200*time.Millisecond), WithMetrics(m), DrainTimeout(time.Second))
			w.eventually("both have begun", func() bool { return begun.Load() == 2 })
			w.start(delivered)
			for _, r := range w.receipts(1) {
				if r.text("outcome") != "delivered" {
					t.Errorf("receipt %v", r.Receipt)
				}
			}
			if n := m.get(func(m *counting) int { return m.abandoned }); n != 1 {
				t.Errorf("%d abandoned", n)
			}
		})
	}
}

// TestRebalanceWhileDraining: another worker joins while this one ends. Handlers still finish, and
// each event is handled once.
func TestRebalanceWhileDraining(t *testing.T) {
	w := newWorld(t, 2)
	w.write(due{key: "a", partition: 0}, due{key: "b", partition: 1})
	gate := make(chan struct{})
	var first, second calls
	m := newCounting()
	r := w.start(func(ctx context.Context, e *DueEvent) (Result, error) {
		first.note(e)
		select {
		case <-gate:
			return Delivered(), nil
		case <-ctx.Done():
			return Result{}, ctx.Err()
		}
	}, WithMetrics(m), DrainTimeout(patience), RevokeTimeout(100*time.Millisecond))
	w.eventually("both have begun", func() bool { return len(first.all()) == 2 })
	synced := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.SyncGroup}, Observe: true, Count: -1})
	r.stop()
	w.start(func(_ context.Context, e *DueEvent) (Result, error) {
		second.note(e)
		return Delivered(), nil
	})
	w.eventually("both know the new assignment", func() bool { return synced.Hits() >= 2 })
	time.Sleep(300 * time.Millisecond) // time for the first one to give up a partition
	close(gate)
	if err := r.wait(); err != nil {
		t.Error(err)
	}
	w.eventually("both are committed", func() bool {
		return w.committedAt(dueTopic, 0) == 1 && w.committedAt(dueTopic, 1) == 1
	})
	if n := m.get(func(m *counting) int { return m.abandoned }); n != 0 || len(second.all()) != 0 {
		t.Errorf("%d abandoned, the other one handled %v", n, second.all())
	}
}

// TestDrainWaitsForReceiptsOfMovedPartitions: a partition moves while its receipt cannot be written.
// The worker that ends waits for this receipt too.
func TestDrainWaitsForReceiptsOfMovedPartitions(t *testing.T) {
	w := newWorld(t, 2)
	var refused [2]*kfake.FaultHandle
	murmur2 := kgo.StickyKeyPartitioner(nil).ForTopic("")
	for i := 0; refused[0] == nil || refused[1] == nil; i++ {
		key := fmt.Sprintf("k-%d", i)
		p := murmur2.Partition(&kgo.Record{Key: []byte(key)}, 2)
		if refused[p] != nil {
			continue
		}
		refused[p] = w.cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Produce}, Topic: receiptTopic, Partitions: []int32{int32(p)},
			Err: kerr.NotLeaderForPartition, Count: -1,
		})
		w.write(due{key: key, partition: int32(p)})
	}
	var seen calls
	r := w.start(func(_ context.Context, e *DueEvent) (Result, error) {
		seen.note(e)
		return Delivered(), nil
	}, RevokeTimeout(100*time.Millisecond), DrainTimeout(patience))
	w.eventually("both are handled", func() bool { return len(seen.all()) == 2 })
	var moved atomic.Int64
	moved.Store(-1)
	w.start(func(ctx context.Context, e *DueEvent) (Result, error) {
		moved.Store(int64(e.Partition))
		<-ctx.Done()
		return Result{}, ctx.Err()
	}, DrainTimeout(time.Second))
	w.eventually("one has moved", func() bool { return moved.Load() >= 0 })
	refused[1-moved.Load()].Remove()
	w.receipts(1)
	r.stop()
	time.Sleep(300 * time.Millisecond) // time to end too early
	refused[moved.Load()].Remove()
	if err := r.wait(); err != nil {
		t.Error(err)
	}
	w.receipts(2)
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
