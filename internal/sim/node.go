package sim

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/trigger"
)

// Node is one process: an engine, its network and its disk.
type Node struct {
	Name   string
	Engine *pipeline.Engine

	w      *World
	gate   *gate
	disk   *disk
	cancel context.CancelFunc
	done   chan struct{}
	err    error

	mu     sync.Mutex
	frozen chan struct{} // nil: runs
}

// Start runs a node on the disk it left, or an empty one.
func (w *World) Start(name string) *Node {
	w.T.Helper()
	n := &Node{Name: name, w: w, gate: newGate(w.network, &w.cut), disk: &disk{FS: w.Disk(name)}, done: make(chan struct{})}
	n.disk.die = func() { w.end(n, 100, "its disk is full") }
	n.disk.full.Store(w.isFull(name))
	o := pipeline.Options{
		Kafka: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:9092"), kgo.Dialer(n.gate.dial)},
		Names: w.Names, Partitions: w.P, Group: "engine", InstanceID: name, Dir: "store", StoreFS: n.disk,
		Channels: pipelinetest.Channels{Names: w.Names}, ManageTopics: true, Replication: 1,
		FetchMaxWait: time.Minute, GroupHeartbeat: time.Second, BarrierMaxHold: barrierMaxHold, Listener: listener{node: n},
	}
	o.Machine.Timetable = &trigger.Timetable{Zones: calendar.Embedded()}
	o.Machine.Channel = func(name string) trigger.Channel { return o.Channels.Settings(name).Channel }
	if w.opts.Verbose {
		o.Logger = slog.New(slog.NewTextHandler(logWriter{w}, nil)).With("node", name)
	}
	if w.opts.Change != nil {
		w.opts.Change(name, &o)
	}
	w.misfireAfter, w.catchUp = o.Machine.MisfireAfter, o.Machine.MaxCatchUp
	e, err := pipeline.New(o)
	if err != nil {
		w.T.Fatalf("engine %s: %v", name, err)
	}
	var ctx context.Context
	ctx, n.cancel = context.WithCancel(context.Background())
	n.Engine = e
	w.mu.Lock()
	w.nodes[name] = n
	w.mu.Unlock()
	w.ending.Add(1)
	go func() {
		defer w.ending.Done()
		defer close(n.done)
		n.err = e.Run(ctx)
	}()
	return n
}

// Disk is a node's disk.
func (w *World) Disk(name string) *vfs.MemFS {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.disks[name] == nil {
		w.disks[name] = vfs.NewCrashableMem()
	}
	return w.disks[name]
}

// SetDisk gives a node that does not run another disk; nil is an empty one.
func (w *World) SetDisk(name string, fs *vfs.MemFS) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.disks[name] = fs
}

// Fill makes a node's disk full, or gives it room again. A process that writes
// to a full disk dies.
func (w *World) Fill(name string, full bool) {
	w.mu.Lock()
	w.full[name] = full
	n := w.nodes[name]
	w.mu.Unlock()
	if n != nil {
		n.disk.full.Store(full)
	}
}

func (w *World) isFull(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.full[name]
}

// Stop ends a node cleanly and returns what its engine said.
func (w *World) Stop(name string) error {
	n := w.take(name)
	if n == nil {
		return nil
	}
	n.Thaw()
	n.cancel()
	<-n.done
	return n.err
}

// Wait waits for an engine that gives up by itself and returns its error.
func (n *Node) Wait() error {
	<-n.done
	return n.err
}

// Kill is kill -9: nothing more leaves the node, and its disk stays as the
// operating system has it.
func (w *World) Kill(name string) { w.crash(name, 100) }

// PowerLoss is Kill, and of what was not synced to disk only some is there: any
// of its blocks, and any part of the last.
func (w *World) PowerLoss(name string) {
	w.mu.Lock()
	unsynced := w.dice.IntN(101)
	w.mu.Unlock()
	w.crash(name, unsynced)
}

func (w *World) crash(name string, unsynced int) {
	if n := w.take(name); n != nil {
		w.bury(n, unsynced)
	}
}

// end is crash for a node that ends itself, unless it has ended already.
func (w *World) end(n *Node, unsynced int, why string) {
	w.mu.Lock()
	runs := w.nodes[n.Name] == n
	if runs {
		delete(w.nodes, n.Name)
	}
	w.mu.Unlock()
	if runs {
		w.tell("%s dies: %s", n.Name, why)
		w.bury(n, unsynced)
	}
}

// bury takes network and disk from a process that goes on without being heard.
func (w *World) bury(n *Node, unsynced int) {
	n.gate.sever()
	rng := rand.New(rand.NewPCG(w.opts.Seed, uint64(unsynced)))
	left := w.Disk(n.Name).CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rng})
	if unsynced < 100 {
		if err := tear(left, w.Disk(n.Name).CrashClone(vfs.CrashCloneCfg{}), "/", rng); err != nil {
			w.T.Errorf("power loss of %s: %v", n.Name, err)
		}
	}
	w.SetDisk(n.Name, left)
	n.cancel()
	n.Thaw()
}

func (w *World) take(name string) *Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.nodes[name]
	delete(w.nodes, name)
	return n
}

// Freeze is SIGSTOP: no step is taken and nothing arrives until Thaw.
func (n *Node) Freeze() {
	n.gate.hang()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.frozen == nil {
		n.frozen = make(chan struct{})
	}
}

// Thaw is SIGCONT.
func (n *Node) Thaw() {
	n.gate.heal()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.frozen != nil {
		close(n.frozen)
		n.frozen = nil
	}
}

// Await blocks as long as the node is frozen.
func (n *Node) Await() {
	n.mu.Lock()
	frozen := n.frozen
	n.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

// Hang holds the node's network back; Heal lets it flow again.
func (n *Node) Hang() { n.gate.hang() }

// Mute keeps the node's heartbeats from the group; all else goes on, so that the
// node has lost its partitions and does not know. Heal ends it.
func (n *Node) Mute() { n.gate.mute() }

// Delay makes answers to one kind of request reach the node late, as the broker
// gave them in time; 0 ends it.
func (n *Node) Delay(key kmsg.Key, by time.Duration) { n.gate.delay(key, by) }

// Storm lets weather decide over the answers to the node, until Heal.
func (n *Node) Storm(w Weather) { n.gate.weather(w) }

// Refuse breaks every connection of the node and lets none be made, as if no
// broker listened, until Heal.
func (n *Node) Refuse() { n.gate.refuse() }

// Heal ends Hang, Mute, Refuse and Storm.
func (n *Node) Heal() { n.gate.heal() }

// Cut breaks every connection of the node once.
func (n *Node) Cut() { n.gate.breakAll() }

// listener brings steps to the world, stops where the node is frozen, and
// counts what is said.
type listener struct {
	pipeline.NoListener
	node *Node
}

func (l listener) Step(partition int32, step pipeline.Step) {
	if f := l.node.w.step; f != nil {
		f(l.node.Name, partition, string(step))
	}
	l.node.Await()
}

func (l listener) Forwarded(n int)                  { l.node.w.hear("forwarded", n) }
func (l listener) Aborted(int32, string)            { l.node.w.hear("aborted", 1) }
func (l listener) BarrierHeld(int32, time.Duration) { l.node.w.hear("held", 1) }
func (l listener) DoneEvicted(n int)                { l.node.w.hear("evicted", n) }
func (l listener) Misfired(_ string, n int)         { l.node.w.hear("misfired", n) }
func (l listener) Turn(int32, int, time.Duration)   { l.node.w.hear("turns", 1) }
func (l listener) Restored(_ int32, n int64, _ time.Duration) {
	l.node.w.hear("openings", 1)
	l.node.w.hear("restored", int(n))
}
func (l listener) Fired(string, trigger.Priority, time.Duration) { l.node.w.hear("fired", 1) }

func (w *World) hear(what string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard[what] += n
}

// Heard is how often the engines said something: forwarded, aborted, held,
// evicted, misfired, turns, openings, restored, fired.
func (w *World) Heard(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heard[what]
}

type logWriter struct{ w *World }

func (l logWriter) Write(p []byte) (int, error) {
	l.w.T.Log(time.Now().Format("15:04:05.000 ") + string(p))
	return len(p), nil
}
