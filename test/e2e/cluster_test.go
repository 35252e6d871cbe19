package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/services"
)

// cluster is three nodes on a real broker, on topics of their own.
type cluster struct {
	brokers []string
	prefix  string
	args    []string
}

func newCluster(t *testing.T, partitions int, more ...string) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a JVM")
	}
	return newClusterOn(t, services.Kafka(t).Bootstrap, partitions, more...)
}

// newClusterOn is newCluster on brokers of the test's own.
func newClusterOn(t *testing.T, bootstrap string, partitions int, more ...string) *cluster {
	t.Helper()
	c := &cluster{brokers: strings.Split(bootstrap, ","), prefix: fmt.Sprintf("e%x.", rand.Uint32())}
	c.args = append([]string{
		"--brokers", strings.Join(c.brokers, ","), "--topics-prefix", c.prefix, "--group", c.prefix + "engine",
		"--topics-partitions", fmt.Sprint(partitions),
	}, more...)
	run(t, append([]string{"topics", "apply"}, c.global()...)...)
	return c
}

// global are the settings every verb needs to find this cluster.
func (c *cluster) global() []string {
	out := []string{"--brokers", strings.Join(c.brokers, ",")}
	for i := 2; i+1 < len(c.args); i += 2 {
		out = append(out, "--set", strings.NewReplacer("--topics-prefix", "topics.prefix", "--topics-partitions",
			"topics.partitions", "--group", "group",
			"--cassandra-hosts", "cassandra.hosts", "--cassandra-keyspace", "cassandra.keyspace", "--roles",
			"roles").Replace(c.args[i])+"="+c.args[i+1])
	}
	return out
}

func (c *cluster) node(t *testing.T, name, dir string, more ...string) *process {
	args := append([]string{"serve", "--roles", "engine,api", "--data-dir", dir}, c.args...)
	return start(t, name, append(args, more...)...)
}

// nodes are n nodes that share all partitions, each on a disk of its own.
func (c *cluster) nodes(t *testing.T, n, partitions int, more ...string) (nodes []*process) {
	t.Helper()
	for i := range n {
		nodes = append(nodes, c.node(t, fmt.Sprintf("node-%d", i), t.TempDir(), more...))
	}
	for _, node := range nodes {
		node.ready(60 * time.Second)
	}
	awaitOwners(t, nodes[0], partitions, n)
	return nodes
}

// owners counts the partitions by owner, as one node sees them.
func owners(t *testing.T, p *process) map[string]int {
	t.Helper()
	resp, err := http.Get("http://" + p.http + "/v1/partitions")
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	var body struct {
		Items []struct {
			Owner string
			Ready bool
		}
	}
	b, _ := io.ReadAll(resp.Body)
	if json.Unmarshal(b, &body) != nil {
		return nil
	}
	out := map[string]int{}
	for _, i := range body.Items {
		if i.Ready {
			out[i.Owner]++
		}
	}
	return out
}

// awaitOwners waits until all partitions are ready, shared by n owners.
func awaitOwners(t *testing.T, p *process, partitions, n int) {
	t.Helper()
	awaitOwnersAmong(t, []*process{p}, partitions, n)
}

// awaitOwnersAmong is awaitOwners by what several processes know together: versions
// that do not speak each other's internal interface know their own partitions.
func awaitOwnersAmong(t *testing.T, ps []*process, partitions, n int) {
	t.Helper()
	deadline := time.Now().Add(100 * time.Second)
	var last map[string]int
	for time.Now().Before(deadline) {
		last = map[string]int{}
		for _, p := range ps {
			for owner, k := range owners(t, p) {
				last[owner] = max(last[owner], k)
			}
		}
		total := 0
		for _, k := range last {
			total += k
		}
		if total == partitions && len(last) == n {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("want %d partitions ready with %d owners, have %v", partitions, n, last)
}

func TestClusterExactlyOnce(t *testing.T) {
	const partitions = 12
	c := newCluster(t, partitions)
	nodes := c.nodes(t, 3, partitions)
	l := newLoad(t, c.brokers, c.prefix)
	stop := l.startAs("c", 150)

	nodes[0].kill()                  // crashes, and comes back on its disk
	nodes[1].signal(syscall.SIGSTOP) // frozen past session (6 s) and transaction (10 s) time-outs
	time.Sleep(14 * time.Second)
	nodes[1].signal(syscall.SIGCONT)
	nodes[0].launch()
	nodes[0].ready(60 * time.Second)
	time.Sleep(3 * time.Second)

	nodes[2].kill() // loses its disk
	if err := os.RemoveAll(filepath.Join(nodes[2].dataDir(), "store")); err != nil {
		t.Fatal(err)
	}
	nodes[2].launch()
	nodes[2].ready(60 * time.Second)
	time.Sleep(3 * time.Second)
	stop()
	awaitOwners(t, nodes[0], partitions, 3)
	awaitReady(t, nodes...)
	l.judge(c.brokers, c.prefix)
}

func TestAnyInstanceReadsAnyWrite(t *testing.T) {
	c := newCluster(t, 6)
	a, b := c.node(t, "a", t.TempDir()), c.node(t, "b", t.TempDir())
	a.ready(60 * time.Second)
	b.ready(60 * time.Second)
	awaitOwners(t, a, 6, 2)
	for i := range 30 {
		write, read := a, b
		if i%2 == 1 {
			write, read = b, a
		}
		id := fmt.Sprintf("w-%d", i)
		resp, err := http.Post("http://"+write.http+"/v1/triggers", "application/json",
			strings.NewReader(fmt.Sprintf(`{"id":%q,"delay":"1h"}`, id)))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusCreated {
			t.Fatalf("write %s: %s %s", id, resp.Status, body)
		}
		if resp, err = http.Get("http://" + read.http + "/v1/triggers/" + id); err != nil {
			t.Fatal(err)
		}
		body, _ = io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"PENDING"`) {
			t.Fatalf("read %s: %s %s", id, resp.Status, body)
		}
	}
}
