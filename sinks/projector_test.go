package sinks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/sinktest"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Committed events are projected, aborted ones are not, and records that are not events are
// skipped.
func TestProjector(t *testing.T) {
	l, s := sinktest.NewLog(t), newSink(t)
	s.groupOffsets = true
	l.Write(kgo.TryCommit, l.Lives("a", 50)...)
	l.Write(kgo.TryAbort, l.Lives("aborted", 20)...)
	l.WriteRaw(kgo.TryCommit,
		&kgo.Record{Key: []byte("x"), Value: []byte("{")},
		&kgo.Record{Key: []byte("y"), Value: nil},
		&kgo.Record{
			Key:   []byte("z"),
			Value: []byte(`{"type":"trigger.registered","tenant":"default","event_us":9000000000000000000}`),
		})
	l.Write(kgo.TryCommit, l.Lives("b", 50)...)

	var skipped atomic.Int64
	o := sinks.Options{Kafka: l.Kafka(), MaxRecords: 40, Hooks: sinks.Hooks{Skipped: func(int32, int64,
		error,
	) {
		skipped.Add(1)
	}}}
	sinktest.Project(t, s, o, func() bool {
		at, end := l.Committed("waterclock-history")
		return at == end
	})
	if n := sinktest.Rows(t, s); n != l.Events {
		t.Errorf("%d rows, want %d", n, l.Events)
	}
	if n := skipped.Load(); n != 3 {
		t.Errorf("%d records skipped, want 3", n)
	}
	if _, ok, _ := s.Trigger(context.Background(), "default", "aborted-1"); ok {
		t.Error("an aborted transaction's trigger has a state")
	}
}

// The sink is unavailable for an hour. The batch is retried, nothing is committed, no more is
// fetched than the bounds allow, and nothing is lost.
func TestProjectorSinkAway(t *testing.T) {
	l, s := sinktest.NewLog(t), newSink(t)
	s.groupOffsets = true
	l.Write(kgo.TryCommit, l.Lives("a", 100)...)
	const refusals = 60
	var tries, retries int
	s.apply = func(ctx context.Context, batch []sinks.EventRecord,
		next func(context.Context, []sinks.EventRecord) error,
	) error {
		if tries++; tries <= refusals {
			if at, _ := l.Committed("waterclock-history"); at != 0 {
				t.Errorf("offsets were committed while the sink was away: %d", at)
			}
			return fmt.Errorf("%w: nobody at home", sinks.ErrUnavailable)
		}
		return next(ctx, batch)
	}
	o := sinks.Options{Kafka: l.Kafka(), MaxRecords: 64, Hooks: sinks.Hooks{Retry: func(int, error) { retries++ }}}
	sinktest.Project(t, s, o, func() bool {
		at, end := l.Committed("waterclock-history")
		return at == end
	})
	if retries != refusals {
		t.Errorf("%d retries, want %d", retries, refusals)
	}
	if n := sinktest.Rows(t, s); n != l.Events {
		t.Errorf("%d rows, want %d", n, l.Events)
	}
}

// A refused row stops its partition and no other, and is reported. Once the sink accepts it, the
// partition continues in order, with all later records.
func TestProjectorRefused(t *testing.T) {
	for _, groupOffsets := range []bool{true, false} {
		l, s := sinktest.NewLog(t), newSink(t)
		s.groupOffsets = groupOffsets
		due := time.Now().Add(time.Hour)
		l.Write(kgo.TryCommit, l.Lives("a", 40)...)
		bad := l.Event("bad", trigger.Registered, trigger.Pending, due)
		l.Write(kgo.TryCommit, bad)
		l.Write(kgo.TryCommit, l.Lives("b", 40)...)
		var mended atomic.Bool
		s.apply = func(ctx context.Context, batch []sinks.EventRecord,
			next func(context.Context, []sinks.EventRecord) error,
		) error {
			for i := range batch {
				if batch[i].Trigger == "bad" && !mended.Load() {
					return fmt.Errorf("%w: the column is gone", sinks.ErrRefused)
				}
			}
			return next(ctx, batch)
		}
		var mu sync.Mutex
		stopped, tries := map[int32]error{}, 0
		o := sinks.Options{
			Kafka: l.Kafka(), MaxRecords: 30,
			Hooks: sinks.Hooks{Stopped: func(partition int32, err error) {
				mu.Lock()
				defer mu.Unlock()
				stopped[partition] = err
				tries++
			}},
		}
		held := topics.Partition([]byte("bad"), sinktest.LogPartitions)
		stage, wrote := 0, 0
		sinktest.Project(t, s, o, func() bool {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case stage == 0 && tries > 5 && onOthers(t, s, held) == l.EventsOn(held, false):
				l.Write(kgo.TryCommit, l.Lives("c", 40)...)
				stage, wrote = 1, tries
			case stage == 1 && tries > wrote+5 && onOthers(t, s, held) == l.EventsOn(held, false):
				if err := stopped[held]; len(stopped) != 1 || !errors.Is(err, sinks.ErrRefused) {
					t.Errorf("stopped: %v, want partition %d", stopped, held)
				}
				if _, ok, _ := s.Trigger(context.Background(), "default", "bad"); ok {
					t.Error("what was refused is there")
				}
				mended.Store(true)
				stage = 2
			}
			return stage == 2 && sinktest.Rows(t, s) == l.Events
		})
		if stopped[held] != nil {
			t.Errorf("told to stand still when it goes on: %v", stopped)
		}
		s.apply = nil
		requireFold(t, l, s)
	}
}

// onOthers counts the events of all partitions but one.
func onOthers(t *testing.T, s *sink, partition int32) (n int) {
	t.Helper()
	err := s.Scan(context.Background(), sinks.TableEvents, func(r sinks.Row) error {
		if r.Partition != partition {
			n++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Records that the log dropped before they were projected are reported, because nothing else
// shows the gap in the history.
func TestProjectorReportsAHole(t *testing.T) {
	for _, groupOffsets := range []bool{true, false} {
		l, s := sinktest.NewLog(t), newSink(t)
		s.groupOffsets = groupOffsets
		var lost atomic.Int64
		o := sinks.Options{Kafka: l.Kafka(), Hooks: sinks.Hooks{Lost: func(_ int32,
			records int64,
		) {
			lost.Add(records)
		}}}
		l.Write(kgo.TryCommit, l.Lives("before", 30)...)
		sinktest.Project(t, s, o, func() bool {
			at, end := l.Committed("waterclock-history")
			return at == end && sinktest.Rows(t, s) == l.Events
		})
		end := func() int64 { _, end := l.Committed("waterclock-history"); return end }
		from := end()
		if n := lost.Load(); n != 0 {
			t.Errorf("%d records are told to be lost when none is", n)
		}
		l.Write(kgo.TryCommit, l.Lives("hole", 30)...)
		hole := end() - from
		l.Trim()
		l.Write(kgo.TryCommit, l.Lives("after", 30)...)
		sinktest.Project(t, s, o, func() bool { return sinktest.Rows(t, s) == l.Events-90 })
		if n := lost.Load(); n != hole {
			t.Errorf("group offsets %v: %d records are told to be lost, want %d", groupOffsets, n, hole)
		}
	}
}

// A stopped partition that moves to another projector continues there.
func TestProjectorRefusedMoves(t *testing.T) {
	l, s := sinktest.NewLog(t), newSink(t)
	s.groupOffsets = true
	l.Write(kgo.TryCommit, l.Lives("a", 60)...)
	refuse := func(context.Context, []sinks.EventRecord, func(context.Context, []sinks.EventRecord) error) error {
		return sinks.ErrRefused
	}
	broken := &sink{Store: s.Store, groupOffsets: true, apply: refuse}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	stopped := map[int32]bool{}
	o := sinks.Options{Kafka: l.Kafka(), MaxRecords: 20, RetryMin: time.Millisecond, RetryMax: 10 * time.Millisecond}
	o.Hooks.Stopped = func(partition int32, err error) {
		mu.Lock()
		defer mu.Unlock()
		if stopped[partition] = err != nil; err == nil {
			delete(stopped, partition)
		}
	}
	p, err := sinks.NewProjector(broken, o)
	if err != nil {
		t.Fatal(err)
	}
	leave, left := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(leave) }()
	all := func(n int) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return len(stopped) == n }
	}
	for !all(sinktest.LogPartitions)() && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
	moved := false
	sinktest.Project(t, s, sinks.Options{Kafka: l.Kafka()}, func() bool {
		if mu.Lock(); !moved && len(stopped) < sinktest.LogPartitions {
			moved = true // a revoked partition is reported as no longer stopped here
			left()
		}
		mu.Unlock()
		at, end := l.Committed("waterclock-history")
		return at == end
	})
	if err := <-ended; err != nil || !moved {
		t.Errorf("the first ended with %v; partitions moved: %v", err, moved)
	}
	requireFold(t, l, s)
}

// A sink that cannot take the whole batch in time gets it in parts.
func TestProjectorSlowSink(t *testing.T) {
	l, s := sinktest.NewLog(t), newSink(t)
	l.Write(kgo.TryCommit, l.Lives("a", 100)...)
	largest := 0
	s.apply = func(ctx context.Context, batch []sinks.EventRecord,
		next func(context.Context, []sinks.EventRecord) error,
	) error {
		if len(batch) > 30 {
			return context.DeadlineExceeded
		}
		largest = max(largest, len(batch))
		return next(ctx, batch)
	}
	sinktest.Project(t, s, sinks.Options{Kafka: l.Kafka()}, func() bool { return sinktest.Rows(t, s) == l.Events })
	if largest < 16 {
		t.Errorf("batches were cut down to %d", largest)
	}
}

// A projector dies between the rows of a batch and its commit. The next one applies the batch
// once more, and each row exists once.
func TestProjectorRestart(t *testing.T) {
	for _, c := range []struct {
		name         string
		groupOffsets bool
	}{{"offsets in the group", true}, {"offsets in the sink", false}} {
		t.Run(c.name, func(t *testing.T) {
			l, s := sinktest.NewLog(t), newSink(t)
			s.groupOffsets = c.groupOffsets
			l.Write(kgo.TryCommit, l.Lives("a", 200)...)
			for range 5 {
				dieInMidBatch(t, l, s)
			}
			s.apply = nil
			sinktest.Project(t, s, sinks.Options{Kafka: l.Kafka(), MaxRecords: 50},
				func() bool { return sinktest.Rows(t, s) == l.Events })
			requireFold(t, l, s)
		})
	}
}

// dieInMidBatch runs a projector that applies a batch and half of the next, and then ends.
func dieInMidBatch(t *testing.T, l *sinktest.Log, s *sink) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	batches := 0
	s.apply = func(_ context.Context, batch []sinks.EventRecord,
		next func(context.Context, []sinks.EventRecord) error,
	) error {
		if batches++; batches == 1 {
			return next(context.Background(), batch)
		}
		defer cancel()
		return errors.Join(next(context.Background(), batch[:(len(batch)+1)/2]), context.Canceled)
	}
	p, err := sinks.NewProjector(s, sinks.Options{Kafka: l.Kafka(), MaxRecords: 50})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if batches < 2 {
		t.Fatal("it ended before it was to die")
	}
}

// requireFold compares a sink with a fresh fold of the whole log.
func requireFold(t *testing.T, l *sinktest.Log, s sinks.Scanner) {
	t.Helper()
	fresh := newSink(t)
	r, err := sinks.Rebuild(context.Background(), sinks.RebuildOptions{
		Kafka: l.Kafka(), Into: fresh, Old: s,
		New: fresh,
	})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Same() || r.Tables[0].Old == 0 {
		t.Fatalf("the rows are not the fold of the log:\n%s", r)
	}
}

// An embedded store that is lost is rebuilt from the log's beginning, whatever the group has
// committed.
func TestProjectorFillsAnEmptiedSink(t *testing.T) {
	l, s := sinktest.NewLog(t), newSink(t)
	l.Write(kgo.TryCommit, l.Lives("a", 30)...)
	sinktest.Project(t, s, sinks.Options{Kafka: l.Kafka()}, func() bool { return sinktest.Rows(t, s) == l.Events })
	empty := newSink(t)
	sinktest.Project(t, empty, sinks.Options{Kafka: l.Kafka()},
		func() bool { return sinktest.Rows(t, empty) == l.Events })
}

// If a sink keeps its own offsets, those of the group are not used. They are committed all the
// same, for operators.
func TestProjectorReportsToTheGroup(t *testing.T) {
	l, s := sinktest.NewLog(t), newSink(t)
	l.Write(kgo.TryCommit, l.Lives("a", 30)...)
	sinktest.Project(t, s, sinks.Options{Kafka: l.Kafka()}, func() bool {
		at, end := l.Committed("waterclock-history")
		return at == end
	})
	if n := sinktest.Rows(t, s); n != l.Events {
		t.Errorf("%d rows, want %d", n, l.Events)
	}
}

// Two projectors share the partitions. When one leaves, the other gets all.
func TestProjectorsShare(t *testing.T) {
	l, s := sinktest.NewLog(t), newSink(t)
	s.groupOffsets = true
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	leave, left := context.WithCancel(ctx)
	var first sync.WaitGroup
	p, err := sinks.NewProjector(s, sinks.Options{Kafka: l.Kafka(), MaxRecords: 10})
	if err != nil {
		t.Fatal(err)
	}
	first.Go(func() { _ = p.Run(leave) })
	l.Write(kgo.TryCommit, l.Lives("a", 100)...)
	var applied atomic.Int64
	alone := false
	o := sinks.Options{Kafka: l.Kafka(), MaxRecords: 10, Hooks: sinks.Hooks{Applied: func(int,
		time.Duration,
	) {
		applied.Add(1)
	}}}
	sinktest.Project(t, s, o, func() bool {
		switch {
		case applied.Load() < 3: // give both work until the second has its share
			l.Write(kgo.TryCommit, l.Lives(fmt.Sprintf("c%d", l.Events), 3)...)
			return false
		case !alone:
			alone = true
			left()
			first.Wait()
			l.Write(kgo.TryCommit, l.Lives("b", 100)...)
		}
		at, end := l.Committed("waterclock-history")
		return at == end
	})
	left()
	requireFold(t, l, s)
}

// The lag is also measured while the sink is unavailable, and it reaches 0 despite the
// transaction markers.
func TestProjectorLag(t *testing.T) {
	l, s := sinktest.NewLog(t), newSink(t)
	l.Write(kgo.TryCommit, l.Lives("a", 40)...)
	var mu sync.Mutex
	lag, most := map[int32]int64{}, int64(0)
	away := atomic.Bool{}
	away.Store(true)
	s.apply = func(ctx context.Context, batch []sinks.EventRecord,
		next func(context.Context, []sinks.EventRecord) error,
	) error {
		if away.Load() {
			return sinks.ErrUnavailable
		}
		return next(ctx, batch)
	}
	done := make(chan struct{})
	o := sinks.Options{
		Kafka: l.Kafka(), LagEvery: 20 * time.Millisecond, RetryMin: time.Millisecond,
		RetryMax: 5 * time.Millisecond,
	}
	o.Hooks.Lag = func(partition int32, n int64) {
		mu.Lock()
		defer mu.Unlock()
		lag[partition] = n
		sum := int64(0)
		for _, n := range lag {
			sum += n
		}
		if most = max(most, sum); most >= 120 {
			away.Store(false)
		}
		if most >= 120 && sum == 0 && len(lag) == sinktest.LogPartitions {
			select {
			case <-done:
			default:
				close(done)
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := sinks.NewProjector(s, o)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	select {
	case <-done:
	case err := <-ended:
		t.Fatalf("ended with lag %v, at most %d: %v", lag, most, err)
	}
	cancel()
	<-ended
}

func TestOptionsValidate(t *testing.T) {
	if err := (sinks.Options{}).Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	err := sinks.Options{
		MaxRecords: -1, MaxBytes: -1, MaxBuffered: -1, RetryMin: time.Second,
		RetryMax: time.Millisecond, Attempt: -1,
	}.Validate()
	for _, field := range []string{"MaxRecords", "MaxBytes", "MaxBuffered", "RetryMin", "Attempt"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("no word on %s in: %v", field, err)
		}
	}
}
