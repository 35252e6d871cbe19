package e2e

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// next is the binary of the version after this one, as far as formats go.
var next = sync.OnceValues(func() (string, error) { return build("waterclock-next", "-tags", "nextformat") })

// TestDowngrade rolls a cluster back to this version after a newer one has
// written (FAILURES F35). This version says so and ends, at once or as soon as
// it is given a partition, on an empty disk and on the newer one's; the newer
// one goes on with everything.
func TestDowngrade(t *testing.T) {
	file, err := next()
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
	b.stop(20 * time.Second)
	for _, dir := range []string{dirs[1], t.TempDir()} {
		old := start(t, "older", serve(dir)...)
		select {
		case <-old.done:
		case <-time.After(90 * time.Second):
			t.Fatal("this version goes on with what a newer one has written")
		}
		log, _ := os.ReadFile(old.log)
		last := strings.TrimSpace(string(log[strings.LastIndex(strings.TrimSpace(string(log)), "\n")+1:]))
		if old.cmd.ProcessState.ExitCode() == 0 || !strings.Contains(last, "newer version") || !strings.HasPrefix(last, "waterclock: ") {
			t.Errorf("it ended with %v, saying last: %s", old.cmd.ProcessState, last)
		}
		t.Log(last)
	}
	b.launch()
	stop()
	awaitOwners(t, a, 4, 2)
	settle(t, a, b)
	l.judge(c.brokers, c.prefix)
}
