package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// behind is a node whose engine reaches the broker through a proxy only.
func (c *cluster) behind(t *testing.T, name string) (*process, *proxy) {
	t.Helper()
	file, err := strikable()
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, c.brokers[0])
	args := append([]string{"serve", "--roles", "engine,api", "--data-dir", t.TempDir()}, c.args...)
	return startAs(t, name, file, []string{"FAILPOINTS_DIAL=" + p.addr}, args...), p
}

// TestLateBroker: a broker that answers everything late, up to nearly a
// second, makes due events late and nothing else.
func TestLateBroker(t *testing.T) {
	c := newCluster(t, 4)
	node, proxy := c.behind(t, "node")
	node.ready(60 * time.Second)
	l := newLoad(t, c.brokers, c.prefix)
	stop := l.start(100)
	for _, delay := range []time.Duration{50 * time.Millisecond, 300 * time.Millisecond, 900 * time.Millisecond, 0} {
		proxy.delay.Store(int64(delay))
		time.Sleep(4 * time.Second)
	}
	stop()
	awaitReady(t, node)
	committed, _, found := levels(t, c.brokers, c.prefix)
	for _, v := range append(found, l.violations(committed[c.prefix+"due.default"])...) {
		t.Error(v)
	}
}

// TestStalledProducer holds every produce request of a node back while commands
// keep coming in, as fast as the broker takes them (docs/testing.md F42). What the
// node cannot write it must not pile up; then it goes on.
func TestStalledProducer(t *testing.T) {
	stall, perSecond := 15*time.Second, 5000
	if os.Getenv("WATERCLOCK_TEST_SOAK") != "" {
		stall, perSecond = time.Minute, 100_000
	}
	const partitions = 4
	c := newCluster(t, partitions)
	node, proxy := c.behind(t, "node")
	node.ready(60 * time.Second)
	w := &world{prefix: c.prefix, partitions: partitions}
	cl := w.producer(t, kgo.SeedBrokers(c.brokers...), kgo.MaxBufferedRecords(20_000))
	payload := strings.Repeat("x", 200)
	due := fmt.Sprint(time.Now().Add(24 * time.Hour).UnixMilli())
	var failed atomic.Int64
	sent := 0
	send := func(n int) {
		for range n {
			cl.Produce(context.Background(), w.command(fmt.Sprintf("s-%d", sent), payload, "wc-fire-at", due),
				func(_ *kgo.Record, err error) {
					if err != nil {
						failed.Add(1)
					}
				})
			sent++
		}
	}
	send(5000)
	time.Sleep(3 * time.Second)
	before := node.metric("process_resident_memory_bytes")
	proxy.hold(kmsg.Produce)
	most := 0.0
	for begin := time.Now(); time.Since(begin) < stall; {
		send(perSecond / 10)
		most = max(most, node.metric("process_resident_memory_bytes"))
		time.Sleep(100 * time.Millisecond)
	}
	proxy.release()
	if err := cl.Flush(t.Context()); err != nil || failed.Load() > 0 {
		t.Fatalf("the load could not be written: %v, %d failed", err, failed.Load())
	}
	t.Logf("%d commands, memory from %.0f to at most %.0f MB", sent, before/(1<<20), most/(1<<20))
	if most-before > mayGrow {
		t.Errorf("memory grew from %.0f to %.0f MB while nothing could be written", before/(1<<20), most/(1<<20))
	}
	deadline := time.Now().Add(2 * time.Minute)
	for node.sum("waterclock_pending_triggers") < float64(sent) && time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond)
	}
	if pending := node.sum("waterclock_pending_triggers"); pending != float64(sent) {
		t.Errorf("%.0f of %d commands were decided in the end", pending, sent)
	}
}
