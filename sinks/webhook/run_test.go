package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/topics"
)

// patience bounds how long a test waits for an expected result.
const patience = 60 * time.Second

// cluster has the topics of channel webhook, and no engine.
type cluster struct {
	t     testing.TB
	opts  []kgo.Opt
	cl    *kgo.Client
	names topics.Names
	seen  map[string]map[string]any // receipts by due_id
}

func newCluster(t testing.TB, partitions int32) *cluster {
	t.Helper()
	return newClusterOn(t, partitions, nil, nil)
}

// newClusterOn makes a cluster with options of the brokers and of their clients.
func newClusterOn(t testing.TB, partitions int32, brokers []kfake.Opt, clients []kgo.Opt) *cluster {
	t.Helper()
	k, err := kfake.NewCluster(append(brokers, kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Second))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	c := &cluster{
		t: t, opts: append(clients, kgo.SeedBrokers(k.ListenAddrs()...)), seen: map[string]map[string]any{},
	}
	stamped := map[string]string{"message.timestamp.type": "LogAppendTime"}
	for name, n := range map[string]int32{
		c.names.Due(Channel): partitions, c.names.Receipts(): partitions, c.names.Endpoints(): 1,
	} {
		if err := k.CreateTopic(name, n, stamped); err != nil {
			t.Fatal(err)
		}
	}
	if c.cl, err = kgo.NewClient(append(c.opts, kgo.ConsumeTopics(c.names.Receipts()),
		kgo.MaxBufferedRecords(200_000))...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.cl.Close)
	return c
}

// record makes a due event like the engine's.
func (c *cluster) record(key, callback string) *kgo.Record {
	r := &kgo.Record{Topic: c.names.Due(Channel), Key: []byte(key), Value: []byte(`{"n":1}`)}
	for _, h := range [][2]string{
		{"ce_specversion", "1.0"},
		{"ce_id", key + "@2026-11-20T14:00:00.000Z#0"},
		{"ce_source", "/waterclock/test"},
		{"ce_type", worker.DueType},
		{"ce_subject", key},
		{"ce_time", "2026-11-20T14:00:00.000Z"},
		{"ce_wcfired", "2026-11-20T14:00:00.003Z"},
		{"ce_wcrevision", "1"},
		{"ce_wcattempt", "1"},
		{"ce_wcstep", "0"},
		{callbackHeader, callback},
	} {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
	}
	return r
}

func (c *cluster) write(records ...*kgo.Record) {
	c.t.Helper()
	if err := c.cl.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
}

// start runs a worker on the cluster. The returned function ends it.
func (c *cluster) start(w *Worker) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-done:
				if err != nil {
					c.t.Error(err)
				}
			case <-time.After(patience):
				c.t.Error("Run does not end")
			}
		})
	}
	c.t.Cleanup(stop)
	return stop
}

// receipts waits until n due events have a receipt, and returns the last one of each.
func (c *cluster) receipts(n int) map[string]map[string]any {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for len(c.seen) < n {
		fetches := c.cl.PollFetches(ctx)
		if ctx.Err() != nil {
			c.t.Fatalf("%d receipts, want %d", len(c.seen), n)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			var one map[string]any
			if err := json.Unmarshal(r.Value, &one); err != nil {
				c.t.Errorf("receipt %q: %v", r.Value, err)
			}
			c.seen[one["due_id"].(string)] = one
		})
	}
	return c.seen
}

// TestRun goes from the due topic to the receiver and to the receipt, and checks the published
// state of the endpoint.
func TestRun(t *testing.T) {
	c := newCluster(t, 3)
	var mu sync.Mutex
	got := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got[r.Header.Get("Webhook-Id")]++
		fmt.Fprint(w, "thanks")
	}))
	defer s.Close()
	publisher, err := NewTopicPublisher(c.opts, c.names, "host/1")
	if err != nil {
		t.Fatal(err)
	}
	defer publisher.Close()
	stop := c.start(newTestWorker(t, func(o *Options) { o.Kafka, o.Publish = c.opts, publisher }))
	const n = 300
	for i := range n {
		c.write(c.record(fmt.Sprintf("acme/k%d", i), to(s.URL+"/hook?secret=1")))
	}
	for id, r := range c.receipts(n) {
		if r["outcome"] != "delivered" || r["channel"] != "webhook" || r["attempt"] != 1.0 {
			t.Fatalf("%s: %v", id, r)
		}
	}
	for id, times := range got {
		if times != 1 {
			t.Errorf("%s came %d times", id, times)
		}
	}
	if len(got) != n {
		t.Errorf("%d of %d came", len(got), n)
	}
	last := c.endpoints(func(all map[string]*topics.EndpointState) bool {
		s := all["host_1/acme/"+s.URL]
		return s != nil && s.OK == n && s.InFlight == 0
	})
	if len(last) != 1 {
		t.Errorf("%v", last)
	}
	stop()
	c.endpoints(func(all map[string]*topics.EndpointState) bool { return len(all) == 0 })
}

// endpoints waits until topic endpoints has a state for which ok returns true.
func (c *cluster) endpoints(ok func(map[string]*topics.EndpointState) bool) map[string]*topics.EndpointState {
	c.t.Helper()
	cl, err := kgo.NewClient(append(c.opts, kgo.ConsumeTopics(c.names.Endpoints()))...)
	if err != nil {
		c.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	all := map[string]*topics.EndpointState{}
	for {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			c.t.Fatalf("topic endpoints: %v", all)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			s, err := topics.DecodeEndpoint(r.Key, r.Value)
			if err != nil {
				c.t.Fatal(err)
			}
			if s == nil {
				delete(all, string(r.Key))
				return
			}
			all[string(r.Key)] = s
		})
		if ok(all) {
			return all
		}
	}
}

// An endpoint hangs and has many more events than are allowed in memory. Another endpoint is called
// as soon as without it: p99 is within 20 %, in virtual time. The hanging endpoint's own events are
// postponed, and none is lost.
func TestHangingEndpointHurtsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newVirtualCluster(t, 2)
		var mu sync.Mutex
		called := map[string]time.Time{}
		answer := func(r *http.Request) (*http.Response, error) {
			wait := 50 * time.Millisecond
			if r.URL.Hostname() == "hangs.example" {
				wait = time.Hour
			}
			select {
			case <-r.Context().Done():
				return nil, r.Context().Err()
			case <-time.After(wait):
			}
			mu.Lock()
			defer mu.Unlock()
			called[r.Header.Get("X-Trigger-Id")] = time.Now()
			return status(200)(r)
		}
		c.start(newTestWorker(t, with(answer), func(o *Options) { o.Kafka = c.opts }))
		const hangs, goods = 4000, 500
		p99 := func(run string) time.Duration {
			t.Helper()
			written := map[string]time.Time{}
			for i := range goods {
				id := fmt.Sprint(run, i)
				written[id] = time.Now()
				c.write(c.record("good/"+id, to("https://good.example/")))
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			var took []time.Duration
			for id, at := range written {
				if end, ok := called[id]; ok {
					took = append(took, end.Sub(at))
				}
			}
			if len(took) != goods {
				t.Fatalf("%s: %d of %d were called", run, len(took), goods)
			}
			slices.Sort(took)
			return took[goods*99/100]
		}
		alone := p99("alone")
		records := make([]*kgo.Record, 0, hangs)
		for i := range hangs {
			records = append(records, c.record("bad/"+strconv.Itoa(i), to("https://hangs.example/", "timeout", "60s")))
		}
		c.write(records...)
		beside := p99("beside")
		t.Logf("p99 %v alone, %v beside one that hangs", alone, beside)
		if beside > alone*6/5 {
			t.Errorf("p99 %v beside an endpoint that hangs, %v without it", beside, alone)
		}
		delivered, postponed := 0, 0
		for id, r := range c.receipts(hangs - 300 + 2*goods) { // 100 hang, and 200 wait for them
			switch {
			case r["outcome"] == "delivered" && id[:5] == "good/":
				delivered++
			case r["outcome"] == "postponed" && r["code"] == CodeFull && id[:4] == "bad/":
				postponed++
			default:
				t.Fatalf("%s: %v", id, r)
			}
		}
		if delivered != 2*goods || postponed != hangs-300 {
			t.Errorf("%d delivered, %d postponed while the others hang", delivered, postponed)
		}
	})
}

// A tenant with more hanging endpoints than there are requests leaves some for another tenant, which comes for the
// first time.
func TestHangingTenantLeavesRoom(t *testing.T) {
	c := newCluster(t, 2)
	release := make(chan struct{})
	var urls []string
	var calls atomic.Int64
	for range 20 {
		s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1); <-release }))
		defer s.Close()
		urls = append(urls, s.URL)
	}
	defer close(release)
	good := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer good.Close()
	c.start(newTestWorker(t, func(o *Options) { o.Kafka, o.Concurrency, o.PerEndpoint = c.opts, 64, 10 }))
	var records []*kgo.Record
	for i := range 1000 {
		records = append(records, c.record("bad/"+strconv.Itoa(i), to(urls[i%len(urls)], "timeout", "60s")))
	}
	c.write(records...)
	for calls.Load() < 60 { // it is alone, and takes all places that it may have
		time.Sleep(10 * time.Millisecond)
	}
	records = nil
	for i := range 50 {
		records = append(records, c.record("good/"+strconv.Itoa(i), to(good.URL)))
	}
	c.write(records...)
	delivered := 0
	for delivered < 50 {
		seen := c.receipts(len(c.seen) + 1)
		delivered = 0
		for id, r := range seen {
			if r["outcome"] == "delivered" && id[:5] == "good/" {
				delivered++
			} else if !slices.Contains([]any{CodeShare, CodeFull}, r["code"]) {
				t.Fatalf("%s: %v", id, r)
			}
		}
	}
}
