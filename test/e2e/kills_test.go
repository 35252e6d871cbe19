//go:build soak

package e2e

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/services"
)

// TestBrokerKills kills a cluster of one broker forty times under load, for up
// to half a minute, and every other time shuts a node down meanwhile. Nothing
// is lost, fires twice, or is left open (pipeline/dangling).
func TestBrokerKills(t *testing.T) {
	k := services.Kafka(t, services.Own())
	const partitions, kills = 4, 40
	c := newClusterOn(t, k.Bootstrap, partitions)
	nodes := c.nodes(t, 2, partitions)
	b := nodes[1]
	l := newLoad(t, c.brokers, c.prefix)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range kills {
		stop := l.startAs(fmt.Sprintf("kill-%d", i), 100)
		time.Sleep(time.Duration(1000+r.IntN(1500)) * time.Millisecond)
		back := time.Now().Add(time.Duration(r.IntN(8)) * 3 * time.Second)
		k.Kill9(1)
		if i%2 == 1 {
			b.signal(syscall.SIGTERM)
			<-b.done
		}
		time.Sleep(time.Until(back))
		k.Restart(1)
		if i%2 == 1 {
			b.launch()
		}
		c.recovers(t, partitions, stop, nodes...)
		l.judge(c.brokers, c.prefix)
		if t.Failed() {
			t.Fatalf("after %d kills", i+1)
		}
	}
}
