package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/built"
)

// TestRollingUpgrade replaces the binaries of a cluster one after another under
// load, forth and back, while versions are mixed: from the first version to this
// one, and from this one to the next.
func TestRollingUpgrade(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to func() (string, error)
	}{
		{"from the first version", built.Previous, binary},
		{"to the next", binary, built.Next},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, err := c.from()
			if err != nil {
				t.Fatal(err)
			}
			to, err := c.to()
			if err != nil {
				t.Fatal(err)
			}
			cl := newCluster(t, 4)
			var nodes []*process
			for i := range 3 {
				p := startAs(t, fmt.Sprintf("node-%d", i), from, nil,
					append([]string{"serve", "--roles", "engine,api", "--data-dir", t.TempDir()}, cl.args...)...)
				p.ready(60 * time.Second)
				nodes = append(nodes, p)
			}
			awaitOwners(t, nodes[0], 4, 3)
			l := newLoad(t, cl.brokers, cl.prefix)
			stop := l.start(50)
			replace := func(p *process, file string) {
				p.stop(20 * time.Second)
				p.file = file
				p.launch()
				p.ready(60 * time.Second)
				awaitOwnersAmong(t, nodes, 4, 3)
			}
			replace(nodes[0], to) // forth ...
			replace(nodes[1], to)
			replace(nodes[0], from) // ... and back, with one still old
			replace(nodes[1], from)
			if c.name == "from the first version" { // what it writes can always be read
				for _, p := range nodes {
					replace(p, to)
				}
				for _, p := range nodes {
					replace(p, from)
				}
			}
			stop()
			awaitReady(t, nodes...)
			l.judge(cl.brokers, cl.prefix)
		})
	}
}

// TestDowngrade rolls a cluster back to this version after all of it was newer
// and has written what this version cannot read (docs/testing.md F35). The partitions
// that this version is given are refused, and say so; the process and the others
// go on, and the newer version takes everything again.
func TestDowngrade(t *testing.T) {
	file, err := built.Next()
	if err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, 4)
	serve := func(dir string) []string {
		return append([]string{"serve", "--roles", "engine,api", "--data-dir", dir}, c.args...)
	}
	dirs := []string{t.TempDir(), t.TempDir()}
	a, b := startAs(t, "newer-a", file, nil, serve(dirs[0])...), startAs(t, "newer-b", file, nil, serve(dirs[1])...)
	a.ready(60 * time.Second)
	b.ready(60 * time.Second)
	awaitOwners(t, a, 4, 2)
	l := newLoad(t, c.brokers, c.prefix)
	stop := l.start(50)
	time.Sleep(5 * time.Second)
	b.stop(20 * time.Second)
	for _, dir := range []string{dirs[1], t.TempDir()} {
		old := start(t, "older", serve(dir)...)
		await(t, "the older version to refuse its partitions",
			func() bool { return strings.Contains(readyz(old), "newer version") })
		if old.ended() || a.ended() {
			t.Fatal("a process ended for partitions that only one of them cannot read")
		}
		old.stop(20 * time.Second)
	}
	b.launch()
	stop()
	awaitOwners(t, a, 4, 2)
	awaitReady(t, a, b)
	l.judge(c.brokers, c.prefix)
}

// await waits for a condition for a minute and a half.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// readyz is what a process says of its readiness.
func readyz(p *process) string {
	resp, err := http.Get("http://" + p.http + "/readyz")
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}
