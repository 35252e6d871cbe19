package pipelinetest

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/engine"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/trigger"
)

// Node is one process: an engine, and in a simulated world a network and a disk
// of its own.
type Node struct {
	*engine.Engine
	Name string

	w      *World
	gate   *gate // nil in real time, as is the disk
	disk   *disk
	cancel context.CancelFunc
	done   chan struct{}
	err    error

	mu     sync.Mutex
	frozen chan struct{} // nil: runs
}

// Start runs a node on the disk it left, or an empty one.
func (w *World) Start(name string, change ...func(*pipeline.Options)) *Node {
	w.T.Helper()
	n := &Node{Name: name, w: w, done: make(chan struct{})}
	if w.opts.Simulated {
		n.gate = newGate(w.network, &w.cut)
		n.disk = &disk{FS: w.Disk(name), lock: &w.copying, die: func() { w.end(n, 100, "its disk is full") }}
		n.disk.full.Store(w.isFull(name))
	}
	o := w.engineOptions(n)
	if w.opts.Change != nil {
		w.opts.Change(name, o)
	}
	for _, c := range change {
		c(o)
	}
	var err error
	if n.Engine, err = engine.New(*o); err != nil {
		w.T.Fatalf("engine %s: %v", name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	w.mu.Lock()
	w.nodes[name], w.newest = n, *o
	w.mu.Unlock()
	w.ending.Go(func() {
		defer close(n.done)
		n.err = n.Run(ctx)
	})
	return n
}

func (w *World) engineOptions(n *Node) *pipeline.Options {
	o := &pipeline.Options{
		Kafka: w.reach(n.gate), Names: w.Names, Partitions: w.P, Group: w.Names.Prefix + "engine",
		Channels:     Channels{Names: w.Names},
		ManageTopics: true, Replication: 1, BarrierMaxHold: BarrierMaxHold, Listener: listener{node: n},
	}
	o.Machine.Timetable = &trigger.Timetable{Zones: calendar.Embedded()}
	// as Change leaves them
	o.Machine.Channel = func(name string) trigger.Channel { return o.Channels.Settings(name).Channel }
	if w.opts.Simulated {
		o.Dir, o.StoreFS, o.InstanceID = "store", n.disk, n.Name
		o.DisableWAL = w.starts.Add(1)%2 == 0 // a store opens after a process with the other setting too
		// kgo's decoder of zstd makes a channel at its first use, in the bubble then, and a
		// finalizer closes it from outside, which ends the process.
		o.Uncompressed = true
		o.FetchMaxWait, o.GroupHeartbeat = time.Minute, time.Second // a day of idle waiting costs less
		return o
	}
	o.Dir = filepath.Join(w.dir, n.Name)
	if !w.opts.Quiet {
		o.Logger = Logger(w.T).With("node", n.Name)
	}
	return o
}

// BarrierMaxHold is how long engines of a world wait for a foreign transaction.
const BarrierMaxHold = 10 * time.Second

// Newest is how the newest engine was configured.
func (w *World) Newest() pipeline.Options {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.newest
}

// CopyDisk is a node's disk as a crash leaves it.
func (w *World) CopyDisk(name string, how vfs.CrashCloneCfg) *vfs.MemFS {
	fs := w.Disk(name)
	w.copying.Lock()
	defer w.copying.Unlock()
	return fs.CrashClone(how)
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
	if n.gate != nil {
		n.Thaw()
	}
	n.cancel()
	return n.Wait()
}

// Done is closed when the engine has ended.
func (n *Node) Done() <-chan struct{} { return n.done }

// Wait waits until the engine has ended and returns its error.
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
		w.cutOff(n, unsynced)
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
		w.Note("%s dies: %s", n.Name, why)
		w.cutOff(n, unsynced)
	}
}

// cutOff takes network and disk from a process that goes on without being heard.
func (w *World) cutOff(n *Node, unsynced int) {
	n.wire().sever()
	rng := rand.New(rand.NewPCG(w.opts.Seed, uint64(unsynced)))
	left := w.CopyDisk(n.Name, vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rng})
	if unsynced < 100 {
		whole := w.CopyDisk(n.Name, vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
		err := errors.Join(
			tear(left, w.CopyDisk(n.Name, vfs.CrashCloneCfg{}), "/", rng), fillHoles(left, whole, "/", rng))
		if err != nil {
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

// wire is the node's way to the network, which faults strike.
func (n *Node) wire() *gate {
	if n.gate == nil {
		panic("pipelinetest: only nodes of a simulated world can be hurt")
	}
	return n.gate
}

// Freeze is SIGSTOP: no step is taken and nothing arrives until Thaw.
func (n *Node) Freeze() {
	n.wire().hang()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.frozen == nil {
		n.frozen = make(chan struct{})
	}
}

// Thaw is SIGCONT.
func (n *Node) Thaw() {
	n.wire().heal()
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
func (n *Node) Hang() { n.wire().hang() }

// Mute keeps the node's heartbeats from the group; all else goes on, so that the
// node has lost its partitions and does not know. Heal ends it.
func (n *Node) Mute() { n.wire().mute() }

// Delay makes answers to one kind of request reach the node late, as the broker
// gave them in time; 0 ends it.
func (n *Node) Delay(key kmsg.Key, by time.Duration) { n.wire().delay(key, by) }

// Storm lets weather decide over the answers to the node, until Heal.
func (n *Node) Storm(w Weather) { n.wire().weather(w) }

// Refuse breaks every connection of the node and lets none be made, as if no
// broker listened, until Heal.
func (n *Node) Refuse() { n.wire().refuse() }

// Heal ends Hang, Mute, Refuse and Storm.
func (n *Node) Heal() { n.wire().heal() }

// Cut breaks every connection of the node once.
func (n *Node) Cut() { n.wire().breakAll() }

// listener brings steps to the world, stops where the node is frozen, and
// counts what is said.
type listener struct {
	pipeline.NoListener
	node *Node
}

func (l listener) Step(partition int32, step pipeline.Step) {
	l.node.w.step(l.node.Name, partition, string(step))
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

// Logger logs to a test.
func Logger(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(logWriter{t}, nil)) }

type logWriter struct{ t testing.TB }

func (l logWriter) Write(p []byte) (int, error) {
	l.t.Log(string(p))
	return len(p), nil
}
