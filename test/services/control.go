package services

import (
	"strconv"
	"syscall"
	"time"
)

// Kill9 kills node n as a power cut would, and returns when it is gone.
func (c *KafkaCluster) Kill9(n int) {
	c.t.Helper()
	c.must("kill", n, c.running(n).stop(syscall.SIGKILL, time.Minute))
}

// Stop shuts node n down in an orderly way, which moves its leaderships first.
func (c *KafkaCluster) Stop(n int) {
	c.t.Helper()
	c.must("stop", n, c.running(n).stop(syscall.SIGTERM, time.Minute))
}

// Restart starts node n again on its old data, and returns when it serves. A
// node that still runs is shut down first.
func (c *KafkaCluster) Restart(n int) {
	c.t.Helper()
	if c.own(n).alive() {
		c.Stop(n)
	}
	c.must("restart", n, c.launch(n))
	c.must("restart", n, c.awaitNode(n))
}

// Pause freezes node n until Cont: it keeps its connections and answers nothing.
func (c *KafkaCluster) Pause(n int) {
	c.t.Helper()
	c.must("pause", n, c.running(n).signal(syscall.SIGSTOP))
}

// Cont lets a paused node go on.
func (c *KafkaCluster) Cont(n int) {
	c.t.Helper()
	c.must("continue", n, c.running(n).signal(syscall.SIGCONT))
}

// Isolate takes node n off the network until Rejoin. It needs Namespaces.
func (c *KafkaCluster) Isolate(n int) { c.t.Helper(); c.network("isolate", n) }

// Rejoin ends Isolate.
func (c *KafkaCluster) Rejoin(n int) { c.t.Helper(); c.network("rejoin", n) }

// Cut separates nodes a and b from each other, while clients reach both, until
// Mend. It needs Namespaces.
func (c *KafkaCluster) Cut(a, b int) { c.t.Helper(); c.network("cut", a, b) }

// Mend ends Cut.
func (c *KafkaCluster) Mend(a, b int) { c.t.Helper(); c.network("mend", a, b) }

func (c *KafkaCluster) network(verb string, nodes ...int) {
	c.t.Helper()
	args := []string{verb}
	for _, n := range nodes {
		c.own(n)
		args = append(args, strconv.Itoa(n))
	}
	_, err := c.h.script("kafka.sh", args...)
	c.must(verb, nodes[0], err)
}

// own is node n of a cluster that is the test's to harm.
func (c *KafkaCluster) own(n int) *node {
	c.t.Helper()
	if c.h == nil {
		c.t.Fatalf("services: this Kafka is shared with other tests; ask for services.Kafka(t, services.Own())")
	}
	if n < 1 || n > len(c.n) {
		c.t.Fatalf("services: no Kafka node %d, there are 1 to %d", n, len(c.n))
	}
	return c.n[n-1]
}

func (c *KafkaCluster) running(n int) *node {
	c.t.Helper()
	node := c.own(n)
	if !node.alive() {
		c.t.Fatalf("services: Kafka node %d does not run", n)
	}
	return node
}

func (c *KafkaCluster) must(verb string, n int, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("services: %s Kafka node %d: %v", verb, n, err)
	}
}
