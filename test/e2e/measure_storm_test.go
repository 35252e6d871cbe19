//go:build soak

package e2e

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestStormWhileRestoring kills, stops, wipes and starts nodes every second or
// so, two more than the three there should be among them, while they restore
// what a million triggers left on topic state (docs/testing.md F18). When it is over,
// all that was due meanwhile has fired once, all that is not due is still
// pending, and what is due from then on fires at once.
func TestStormWhileRestoring(t *testing.T) {
	const partitions, storm = 12, time.Minute
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	c := newCluster(t, partitions)
	nodes := c.nodes(t, 3, partitions)
	fill(t, c.brokers, c.prefix, pendingCount(), nodes[0])
	l := newLoad(t, c.brokers, c.prefix)
	now := time.Now()
	// in the storm and after it
	l.flood("herd", pendingCount()/20, func(i int) time.Time { return now.Add(time.Duration(i%90) * time.Second) })
	stop := l.startAs("storm", 100)

	for _, n := range nodes {
		n.kill()
		wipe(t, n)
	}
	for _, name := range []string{"joiner-1", "joiner-2"} {
		nodes = append(nodes, c.node(t, name, t.TempDir()))
	}
	struck := map[string]int{}
	for begin := time.Now(); time.Since(begin) < storm; time.Sleep(500*time.Millisecond +
		time.Duration(rnd.IntN(1000))*time.Millisecond) {
		struck[strike(t, nodes[rnd.IntN(len(nodes))], rnd)]++
	}
	calm := time.Now()
	for _, n := range nodes[3:] {
		n.kill()
	}
	for _, n := range nodes[:3] {
		if n.ended() {
			n.launch()
		}
	}
	awaitOwners(t, nodes[0], partitions, 3)
	ready := time.Since(calm)
	stop()
	time.Sleep(time.Until(now.Add(90 * time.Second))) // the last of the herd
	awaitReady(t, nodes[:3]...)
	l.judge(c.brokers, c.prefix)
	if pending, _ := statusOf(nodes[0]); pending != pendingCount() {
		t.Errorf("%d triggers are pending, want the %d that are due in hours", pending, pendingCount())
	}
	pulse := startPulse(t, c.brokers, c.prefix, 300)
	time.Sleep(10 * time.Second)
	fired := pulse.stop()
	_, restore := metric(nodes[0], "waterclock_restore_seconds")
	report(t, "kafka-storm", map[string]any{
		"pending": pendingCount(), "partitions": partitions, "struck": struck,
		"calm_to_ready_s": seconds(ready), "longest_restore_s": restore, "lateness_ms": lateOf(fired),
	})
}

// strike does to a node what happens to nodes: one that has ended is started,
// on its disk or an empty one; one that runs is killed or asked to leave, and
// killed if it is met again before it has left.
func strike(t *testing.T, n *process, rnd *rand.Rand) (what string) {
	switch {
	case n.ended() && rnd.IntN(2) == 0:
		wipe(t, n)
		n.launch()
		return "started on an empty disk"
	case n.ended():
		n.launch()
		return "started"
	case !n.leaving && rnd.IntN(2) == 0:
		n.signal(syscall.SIGTERM)
		n.leaving = true
		return "asked to leave"
	}
	n.kill()
	return "killed"
}

func wipe(t *testing.T, n *process) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(n.dataDir(), "store")); err != nil {
		t.Fatal(err)
	}
}
