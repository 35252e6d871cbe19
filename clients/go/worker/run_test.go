package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func delivered(context.Context, *DueEvent) (Result, error) { return Delivered(), nil }

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
	if _, err := newOptions("push.high", nil); err == nil { // events of the lane would go out twice
		t.Error("a high lane is no channel")
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

// TestDrainEndsHook: OnBatch hangs until its context ends. DrainTimeout bounds it too.
func TestDrainEndsHook(t *testing.T) {
	w := newWorld(t, 1)
	w.write(due{key: "a"})
	begun := make(chan struct{})
	r := w.start(delivered, OnBatch(func(ctx context.Context, _ []*DueEvent) any {
		close(begun)
		<-ctx.Done()
		return nil
	}), DrainTimeout(200*time.Millisecond), HandlerTimeout(time.Hour))
	<-begun
	if err := r.drain(); !errors.Is(err, ErrUnfinished) {
		t.Error(err)
	}
}

// TestDrainLeavesHookBehind: OnBatch ignores its context. Run ends nevertheless, and the handlers of that batch are
// not called once the hook returns.
func TestDrainLeavesHookBehind(t *testing.T) {
	w := newWorld(t, 1)
	w.write(due{key: "a"})
	begun, release := make(chan struct{}), make(chan struct{})
	var seen calls
	m := newCounting()
	r := w.start(func(_ context.Context, e *DueEvent) (Result, error) {
		seen.note(e)
		return Delivered(), nil
	}, OnBatch(func(context.Context, []*DueEvent) any {
		close(begun)
		<-release
		return nil
	}), DrainTimeout(200*time.Millisecond), WithMetrics(m))
	<-begun
	r.stop()
	select {
	case err := <-r.done:
		r.done <- err
		if !errors.Is(err, ErrUnfinished) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Run waits for a hook that ignores its context")
	}
	close(release)
	w.eventually("its event is abandoned", func() bool {
		return m.get(func(m *counting) int { return m.abandoned }) == 1
	})
	if len(seen.all()) != 0 {
		t.Errorf("after Run had ended, the handler got %v", seen.all())
	}
}

// TestPartitionMovesDuringHook: a partition moves while OnBatch runs, and for longer than RevokeTimeout. Its event is
// another worker's by then: the handler is not called for it, and a hook that panics does not answer it.
func TestPartitionMovesDuringHook(t *testing.T) {
	for name, end := range map[string]func() any{
		"it returns": func() any { return nil },
		"it panics":  func() any { panic("a bug") },
	} {
		t.Run(name, func(t *testing.T) {
			var w *worker
			part, m := newPartition(dueTopic, 0, laneNormal), newCounting()
			o, err := newOptions("print", []Option{OnBatch(func(context.Context, []*DueEvent) any {
				w.abandon([]*partition{part})
				return end()
			}), WithMetrics(m)})
			if err != nil {
				t.Fatal(err)
			}
			var seen calls
			w = &worker{
				options: o, queue: newQueue(), wake: make(chan struct{}, 1), unacked: map[string]*unacked{},
				receipts: &receiptWriter{options: o, closed: true},
				handle: func(_ context.Context, e *DueEvent) (Result, error) {
					seen.note(e)
					return Delivered(), nil
				},
			}
			it := w.decode(due{key: "a"}.record())
			it.part = part
			w.queue.add(it)
			w.dispatch(t.Context(), t.Context())
			<-w.wake // the event has ended
			n := m.get(func(m *counting) int { return m.abandoned })
			if n != 1 || len(seen.all()) != 0 || w.pending != 0 {
				t.Errorf("%d abandoned, handled %v, %d receipts", n, seen.all(), w.pending)
			}
		})
	}
}

// TestSpanOfAbandoned: a handler ends with an error because its event is another worker's by now. Its span
// says so: no receipt has the error. A handler that is done nevertheless has its result, also in its span.
func TestSpanOfAbandoned(t *testing.T) {
	for name, c := range map[string]struct {
		handle Handler
		want   Outcome
	}{
		"error": {func(ctx context.Context, _ *DueEvent) (Result, error) { return Result{}, ctx.Err() }, "abandoned"},
		"panic": {func(context.Context, *DueEvent) (Result, error) { panic("a bug") }, "abandoned"},
		"done":  {delivered, OutcomeDelivered},
	} {
		part, ends := newPartition(dueTopic, 0, laneNormal), make(chan string, 1)
		o, err := newOptions("print", []Option{WithTracer(tracer{ends})})
		if err != nil {
			t.Fatal(err)
		}
		var w *worker
		w = &worker{
			options: o, queue: newQueue(), wake: make(chan struct{}, 1), unacked: map[string]*unacked{},
			receipts: &receiptWriter{options: o, closed: true},
			handle: func(ctx context.Context, e *DueEvent) (Result, error) {
				w.abandon([]*partition{part})
				return c.handle(ctx, e)
			},
		}
		it := w.decode(due{key: "a"}.record())
		it.part = part
		w.queue.add(it)
		w.dispatch(t.Context(), t.Context())
		<-w.wake // the event has ended
		if got := <-ends; got != " "+string(c.want) {
			t.Errorf("%s: the span ended with%s, want %s", name, got, c.want)
		}
	}
}

// parent is a context that counts its children.
type parent struct{ children atomic.Int64 }

func (p *parent) Deadline() (at time.Time, ok bool) { return at, false }
func (p *parent) Done() <-chan struct{}             { return make(chan struct{}) }
func (p *parent) Err() error                        { return nil }
func (p *parent) Value(any) any                     { return nil }

func (p *parent) AfterFunc(func()) (stop func() bool) {
	p.children.Add(1)
	return func() bool {
		p.children.Add(-1)
		return true
	}
}

// TestHookPanicLeavesNoContext: the contexts of a batch whose hook panics end.
func TestHookPanicLeavesNoContext(t *testing.T) {
	o, err := newOptions("print", []Option{OnBatch(func(context.Context, []*DueEvent) any { panic("a bug") })})
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{
		options: o, queue: newQueue(), wake: make(chan struct{}, 1), unacked: map[string]*unacked{},
		receipts: &receiptWriter{options: o, closed: true},
	}
	it := w.decode(due{key: "a"}.record())
	it.part = newPartition(dueTopic, 0, laneNormal)
	w.queue.add(it)
	base := &parent{}
	if !w.dispatch(t.Context(), base) || base.children.Load() != 1 {
		t.Fatalf("%d contexts", base.children.Load())
	}
	<-w.wake // the event has ended
	if n := base.children.Load(); n != 0 {
		t.Errorf("%d contexts are left", n)
	}
}
