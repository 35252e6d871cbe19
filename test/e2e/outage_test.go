package e2e

import (
	"bufio"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/services"
)

// outage is how long the broker is away: seconds, or in a soak ten minutes.
func outage() time.Duration {
	if os.Getenv("WATERCLOCK_TEST_SOAK") != "" {
		return 10 * time.Minute
	}
	return 20 * time.Second
}

// mayGrow is how much a node's memory may grow while it cannot work: buffers of
// its partitions, and the garbage of trying again.
const mayGrow = 200 << 20

// TestBrokerOutage takes the broker away from two nodes under load, once by
// kill -9 and once frozen (docs/testing.md F38). Meanwhile their memory stays bounded,
// the metric tells what is overdue, and one of them can be shut down. When the
// broker is back everything goes on by itself, no transaction is left open, and
// nothing is lost or fires twice.
func TestBrokerOutage(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a JVM")
	}
	t.Parallel() // it waits, most of the time, and its brokers are its own
	k := services.Kafka(t, services.Own())
	const partitions = 4
	c := newClusterOn(t, k.Bootstrap, partitions)
	nodes := c.nodes(t, 2, partitions)
	a, b := nodes[0], nodes[1]
	l := newLoad(t, c.brokers, c.prefix)
	for _, fault := range []struct {
		name    string
		off, on func(int)
	}{
		{"frozen", k.Pause, k.Cont},
		{"killed", k.Kill9, k.Restart},
	} {
		stop := l.startAs(fault.name, 100)
		due := time.Now().Add(5*time.Second + outage()/2).Truncate(time.Millisecond)
		for i := range 50 { // due while there is no broker
			l.one(fault.name+"-away-"+strconv.Itoa(i), due, false)
		}
		before := a.metric("process_resident_memory_bytes")
		fault.off(1)
		overdue := 0.0 // the most that was told: at the end of its session a node owns nothing
		for back := time.Now().Add(outage()); time.Now().Before(back); time.Sleep(250 * time.Millisecond) {
			overdue = max(overdue, a.metric("waterclock_oldest_overdue_seconds"))
		}
		if grown := a.metric("process_resident_memory_bytes") - before; grown > mayGrow {
			t.Errorf("%s: memory grew by %.0f MB while the broker was away", fault.name, grown/(1<<20))
		} else {
			t.Logf("%s: memory grew by %.0f MB", fault.name, grown/(1<<20))
		}
		if overdue < 2 {
			t.Errorf("%s: the oldest overdue trigger is said to be %.1f s late", fault.name, overdue)
		}
		b.signal(syscall.SIGTERM)
		select {
		case <-b.done:
		case <-time.After(25 * time.Second): // stop.timeout is 20 s
			t.Errorf("%s: a node did not shut down within 25 s", fault.name)
			<-b.done
		}
		fault.on(1)
		b.launch()
		c.recovers(t, partitions, stop, nodes...)
		if overdue := a.metric("waterclock_oldest_overdue_seconds"); overdue > 1 {
			t.Errorf("%s: the oldest overdue trigger is %.1f s late although the broker is back", fault.name, overdue)
		}
	}
	l.judge(c.brokers, c.prefix)
}

// recovers waits until nodes have gone on under load after an outage, and until
// no transaction is left open when the load is over.
func (c *cluster) recovers(t *testing.T, partitions int, stop func(), nodes ...*process) {
	t.Helper()
	time.Sleep(2 * time.Second)
	stop()
	awaitOwners(t, nodes[0], partitions, len(nodes))
	awaitReady(t, nodes...)
	awaitEnded(t, c.brokers, c.prefix+"due.default", c.prefix+"state", c.prefix+"events")
}

// metric is the largest value of a metric over its labels, 0 if it is not
// there.
func (p *process) metric(name string) (most float64) {
	p.t.Helper()
	for _, v := range p.metrics(name) {
		most = max(most, v)
	}
	return most
}

// sum is a metric over all its labels.
func (p *process) sum(name string) (total float64) {
	p.t.Helper()
	for _, v := range p.metrics(name) {
		total += v
	}
	return total
}

func (p *process) metrics(name string) (values []float64) {
	p.t.Helper()
	resp, err := http.Get("http://" + p.http + "/metrics")
	if err != nil {
		p.t.Errorf("metrics: %v", err)
		return nil
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), name); ok && (rest[0] == ' ' || rest[0] == '{') {
			v, _ := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
			values = append(values, v)
		}
	}
	return values
}
