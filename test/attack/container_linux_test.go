package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/built"
)

// containerMemory is what the container of this test may take, without swap. The process takes 70 % of it at most, by
// memory.limit auto; the rest is for pages of files.
const containerMemory = 350 << 20

// TestSmallContainer: all that takes memory, one after the other, in a container of 350 MiB, where the kernel kills who
// takes more. It is the one judge of memory that the process cannot talk to.
func TestSmallContainer(t *testing.T) {
	c := newContainer(t, containerMemory)
	n := &node{kind: "dev", kafka: built.FreeAddr(t), history: true, within: c.run()}
	n.start(t, append([]string{
		"dev", "--kafka-listen", n.kafka, "--data-dir", filepath.Join(t.TempDir(), "data"),
	}, settings(t)...)...)
	n.url = "http://" + n.processes[0].http
	if said := n.processes[0].said(t); !strings.Contains(said, "from=container") {
		t.Fatalf("it has not found the container's limit: %s", said)
	}
	v, a := watch(t, n), n.as("attacker", attackerKey)
	for _, one := range []attack{
		{name: "bombs", prepare: assembled, run: bombs},
		{name: "encoded bodies", prepare: assembled, run: encodedBodies},
		{name: "slow readers", prepare: largeTriggers, run: slowReaders},
		{name: "upcoming", prepare: everyMinute, run: upcoming},
		{name: "flood", run: flood},
	} {
		t.Run(one.name, func(t *testing.T) {
			if one.prepare != nil {
				one.prepare(t, a)
			}
			done := make(chan struct{})
			go func() { defer close(done); one.judged(t, a) }()
			beside := v.phase(t.Context(), attackFor)
			<-done
			most, killed := c.state(t)
			t.Logf("%s; the container had at most %d MB", beside, most>>20)
			if killed > 0 {
				t.Fatalf("the kernel has killed %d processes for their memory", killed)
			}
			if beside.answered == 0 || beside.fired == 0 {
				t.Errorf("%d PUTs of the victim were taken, %d fired", beside.answered, beside.fired)
			}
			for _, f := range beside.failed {
				t.Errorf("a PUT of the victim was refused: %s", f)
				break
			}
		})
	}
	a.must(t, 200, "GET", "/v1/triggers/large0", "")
	if most, _ := c.state(t); most < containerMemory/4 {
		t.Errorf("the container had at most %d MB: this was no test of memory", most>>20)
	}
}

// container is a cgroup with a limit of memory, as a container has.
type container struct {
	dir              string
	limit, max, kill string // files of cgroup v1 or v2
	swap, noSwap     string // one that says how much swap there may be, if the kernel has it
}

// newContainer needs root, and a kernel whose memory is not handed to others yet.
func newContainer(t *testing.T, limit int64) *container {
	t.Helper()
	name := fmt.Sprintf("waterclock-test-%d", os.Getpid())
	for _, c := range []*container{
		{
			dir: "/sys/fs/cgroup/memory/" + name, limit: "memory.limit_in_bytes", max: "memory.max_usage_in_bytes",
			kill: "memory.oom_control", swap: "memory.memsw.limit_in_bytes", noSwap: strconv.FormatInt(limit, 10),
		},
		{
			dir: "/sys/fs/cgroup/" + name, limit: "memory.max", max: "memory.peak", kill: "memory.events",
			swap: "memory.swap.max", noSwap: "0",
		},
	} {
		if err := os.Mkdir(c.dir, 0o755); err != nil {
			t.Logf("%v", err)
			continue
		}
		t.Cleanup(func() { // once the processes are gone
			var err error
			for range 100 {
				if err = os.Remove(c.dir); err == nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
			t.Errorf("a cgroup is left behind: %v", err)
		})
		err := os.WriteFile(filepath.Join(c.dir, c.limit), []byte(strconv.FormatInt(limit, 10)), 0o600)
		if err == nil {
			_, err = os.Stat(filepath.Join(c.dir, c.max))
		}
		if err != nil {
			t.Logf("%v", err)
			continue
		}
		swap := filepath.Join(c.dir, c.swap)
		if _, err := os.Stat(swap); err == nil {
			if err := os.WriteFile(swap, []byte(c.noSwap), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
	t.Skip("no cgroup with a limit of memory can be made here: run as root")
	return nil
}

// run is a command that runs its arguments in the container.
func (c *container) run() []string {
	return []string{"/bin/sh", "-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(c.dir, "cgroup.procs")}
}

// state is the most memory that it had, and how many processes were killed for it.
func (c *container) state(t *testing.T) (most, killed int64) {
	t.Helper()
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(c.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	most, err := strconv.ParseInt(strings.TrimSpace(read(c.max)), 10, 64)
	_, rest, found := strings.Cut(read(c.kill), "oom_kill ")
	if err == nil && found {
		killed, err = strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	}
	if err != nil || !found {
		t.Fatalf("%s: %v", c.dir, err)
	}
	return most, killed
}
