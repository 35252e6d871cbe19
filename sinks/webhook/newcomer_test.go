package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// newVirtualCluster is newCluster for a test in virtual time: its connections are in memory.
func newVirtualCluster(t testing.TB, partitions int32) *cluster {
	t.Helper()
	var net kfake.VirtualNetwork
	return newClusterOn(t, partitions,
		[]kfake.Opt{kfake.ListenFn(net.Listen), kfake.Ports(9092)}, []kgo.Opt{kgo.Dialer(net.DialContext)})
}

// deliveries counts the calls per origin and time, in place of the network.
type deliveries struct {
	mu    sync.Mutex
	since time.Time
	after []time.Duration // of calls to good.example
	slow  int             // calls to all other origins
}

// slowEndpoints is how many endpoints are slow.
const slowEndpoints = 1000

// slowest is how long the slowest endpoint takes to answer.
const slowest = 9 * time.Second

// answer takes up to 9 s, which depends on the origin, or no time for good.example.
func (d *deliveries) answer(r *http.Request) (*http.Response, error) {
	var n int
	if _, err := fmt.Sscanf(r.URL.Hostname(), "s%d.", &n); err == nil {
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-time.After(slowest * time.Duration(n+1) / slowEndpoints):
		}
		d.mu.Lock()
		d.slow++
		d.mu.Unlock()
		return status(200)(r)
	}
	d.mu.Lock()
	d.after = append(d.after, time.Since(d.since))
	d.mu.Unlock()
	return status(200)(r)
}

func (d *deliveries) count() (good, slow int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.after), d.slow
}

// besides writes so many events of a newcomer, which must be called within 10 s. It returns how many slow calls end
// meanwhile.
func (d *deliveries) besides(t *testing.T, c *cluster, goods int) (slows int) {
	t.Helper()
	var records []*kgo.Record
	for i := range goods {
		records = append(records, c.record(fmt.Sprint("good/", i), to("https://good.example/")))
	}
	d.mu.Lock()
	d.since = time.Now()
	d.mu.Unlock()
	_, before := d.count()
	c.write(records...)
	time.Sleep(10 * time.Second)
	good, slow := d.count()
	if good != goods {
		t.Errorf("%d of %d of the newcomer were called within 10 s", good, goods)
	}
	return slow - before
}

// A tenant is alone, has many endpoints that answer slowly, and more events than a worker holds.
// Another tenant comes: its events are behind all of those, on the same partitions. They are
// called within about the time of one slow call, and the first tenant keeps its calls busy.
func TestNewcomerBesideSlowEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newVirtualCluster(t, 2)
		var d deliveries
		c.start(newTestWorker(t, with(d.answer), func(o *Options) { o.Kafka = c.opts }))
		const slows, goods = 30_000, 200
		records := make([]*kgo.Record, 0, slows)
		for i := range slows {
			url := fmt.Sprintf("https://s%d.example/", i%slowEndpoints)
			records = append(records, c.record(fmt.Sprint("slow/", i), to(url)))
		}
		c.write(records...)
		time.Sleep(2 * time.Second) // the worker holds as many as it may
		slow := d.besides(t, c, goods)
		if slow < 500 {
			t.Errorf("only %d slow calls ended meanwhile", slow)
		}
		if n := c.outcomes(); len(n) != 2 || n["delivered"] < goods || n["postponed"] < slows/2 {
			t.Errorf("receipts: %v", n)
		}
	})
}

// A tenant has more events of one target_key than a worker holds, and its endpoint takes 0.9 s for each.
// The events of another tenant that are behind these are called within seconds.
func TestNewcomerBesideSlowKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newVirtualCluster(t, 1)
		var d deliveries
		c.start(newTestWorker(t, with(d.answer), func(o *Options) { o.Kafka = c.opts }))
		const slows, goods = 15_000, 50
		records := make([]*kgo.Record, 0, slows)
		for i := range slows {
			r := c.record(fmt.Sprint("slow/", i), to("https://s99.example/")) // answers in 0.9 s
			r.Key = []byte("same")
			records = append(records, r)
		}
		c.write(records...)
		time.Sleep(2 * time.Second) // the worker holds as many as it may
		slow := d.besides(t, c, goods)
		if slow < 9 || slow > 12 {
			t.Errorf("%d slow calls ended meanwhile, want one in 0.9 s", slow)
		}
	})
}

// outcomes counts the receipts so far, by outcome.
func (c *cluster) outcomes() map[string]int {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	n := map[string]int{}
	for ctx.Err() == nil {
		c.cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			var one struct{ Outcome string }
			if err := json.Unmarshal(r.Value, &one); err != nil {
				c.t.Errorf("receipt %q: %v", r.Value, err)
			}
			n[one.Outcome]++
		})
	}
	return n
}
