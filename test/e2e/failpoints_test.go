package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/topics"
)

// turnStep is a named step of a turn. open: the broker has records of the
// turn's transaction by then, and the strike waits for a turn where it has.
type turnStep struct {
	name string
	open bool
}

var turnSteps = []turnStep{
	{"end", true},
	{"flush", true},
	{"emit", true},
	{"advance", true},
	{"apply", false},
	{"committed", false},
	{"stored", false},
	{"begin", false},
	{"poll", false},
}

// outOfGroup is how long a frozen node stays frozen: past the session time-out
// (6 s), so that its partitions are somebody else's when it wakes.
const outOfGroup = 8500 * time.Millisecond

// outOfTransaction is past the transaction time-out (10 s) and the broker's
// next look at it.
const outOfTransaction = 22 * time.Second

// victim is a node that strikes itself where it is told to.
type victim struct {
	*process
	dir   string // where it is told
	group string
	adm   *kadm.Client
	proxy *proxy // its way to the broker
}

func (c *cluster) victim(t *testing.T, name, flaw string) *victim {
	t.Helper()
	file, err := strikable()
	if err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.brokers...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	v := &victim{
		dir: t.TempDir(), group: c.prefix + "engine", adm: kadm.NewClient(cl),
		proxy: newProxy(t, c.brokers[0]),
	}
	args := append([]string{"serve", "--roles", "engine,api", "--data-dir", t.TempDir()}, c.args...)
	v.process = startAs(t, name, file, []string{
		"FAILPOINTS_DIR=" + v.dir, "FAILPOINTS_FLAW=" + flaw,
		"FAILPOINTS_DIAL=" + v.proxy.addr,
	}, args...)
	return v
}

// victims are n of them, ready.
func (c *cluster) victims(t *testing.T, n int, flaw string) (nodes []*victim) {
	t.Helper()
	for i := range n {
		nodes = append(nodes, c.victim(t, fmt.Sprintf("node-%d", i), flaw))
	}
	for _, v := range nodes {
		v.ready(60 * time.Second)
	}
	return nodes
}

// strike tells the node where to strike itself, and returns when it has: dead,
// or frozen. inside is what the broker says about the transaction it held.
func (v *victim) strike(step, blow string, open bool) (inside bool, err error) {
	condition := "any"
	if open {
		condition = "open"
	}
	hit := filepath.Join(v.dir, "hit")
	_ = os.Remove(hit)
	arm := filepath.Join(v.dir, "arm")
	if err := os.WriteFile(arm+".new", []byte(strings.Join([]string{step, blow, condition}, " ")), 0o600); err != nil {
		return false, err
	}
	if err := os.Rename(arm+".new", arm); err != nil {
		return false, err
	}
	for deadline := time.Now().Add(45 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		partition, err := os.ReadFile(hit)
		if err == nil && len(partition) > 0 {
			if blow == "kill" {
				<-v.done
			}
			return v.holds(string(partition)), nil
		}
		if time.Now().After(deadline) {
			return false, fmt.Errorf("the failpoint %s was never hit", step)
		}
	}
}

// holds says whether a partition's transaction is under way.
func (v *victim) holds(partition string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	id := v.group + "-" + partition
	for ctx.Err() == nil {
		if d, err := v.adm.DescribeTransactions(ctx, id); err == nil {
			return d[id].State == "Ongoing"
		}
	}
	return false
}

// struck counts what the strikes of a run hit.
type struck struct {
	mu     sync.Mutex
	inside map[string]int
	hits   int
}

// attempts is how often a strike is tried that must hit inside a transaction:
// between the node's look at the broker and ours a rebalance may abort it.
const attempts = 5

// note strikes a node until the blow has hit where it shall; again wakes or
// starts the node in between.
func (s *struck) note(t *testing.T, v *victim, step turnStep, blow string, retry func()) {
	t.Helper()
	for i := range attempts {
		if i > 0 {
			retry()
		}
		inside, err := v.strike(step.name, blow, step.open)
		if err != nil {
			t.Errorf("%s: %v", blow, err)
			return
		}
		s.mu.Lock()
		s.hits++
		if inside {
			s.inside[step.name+" "+blow]++
		}
		s.mu.Unlock()
		if inside || !step.open {
			return
		}
	}
	t.Errorf("%s at %s: %d hits, and none inside an open transaction", blow, step.name, attempts)
}

// flawWorlds is in how many worlds a broken engine has to be caught: what a
// blow hits depends on what the other processes do at that moment.
const flawWorlds = 3

// TestFailpointsOnKafka strikes four nodes with 12 partitions at every step
// of the turn, by SIGKILL and by SIGSTOP past the session time-out, and judges
// the topics in both isolation levels. Beside it, engines that are built wrong
// are struck alike: each must be caught.
func TestFailpointsOnKafka(t *testing.T) {
	t.Run("as it is built", func(t *testing.T) {
		t.Parallel()
		exactlyOnce(t, turnSteps)
	})
	for _, c := range []flawCase{
		// a kill would take what the store has not written out
		{"apply before commit", 1, "end", "freeze", false, outOfTransaction, 1},
		{"skip restore", 1, "end", "kill", true, 0, 3},
		{"read uncommitted", 1, "end", "kill", true, 0, 4},
		// One without a fence does no harm: it finds the other owner's records before it commits
		// (pipeline.TestSecondWriter).
	} {
		t.Run(c.flaw, func(t *testing.T) {
			t.Parallel()
			for range flawWorlds {
				if found := c.run(t); len(found) > 0 {
					t.Logf("caught: %d violations, the first: %s", len(found), found[0])
					return
				}
			}
			t.Errorf("nothing was found wrong in %d worlds", flawWorlds)
		})
	}
}

func exactlyOnce(t *testing.T, steps []turnStep) {
	const partitions = 12
	c := newCluster(t, partitions)
	nodes := c.victims(t, 4, "")
	awaitOwners(t, nodes[0].process, partitions, len(nodes))
	l := newLoad(t, c.brokers, c.prefix)
	stop := l.start(150)
	s := &struck{inside: map[string]int{}}
	for batch := range slices.Chunk(steps, len(nodes)-1) {
		round(t, s, nodes, batch)
	}
	stop()
	awaitOwners(t, nodes[0].process, partitions, len(nodes))
	awaitReady(t, nodes[0].process)
	committed, aborted, found := levels(t, c.brokers, c.prefix)
	if aborted == 0 {
		t.Error("no record was aborted: no strike hit anything")
	}
	found = append(found, l.violations(committed[topics.Names{Prefix: c.prefix}.Due("default")])...)
	found = append(found, l.verify(c.brokers, c.prefix)...)
	for _, v := range found {
		t.Error(v)
	}
	t.Logf("%d strikes, inside a transaction by the broker's word: %v; %d records aborted", s.hits, s.inside, aborted)
}

// round freezes all nodes but the last at a step each, and meanwhile kills the
// last at each of the steps, so that for seconds it alone is left.
func round(t *testing.T, s *struck, nodes []*victim, steps []turnStep) {
	t.Helper()
	var freezing sync.WaitGroup
	for i, step := range steps {
		freezing.Go(func() {
			thaw := func() { nodes[i].signal(syscall.SIGCONT) }
			s.note(t, nodes[i], step, "freeze", thaw)
			time.Sleep(outOfGroup)
			thaw()
		})
	}
	last := nodes[len(nodes)-1]
	for _, step := range steps {
		s.note(t, last, step, "kill", last.launch)
		last.launch()
	}
	freezing.Wait()
}

// flawCase strikes an engine that is built wrong where it hurts.
type flawCase struct {
	flaw  string
	nodes int
	step  string
	blow  string
	wipe  bool // the disk is lost as well
	long  time.Duration
	times int
}

func (c flawCase) run(t *testing.T) []string {
	const partitions = 4
	cl := newCluster(t, partitions)
	nodes := cl.victims(t, c.nodes, c.flaw)
	l := newLoad(t, cl.brokers, cl.prefix)
	stop := l.start(100)
	for i := range c.times {
		n := nodes[i%len(nodes)]
		if c.blow == "mute" {
			n.proxy.hold(kmsg.Heartbeat)
			time.Sleep(c.long)
			n.proxy.release()
			continue
		}
		if _, err := n.strike(c.step, c.blow, c.step == "end"); err != nil {
			t.Error(err)
		}
		if c.wipe {
			if err := os.RemoveAll(filepath.Join(n.dataDir(), "store")); err != nil {
				t.Fatal(err)
			}
		}
		if c.blow == "freeze" {
			time.Sleep(c.long)
			n.signal(syscall.SIGCONT)
		} else {
			n.launch()
		}
	}
	stop()
	time.Sleep(5 * time.Second)
	for _, n := range nodes {
		n.stop(10 * time.Second) // it may never come to rest
	}
	committed, _, found := levels(t, cl.brokers, cl.prefix)
	return append(l.violations(committed[topics.Names{Prefix: cl.prefix}.Due("default")]), found...)
}
