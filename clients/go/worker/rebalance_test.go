package worker

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"
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
