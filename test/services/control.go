package services

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// Upgrade restarts node n in an orderly way as another version.
func (c *KafkaCluster) Upgrade(n int, version string) {
	c.t.Helper()
	c.own(n)
	_, err := c.h.script("kafka.sh", "version", strconv.Itoa(n), version)
	c.must("upgrade", n, err)
	c.Restart(n)
}

// RestartAll is Restart of nodes that are down, all at once: without a majority none of them
// would come to serve.
func (c *KafkaCluster) RestartAll(nodes ...int) {
	c.t.Helper()
	for _, n := range nodes {
		c.must("restart", n, c.launch(n))
	}
	for _, n := range nodes {
		c.must("restart", n, c.awaitNode(n))
	}
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

// Mute drops what a sends to b until Unmute, and nothing of what b sends to a. Each is a
// node or a guest. It needs Namespaces.
func (c *KafkaCluster) Mute(a, b int) { c.t.Helper(); c.network("mute", a, b) }

// Unmute ends Mute.
func (c *KafkaCluster) Unmute(a, b int) { c.t.Helper(); c.network("unmute", a, b) }

// FirstGuest is the number of the first guest: nodes are below.
const FirstGuest = 11

// Guest is a network namespace for a process of the test's own beside those of the nodes. Its
// number is good for Isolate, Cut and Mute.
type Guest struct {
	Namespace string // for ip netns exec
	Addr      string // its address, which the test and the nodes reach
}

// Guest makes namespace n, from FirstGuest to 99. It needs Namespaces.
func (c *KafkaCluster) Guest(n int) Guest {
	c.t.Helper()
	c.own(1)
	vars, err := c.h.script("kafka.sh", "guest", strconv.Itoa(n))
	c.must("guest", n, err)
	return Guest{Namespace: vars["NETNS_NAME"], Addr: vars["NETNS_ADDR"]}
}

// FillDisk leaves node n not a byte to write, until FreeDisk. It needs Disk.
func (c *KafkaCluster) FillDisk(n int) {
	c.t.Helper()
	c.own(n)
	c.must("fill the disk of", n, Fill(c.ballast(n)))
}

// FreeDisk ends FillDisk. The node may have ended meanwhile: see Restart.
func (c *KafkaCluster) FreeDisk(n int) {
	c.t.Helper()
	c.must("free the disk of", n, os.Remove(c.ballast(n)))
}

func (c *KafkaCluster) ballast(n int) string { return filepath.Join(c.Dir(n), "data", "ballast") }

// Dir is where node n keeps its topics (data) and what it says (logs).
func (c *KafkaCluster) Dir(n int) string {
	return filepath.Join(c.h.dir, "kafka", fmt.Sprint("node-", n))
}

// Alive says whether node n runs.
func (c *KafkaCluster) Alive(n int) bool { c.t.Helper(); return c.own(n).alive() }

// Fill writes a file until its file system is full.
func Fill(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	chunk := make([]byte, 1<<20)
	for len(chunk) > 0 {
		_, err := f.Write(chunk)
		switch {
		case errors.Is(err, syscall.ENOSPC):
			chunk = chunk[:len(chunk)/2]
		case err != nil:
			return err
		}
	}
	return nil
}

func (c *KafkaCluster) network(verb string, nodes ...int) {
	c.t.Helper()
	args := []string{verb}
	c.own(1)
	for _, n := range nodes {
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
