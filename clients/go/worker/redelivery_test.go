package worker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

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

// TestSkippedCopyWaitsForTheReceipt: the brokers refuse receipts, and a partition moves away and
// comes back. Its event is not handled again, and its offset is not committed before the receipt.
func TestSkippedCopyWaitsForTheReceipt(t *testing.T) {
	w := newWorld(t, 2)
	handle := w.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: receiptTopic, Err: kerr.NotLeaderForPartition, Count: -1,
	})
	w.write(due{key: "a", partition: 0}, due{key: "b", partition: 1})
	var seen calls
	m := newCounting()
	w.start(func(_ context.Context, e *DueEvent) (Result, error) {
		seen.note(e)
		return Delivered(), nil
	}, ByKey(), WithMetrics(m), RevokeTimeout(100*time.Millisecond), DrainTimeout(time.Second))
	w.eventually("both are handled", func() bool { return len(seen.all()) == 2 })
	second := newCounting()
	other := w.start(func(ctx context.Context, _ *DueEvent) (Result, error) {
		<-ctx.Done()
		return Result{}, ctx.Err()
	}, WithMetrics(second), DrainTimeout(time.Second))
	w.eventually("one has moved", func() bool {
		return second.get(func(m *counting) int { return m.load.Assigned }) == 1
	})
	other.kill()
	_ = other.wait()
	w.eventually("it is back, and skipped", func() bool {
		return m.get(func(m *counting) int { return m.skipped[SkipFinal] }) == 1
	})
	time.Sleep(200 * time.Millisecond) // time for some commits
	if a, b := w.committedAt(dueTopic, 0), w.committedAt(dueTopic, 1); a != -1 || b != -1 {
		t.Errorf("committed %d and %d without receipts", a, b)
	}
	handle.Remove()
	w.eventually("both are committed", func() bool {
		return w.committedAt(dueTopic, 0) == 1 && w.committedAt(dueTopic, 1) == 1
	})
	if len(seen.all()) != 2 || w.receiptCount() != 2 {
		t.Errorf("handled %v, %d receipts", seen.all(), w.receiptCount())
	}
}
