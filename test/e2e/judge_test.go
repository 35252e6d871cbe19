package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
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
	sent    int
}

func newLoad(t *testing.T, brokers []string, prefix string) *load {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(prefix+"commands"),
		kgo.RecordDeliveryTimeout(20*time.Second), kgo.ProducerLinger(0), kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }))
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

func (l *load) one(key string, due time.Time, cancel bool) {
	ctx := context.Background()
	register := &kgo.Record{Key: []byte(key), Value: []byte(`{"n":1}`), Headers: []kgo.RecordHeader{{Key: "wc-fire-at", Value: fmt.Append(nil, due.UnixMilli())}}}
	if err := l.cl.ProduceSync(ctx, register).FirstErr(); err != nil {
		l.mu.Lock()
		l.unknown[key] = true
		l.mu.Unlock()
		return
	}
	w := wish{due: due}
	if cancel {
		record := &kgo.Record{Key: []byte(key), Value: []byte("cancel"), Headers: []kgo.RecordHeader{{Key: "wc-op", Value: []byte("cancel")}}}
		if err := l.cl.ProduceSync(ctx, record).FirstErr(); err != nil {
			l.mu.Lock()
			l.unknown[key] = true
			l.mu.Unlock()
			return
		}
		w.cancelled = time.Now()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wishes[key] = w
}

// dump reads all committed records of a topic up to its end now.
func dump(t *testing.T, brokers []string, topic string) []*kgo.Record {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(200*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	var out []*kgo.Record
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("dump of %s: %v left", topic, left)
		}
		for it := fs.RecordIter(); !it.Done(); {
			r := it.Next()
			if !r.Attrs.IsControl() {
				out = append(out, r)
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		}
	}
	return out
}

// judge compares what was wished with what stands on the due topic.
func (l *load) judge(brokers []string, prefix string) {
	t := l.t
	t.Helper()
	fired := map[string]int{}
	for _, r := range dump(t, brokers, prefix+"due.default") {
		d, err := topics.DecodeDue(&topics.Record{Key: r.Key, Value: r.Value, Headers: headers(r)})
		if err != nil {
			t.Errorf("due record %s/%d/%d: %v", r.Topic, r.Partition, r.Offset, err)
			continue
		}
		key := string(d.Fire.Key)
		fired[key]++
		w, ok := l.wishes[key]
		switch {
		case fired[key] > 1:
			t.Errorf("%s fired %d times", key, fired[key])
		case ok && r.Timestamp.Before(w.due):
			t.Errorf("%s fired early: due %v, appended %v", key, w.due, r.Timestamp)
		case ok && !w.cancelled.IsZero() && w.cancelled.Before(w.due):
			t.Errorf("%s fired after a cancel acknowledged %v before it was due", key, w.due.Sub(w.cancelled))
		case !ok && !l.unknown[key]:
			t.Errorf("%s fired and was never registered", key)
		}
	}
	lost := 0
	for _, key := range slices.Sorted(maps.Keys(l.wishes)) {
		if w := l.wishes[key]; w.cancelled.IsZero() && fired[key] == 0 {
			if lost++; lost <= 5 {
				t.Errorf("%s was acknowledged, due %v, and never fired", key, w.due)
			}
		}
	}
	t.Logf("%d wishes, %d with an unknown answer, %d fired, %d lost", len(l.wishes), len(l.unknown), len(fired), lost)
	if len(fired) == 0 {
		t.Error("nothing fired: this judged nothing")
	}
}

func headers(r *kgo.Record) []trigger.Header {
	out := make([]trigger.Header, len(r.Headers))
	for i, h := range r.Headers {
		out[i] = trigger.Header{Key: h.Key, Value: h.Value}
	}
	return out
}
