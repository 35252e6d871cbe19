package sim

import (
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/pipeline"
)

// Fault is a kind of fault.
type Fault struct {
	Name, Means string

	node   func(l *life, n *Node, pause time.Duration) // strikes a running node
	strike func(l *life)                               // strikes anything else
	// A fault without either is part of the load all the time, or comes at the end.
}

// Faults lists all faults, by what they strike.
var Faults []Fault

func init() { // in init, because the functions refer to Faults
	Faults = []Fault{
		{Name: "kill", Means: "a node is killed; its disk stays as the operating system has it", node: (*life).kill},
		{
			Name:  "power-loss",
			Means: "a node is killed, and of what it had not synced some blocks are there, cut at any byte",
			node:  (*life).powerLoss,
		},
		{Name: "restart", Means: "a node is stopped cleanly", node: (*life).restart},
		{Name: "freeze", Means: "a node stops for up to 15 s, as by SIGSTOP, and goes on", node: (*life).freeze},

		{Name: "hang", Means: "a node's network holds everything back for up to 15 s", node: (*life).hang},
		{
			Name: "mute", Means: "a node's heartbeats are held back: it has lost its partitions and does not know",
			node: (*life).mute,
		},
		{Name: "cut", Means: "a node's connections break", node: (*life).cutOff},
		{Name: "unreachable", Means: "no broker can be reached from a node for up to 15 s", node: (*life).unreachable},
		{
			Name: "late-answers", Means: "every answer to a node is up to 3 s late, so that they overtake each other",
			node: (*life).lateAnswers,
		},
		{Name: "lagging-fetches", Means: "what a node fetches is up to 8 s old", node: (*life).laggingFetches},
		{
			Name:  "lost-answers",
			Means: "one in ten answers to a node is lost, after the broker has done what was asked",
			node:  (*life).lostAnswers,
		},
		{
			Name:  "doubled-requests",
			Means: "half the answers to writes are lost, so that a node writes and commits again",
			node:  (*life).doubledRequests,
		},

		{
			Name:   "broker-errors",
			Means:  "brokers answer some requests with an error; some they have done all the same",
			strike: (*life).brokerErrors,
		},
		{
			Name: "coordinator-moves", Means: "the coordinators of groups and transactions move",
			strike: (*life).coordinators,
		},
		{Name: "leader-moves", Means: "another broker leads some partitions", strike: (*life).leaders},
		{
			Name: "truncated-log",
			Means: "at the end: an elected leader lacks the end of commands or state; the partition must refuse, " +
				"and no other",
		},

		{
			Name: "full-disk", Means: "a node's disk is full: it dies at its next write, and again until there is room",
			node: (*life).fullDisk,
		},
		{Name: "lost-disk", Means: "a node comes back with an empty disk", node: (*life).lostDisk},
		{Name: "stale-disk", Means: "a node comes back with its disk as it was a while ago", node: (*life).staleDisk},
		{
			Name: "swapped-disk", Means: "a node comes back with another node's disk, or with two partitions exchanged",
			node: (*life).swappedDisk,
		},

		{Name: "clock-step", Means: "a node's clock jumps by up to 20 s, or an hour", node: (*life).clockStep},
		{Name: "clock-drift", Means: "a node's clock gains or loses up to 5 %", node: (*life).clockDrift},

		{
			Name: "second-group", Means: "a node of another group starts on the same topics; it must refuse",
			strike: (*life).secondGroup,
		},
		{
			Name:  "foreign-transactions",
			Means: "other producers write commands in transactions, half of which are aborted",
		},
		{Name: "wrong-partition", Means: "one in five commands and receipts stands on a wrong partition"},
		{
			Name: "hostile-records",
			Means: "commands and receipts that are none: no key, no text, garbage, forged headers, rules without " +
				"an end",
		},
		{Name: "giant-records", Means: "commands and receipts of up to 900 kB, or with 10,000 headers"},
	}
}

// FaultNames returns the names of Faults.
func FaultNames() (names []string) {
	for _, f := range Faults {
		names = append(names, f.Name)
	}
	return names
}

// strike causes one of the plan's faults. It starts a node that is down.
func (l *life) strike() {
	var possible []Fault
	for _, f := range Faults {
		if l.plan.has(f.Name) && (f.node != nil || f.strike != nil) {
			possible = append(possible, f)
		}
	}
	name, pause := l.names[l.rng.IntN(len(l.names))], time.Duration(1+l.rng.IntN(14))*time.Second
	n := l.Node(name)
	if n == nil {
		l.Note("%s starts", name)
		l.Start(name)
		return
	}
	if len(possible) == 0 {
		return
	}
	f := possible[l.rng.IntN(len(possible))]
	l.struck(f.Name)
	if f.node == nil {
		l.Note("%s", f.Name)
		f.strike(l)
		return
	}
	l.Note("%s: %s for %v", name, f.Name, pause)
	f.node(l, n, pause)
}

// struck counts a fault.
func (l *life) struck(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out.Struck[name]++
}

func (l *life) kill(n *Node, _ time.Duration)      { l.Kill(n.Name) }
func (l *life) powerLoss(n *Node, _ time.Duration) { l.PowerLoss(n.Name) }
func (l *life) restart(n *Node, _ time.Duration)   { _ = l.Stop(n.Name) }
func (l *life) cutOff(n *Node, _ time.Duration)    { n.Cut() }

func (l *life) freeze(n *Node, pause time.Duration) {
	n.Freeze()
	time.AfterFunc(pause, n.Thaw)
}

func (l *life) hang(n *Node, pause time.Duration) {
	n.Hang()
	time.AfterFunc(pause, n.Heal)
}

func (l *life) mute(n *Node, pause time.Duration) {
	n.Mute()
	time.AfterFunc(pause, n.Heal)
}

func (l *life) unreachable(n *Node, pause time.Duration) {
	n.Refuse()
	time.AfterFunc(pause, n.Heal)
}

// storm lets random numbers decide on a node's answers.
func (l *life) storm(n *Node, pause time.Duration, w func(dice *rand.Rand, key kmsg.Key) (time.Duration, bool)) {
	dice := rand.New(rand.NewPCG(l.rng.Uint64(), 24))
	var mu sync.Mutex
	n.Storm(func(key kmsg.Key) (time.Duration, bool) {
		mu.Lock()
		defer mu.Unlock()
		return w(dice, key)
	})
	time.AfterFunc(pause, n.Heal)
}

func (l *life) lateAnswers(n *Node, pause time.Duration) {
	l.storm(n, pause, func(dice *rand.Rand, _ kmsg.Key) (time.Duration, bool) {
		return time.Duration(dice.IntN(3000)) * time.Millisecond, false
	})
}

func (l *life) laggingFetches(n *Node, pause time.Duration) {
	l.storm(n, pause, func(dice *rand.Rand, key kmsg.Key) (time.Duration, bool) {
		if key != kmsg.Fetch {
			return 0, false
		}
		return time.Duration(dice.IntN(8000)) * time.Millisecond, false
	})
}

func (l *life) lostAnswers(n *Node, pause time.Duration) {
	l.storm(n, pause, func(dice *rand.Rand, _ kmsg.Key) (time.Duration, bool) { return 0, dice.IntN(10) == 0 })
}

func (l *life) doubledRequests(n *Node, pause time.Duration) {
	l.storm(n, pause, func(dice *rand.Rand, key kmsg.Key) (time.Duration, bool) {
		switch key {
		case kmsg.Produce, kmsg.EndTxn, kmsg.AddPartitionsToTxn, kmsg.InitProducerID, kmsg.OffsetCommit:
			return 0, dice.IntN(2) == 0
		}
		return 0, false
	})
}

func (l *life) brokerErrors() {
	l.errors = append(l.errors, l.Cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{faulty[l.rng.IntN(len(faulty))]},
		Err:  retriable[l.rng.IntN(len(retriable))], Count: 1 + l.rng.IntN(3),
	}))
}

func (l *life) coordinators() { l.Cluster.RehashCoordinators() }

func (l *life) leaders() {
	for _, topic := range []string{l.Names.Commands(), l.Names.State(), l.Names.Events(), l.Names.Due("default")} {
		if l.rng.IntN(2) == 0 {
			l.MoveLeader(topic, l.rng.Int32N(l.P))
		}
	}
}

func (l *life) fullDisk(n *Node, pause time.Duration) {
	l.Fill(n.Name, true)
	time.AfterFunc(pause, func() { l.Fill(n.Name, false) })
}

// down ends a node and returns its disk as it is now.
func (l *life) down(n *Node) *vfs.MemFS {
	l.Kill(n.Name)
	return l.Disk(n.Name)
}

func (l *life) lostDisk(n *Node, _ time.Duration) {
	l.down(n)
	l.SetDisk(n.Name, nil)
	l.Start(n.Name)
}

func (l *life) staleDisk(n *Node, _ time.Duration) {
	now := l.down(n)
	if was := l.copies[n.Name]; was != nil {
		l.SetDisk(n.Name, was)
	}
	l.copies[n.Name] = now.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: l.rng})
	l.Start(n.Name)
}

func (l *life) swappedDisk(n *Node, _ time.Duration) {
	fs := l.down(n)
	if l.rng.IntN(2) == 0 && l.P > 1 {
		if err := swapPartitions(fs, "store/0", "store/1"); err != nil {
			l.T.Errorf("swap partitions of %s: %v", n.Name, err)
		}
	} else {
		other := l.names[l.rng.IntN(len(l.names))]
		if l.Node(other) != nil {
			l.Kill(other)
		}
		theirs := l.Disk(other)
		l.SetDisk(other, fs)
		l.SetDisk(n.Name, theirs)
	}
	l.Start(n.Name)
}

// swapPartitions swaps the directories of two partitions on a disk.
func swapPartitions(fs vfs.FS, a, b string) error {
	for _, dir := range []string{a, b} {
		if _, err := fs.Stat(dir); os.IsNotExist(err) {
			return nil
		}
	}
	const aside = "aside"
	for _, move := range [][2]string{{a, aside}, {b, a}, {aside, b}} {
		if err := fs.Rename(move[0], move[1]); err != nil {
			return err
		}
	}
	return nil
}

func (l *life) clockStep(n *Node, _ time.Duration) {
	by := time.Duration(l.rng.IntN(40_000)-20_000) * time.Millisecond
	if l.rng.IntN(4) == 0 {
		by = []time.Duration{time.Hour, -time.Hour}[l.rng.IntN(2)]
	}
	l.Note("%s: its clock is off by %v", n.Name, by)
	l.skews[n.Name].set(by, 0)
}

func (l *life) clockDrift(n *Node, _ time.Duration) {
	l.skews[n.Name].set(0, float64(l.rng.IntN(1000)-500)/10_000)
}

func (l *life) secondGroup() {
	if len(l.strange) == 0 {
		l.strange = append(l.strange, l.Start(stranger))
	}
}

func isForeign(err error) bool {
	return errors.Is(err, pipeline.ErrForeignGroup) && strings.Contains(err.Error(), `"waterclock.engine"`)
}
