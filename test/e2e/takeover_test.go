package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestTakeOver lets one of three nodes stop and another die under load while
// partitions have warm standbys, and both come back; and a node stop and come
// back in a group that the brokers balance (KIP-848). Each acknowledged trigger
// fires once.
func TestTakeOver(t *testing.T) {
	for name, settings := range map[string][]string{
		"classic":  {"--standby", "1"},
		"consumer": {"--standby", "1", "--group-protocol", "consumer"},
	} {
		t.Run(name, func(t *testing.T) {
			const partitions = 12
			c := newCluster(t, partitions)
			nodes := c.nodes(t, 3, partitions, settings...)
			l := newLoad(t, c.brokers, c.prefix)
			stop := l.startAs("c", 100)
			time.Sleep(time.Second)
			nodes[2].stop(30 * time.Second)
			awaitOwners(t, nodes[0], partitions, 2)
			nodes[2].launch()
			nodes[2].ready(60 * time.Second)
			awaitOwners(t, nodes[0], partitions, 3)
			if name == "classic" { // else a dead member keeps its partitions for the brokers' 45 s
				nodes[1].kill()
				awaitOwners(t, nodes[0], partitions, 2)
				nodes[1].launch()
				nodes[1].ready(60 * time.Second)
			}
			stop()
			awaitOwners(t, nodes[0], partitions, 3)
			doctor := []string{"doctor", "--url", "http://" + nodes[0].http}
			out, _, _ := waterclock(t, "", append(doctor, c.global()...)...)
			if !strings.Contains(out, "3 engines in group") {
				t.Errorf("doctor does not find them: %s", out)
			}
			awaitReady(t, nodes...)
			l.judge(c.brokers, c.prefix)
		})
	}
}
