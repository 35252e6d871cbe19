package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/check"
	"github.com/waterclock/waterclock/topics"
)

// wish is one acknowledged command sequence about one key: what must become
// of it.
type wish struct {
	due       time.Time
	cancelled time.Time // acknowledgement of the cancel; zero: none
}

// load registers triggers and cancels some of them until it is stopped. Only
// what the broker acknowledged is judged; what failed may or may not be there.
type load struct {
	t  *testing.T
	cl *kgo.Client

	mu      sync.Mutex
	wishes  map[string]wish
	unknown map[string]bool
	acks    []check.Ack
}

func newLoad(t *testing.T, brokers []string, prefix string) *load {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(prefix+"commands"),
		kgo.RecordDeliveryTimeout(20*time.Second), kgo.ProducerLinger(0),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return &load{t: t, cl: cl, wishes: map[string]wish{}, unknown: map[string]bool{}}
}

// run sends about perSecond registers a second, each due 1 to 3 s later; every
// fifth is cancelled at once.
func (l *load) run(ctx context.Context, name string, perSecond int) {
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := 0; ctx.Err() == nil; i++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		key := fmt.Sprintf("%s-%d", name, i)
		due := time.Now().Add(time.Second + time.Duration(i%20)*100*time.Millisecond).Truncate(time.Millisecond)
		wg.Go(func() { l.one(key, due, i%5 == 0) })
	}
}

// start runs the load until stop is called, which waits for its last answer.
func (l *load) start(perSecond int) (stop func()) { return l.startAs("k", perSecond) }

// startAs is start with keys of another name.
func (l *load) startAs(name string, perSecond int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); l.run(ctx, name, perSecond) }()
	time.Sleep(2 * time.Second)
	return func() { cancel(); <-done }
}

// flood registers n triggers without waiting for each, and waits for the last
// answer.
func (l *load) flood(name string, n int, due func(i int) time.Time) {
	l.t.Helper()
	for i := range n {
		key, at := fmt.Sprintf("%s-%d", name, i), due(i).Truncate(time.Millisecond)
		l.cl.Produce(context.Background(), register(key, at), func(r *kgo.Record, err error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if err != nil {
				l.unknown[key] = true
				return
			}
			l.wishes[key] = wish{due: at}
			l.acks = append(l.acks, ackOf(r))
		})
	}
	if err := l.cl.Flush(context.Background()); err != nil {
		l.t.Fatal(err)
	}
}

func register(key string, due time.Time) *kgo.Record {
	return &kgo.Record{
		Key: []byte(key), Value: []byte(`{"n":1}`),
		Headers: []kgo.RecordHeader{{Key: "wc-fire-at", Value: fmt.Append(nil, due.UnixMilli())}},
	}
}

func (l *load) one(key string, due time.Time, cancel bool) {
	ctx := context.Background()
	if !l.produce(ctx, register(key, due)) {
		return
	}
	w := wish{due: due}
	if cancel {
		record := &kgo.Record{
			Key: []byte(key), Value: []byte("cancel"),
			Headers: []kgo.RecordHeader{{Key: "wc-op", Value: []byte("cancel")}},
		}
		if !l.produce(ctx, record) {
			return
		}
		w.cancelled = time.Now()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wishes[key] = w
}

// produce says whether the broker acknowledged the record.
func (l *load) produce(ctx context.Context, r *kgo.Record) bool {
	r, err := l.cl.ProduceSync(ctx, r).First()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.unknown[string(r.Key)] = true
		return false
	}
	l.acks = append(l.acks, ackOf(r))
	return true
}

func ackOf(r *kgo.Record) check.Ack {
	return check.Ack{Partition: r.Partition, Offset: r.Offset, Key: string(r.Key), Value: r.Value}
}

// judge compares what was wished with what stands on the due topic, and runs
// the history checker. All must be at rest.
func (l *load) judge(brokers []string, prefix string) {
	l.t.Helper()
	for _, v := range l.verify(brokers, prefix) {
		l.t.Error(v)
	}
	for _, v := range l.violations(dump(l.t, brokers, prefix+"due.default")) {
		l.t.Error(v)
	}
}

// judge runs the history checker over a world at rest, whoever wrote its commands.
func (w *world) judge(t *testing.T) {
	t.Helper()
	for _, v := range newLoad(t, w.brokers, w.prefix).verify(w.brokers, w.prefix) {
		t.Error(v)
	}
}

// violations is judge for tests that expect some.
func (l *load) violations(due []*kgo.Record) (found []string) {
	l.t.Helper()
	wrong := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	fired := map[string][]*kgo.Record{}
	for _, r := range due {
		d, err := topics.DecodeDue(&topics.Record{Key: r.Key, Value: r.Value, Headers: headers(r)})
		if err != nil {
			wrong("due record %s/%d/%d: %v", r.Topic, r.Partition, r.Offset, err)
			continue
		}
		key := string(d.Fire.Key)
		fired[key] = append(fired[key], r)
		w, ok := l.wishes[key]
		switch {
		case len(fired[key]) > 1:
			wrong("%s fired %d times: %s", key, len(fired[key]), where(fired[key]))
		case ok && r.Timestamp.Before(w.due):
			wrong("%s fired early: due %v, appended %v", key, w.due, r.Timestamp)
		case ok && !w.cancelled.IsZero() && w.cancelled.Before(w.due):
			wrong("%s fired after a cancel acknowledged %v before it was due", key, w.due.Sub(w.cancelled))
		case !ok && !l.unknown[key]:
			wrong("%s fired and was never registered", key)
		}
	}
	lost := 0
	for _, key := range slices.Sorted(maps.Keys(l.wishes)) {
		if w := l.wishes[key]; w.cancelled.IsZero() && len(fired[key]) == 0 {
			if lost++; lost <= 5 {
				wrong("%s was acknowledged, due %v, and never fired", key, w.due)
			}
		}
	}
	l.t.Logf("%d wishes, %d with an unknown answer, %d fired, %d lost", len(l.wishes), len(l.unknown), len(fired), lost)
	if len(fired) == 0 {
		wrong("nothing fired: this judged nothing")
	}
	return found
}

// where tells due records of one trigger apart: where they lie, who wrote them,
// and in which turn.
func where(rs []*kgo.Record) string {
	var b strings.Builder
	for _, r := range rs {
		fmt.Fprintf(&b, "\n  %s/%d offset %d, appended %s, producer %d epoch %d", r.Topic, r.Partition, r.Offset,
			r.Timestamp.UTC().Format("15:04:05.000"), r.ProducerID, r.ProducerEpoch)
		for _, h := range r.Headers {
			if h.Key == "ce_wcbasis" || h.Key == "ce_time" {
				fmt.Fprintf(&b, ", %s %s", h.Key, h.Value)
			}
		}
	}
	return b.String()
}
