package pipelinetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/topics"
)

// Options of a world.
type Options struct {
	Partitions int32    // 0 means 2
	Prefix     string   // of topics and of the group; "" means waterclock.
	Channels   []string // whose due topics are there from the beginning, with default's
	// Tombstones is how long topic state keeps them. 0: a day.
	Tombstones time.Duration
	// Addresses are of brokers that the test brings. None: the world brings its own.
	Addresses []string
	// Network is a simulated world's; nil: its own.
	Network *kfake.VirtualNetwork
	// Brokers the world brings; 0 means 1. The first leads all partitions, until
	// the test moves one.
	Brokers int32
	// Change is applied to every node's engine options; name is the node's.
	Change func(name string, o *pipeline.Options)
	// Quiet keeps what engines log out of the test's log.
	Quiet bool

	// Simulated: the world lies in a synctest bubble, and so must the test.
	Simulated bool
	Seed      uint64 // of everything random; printed when the test fails
}

// World is one cluster, Waterclock's topics on it, and the nodes that come and
// go.
type World struct {
	T       testing.TB
	Names   topics.Names
	P       int32
	Rand    *rand.Rand     // the test goroutine's
	Cluster *kfake.Cluster // nil: the brokers are the test's

	opts    Options
	brokers []string
	dir     string                // of disks, in real time
	network *kfake.VirtualNetwork // nil: TCP
	direct  *gate                 // the world's own way, beyond all faults
	cut     atomic.Pointer[cutLog]

	unstamped map[string]bool         // topics whose records have their producer's time, by name and by id
	ahead     map[int32]time.Duration // by broker: how far its clock is ahead

	step func(node string, partition int32, step string)
	heed func(*kgo.Record)

	copying sync.Mutex // disk.Lock
	starts  atomic.Int64

	mu     sync.Mutex
	client *kgo.Client
	newest pipeline.Options
	dice   *rand.Rand
	nodes  map[string]*Node
	disks  map[string]*vfs.MemFS
	full   map[string]bool // disks without room
	heard  map[string]int
	story  []string       // what was done to whom
	ending sync.WaitGroup // engines that are going down
}

// New makes a world, which ends with the test.
func New(t testing.TB, o Options) *World {
	t.Helper()
	if o.Partitions == 0 {
		o.Partitions = 2
	}
	if o.Prefix == "" {
		o.Prefix = "waterclock."
	}
	w := &World{
		T: t, Names: topics.Names{Prefix: o.Prefix}, P: o.Partitions, Rand: rand.New(rand.NewPCG(o.Seed, 1)),
		opts: o, brokers: o.Addresses, step: func(string, int32, string) {}, heed: func(*kgo.Record) {},
		dice:  rand.New(rand.NewPCG(o.Seed, 4)),
		nodes: map[string]*Node{}, disks: map[string]*vfs.MemFS{}, full: map[string]bool{}, heard: map[string]int{},
	}
	if o.Simulated {
		if w.network = o.Network; w.network == nil {
			w.network = &kfake.VirtualNetwork{}
		}
		w.direct = newGate(w.network, new(atomic.Pointer[cutLog]))
	} else {
		w.dir = t.TempDir()
	}
	t.Cleanup(w.close)
	if len(w.brokers) == 0 {
		w.listen()
	}
	var err error
	if w.client, err = w.Producer(w.Context()); err != nil {
		t.Fatalf("client: %v", err)
	}
	w.createTopics()
	return w
}

// listen starts the world's own brokers.
func (w *World) listen() {
	w.T.Helper()
	configs := map[string]string{
		"group.min.session.timeout.ms": "1000",
		"log.cleaner.backoff.ms":       "1000000000000", // tests compact when they mean to
	}
	opts := []kfake.Opt{kfake.NumBrokers(int(max(w.opts.Brokers, 1))), kfake.BrokerConfigs(configs)}
	if w.network != nil {
		ports := []int{9092}
		for len(ports) < int(w.opts.Brokers) {
			ports = append(ports, ports[len(ports)-1]+1)
		}
		opts = append(opts, kfake.Ports(ports...), kfake.ListenFn(w.network.Listen))
	}
	var err error
	if w.Cluster, err = kfake.NewCluster(opts...); err != nil {
		w.T.Fatalf("kfake: %v", err)
	}
	w.brokers = w.Cluster.ListenAddrs()
}

func (w *World) createTopics() {
	w.T.Helper()
	adm := kadm.NewClient(w.client)
	all := topics.Catalogue(w.Names, w.P, 1, append([]string{"default"}, w.opts.Channels...))
	for _, topic := range all {
		if w.opts.Tombstones > 0 && topic.Name == w.Names.State() {
			topic.Configs["delete.retention.ms"] = strconv.FormatInt(w.opts.Tombstones.Milliseconds(), 10)
		}
		configs := map[string]*string{}
		for k, v := range topic.Configs {
			configs[k] = &v
		}
		if _, err := adm.CreateTopic(w.Context(), topic.Partitions, 1, configs, topic.Name); err != nil {
			w.T.Fatalf("create %s: %v", topic.Name, err)
		}
		for p := range topic.Partitions {
			if w.opts.Brokers > 1 {
				w.lead(topic.Name, p, 0)
			}
		}
	}
	w.stamped(all)
}

func (w *World) close() {
	for _, n := range w.Nodes() {
		if w.opts.Simulated {
			w.Kill(n.Name)
		} else {
			_ = w.Stop(n.Name)
		}
	}
	w.ending.Wait()
	if w.client != nil {
		w.client.Close()
	}
	if w.Cluster != nil {
		w.Cluster.Close()
	}
	if w.opts.Simulated && w.T.Failed() {
		w.T.Logf("seed %d", w.opts.Seed)
	}
}

// timeout is how long the world waits for anything: longer than any time-out.
func (w *World) timeout() time.Duration {
	if w.opts.Simulated {
		return 10 * time.Minute
	}
	return 2 * time.Minute
}

// Context ends with the world's timeout, and with the test.
func (w *World) Context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), w.timeout())
	w.T.Cleanup(cancel)
	return ctx
}

// Configure sets a topic's setting.
func (w *World) Configure(topic, name, value string) {
	w.T.Helper()
	_, err := kadm.NewClient(w.client).AlterTopicConfigs(w.Context(),
		[]kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic)
	if err != nil {
		w.T.Fatalf("%s of %s: %v", name, topic, err)
	}
}

// MoveLeader makes the next broker lead a partition; of one broker, itself.
func (w *World) MoveLeader(topic string, partition int32) {
	w.T.Helper()
	w.lead(topic, partition, (w.Cluster.LeaderFor(topic, partition)+1)%max(w.opts.Brokers, 1))
}

func (w *World) lead(topic string, partition, broker int32) {
	w.T.Helper()
	if err := w.Cluster.MoveTopicPartition(topic, partition, broker); err != nil {
		w.T.Errorf("move %s/%d: %v", topic, partition, err)
	}
}

// OnStep makes f hear every step of every turn of every node, on the
// partition's own goroutine: f may kill the node, or block like a stopped
// process. Set it before the nodes start.
func (w *World) OnStep(f func(node string, partition int32, step string)) { w.step = f }

// OnSent makes f hear every record of the world's client that Kafka has
// acknowledged. Set it before the first is sent.
func (w *World) OnSent(f func(*kgo.Record)) { w.heed = f }

// Node is a node by name; nil if it does not run.
func (w *World) Node(name string) *Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes[name]
}

// Nodes are the running nodes, by name.
func (w *World) Nodes() []*Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]*Node, 0, len(w.nodes))
	for _, n := range w.nodes {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Owner is the node that owns a partition: of those that say so, the one with
// the highest term. nil: nobody yet.
func (w *World) Owner(partition int32) *Node { return w.owners()[partition] }

// owners are the owners of all partitions; of one that nobody owns yet, nil.
func (w *World) owners() map[int32]*Node {
	owners, terms := map[int32]*Node{}, map[int32]int64{}
	for _, n := range w.Nodes() {
		for _, s := range n.Partitions() {
			if s.Ready && s.Term > terms[s.Partition] {
				owners[s.Partition], terms[s.Partition] = n, s.Term
			}
		}
	}
	return owners
}

// AwaitOwners waits until every partition is owned and fires.
func (w *World) AwaitOwners() {
	w.T.Helper()
	if w.await(func() bool { return len(w.owners()) == int(w.P) }) {
		return
	}
	var all []string
	for _, n := range w.Nodes() {
		all = append(all, fmt.Sprintf("%s: %+v", n.Name, n.Partitions()))
	}
	w.T.Fatalf("some partition has no owner: %v", all)
}

// Eventually waits for something that has no record to wait for.
func (w *World) Eventually(what string, holds func() bool) {
	w.T.Helper()
	if !w.await(holds) {
		w.T.Fatalf("in vain: %s", what)
	}
}

// await waits until something holds, and says whether it does.
func (w *World) await(holds func() bool) bool {
	pause := 5 * time.Millisecond
	if w.opts.Simulated {
		pause = 100 * time.Millisecond
	}
	for deadline := time.Now().Add(w.timeout()); time.Now().Before(deadline); time.Sleep(pause) {
		if holds() {
			return true
		}
	}
	return false
}

// Note adds a line to the story.
func (w *World) Note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.story = append(w.story, time.Now().UTC().Format("2006-01-02 15:04:05.000")+"  "+fmt.Sprintf(format, args...))
}

// Story is what was done to whom, in order.
func (w *World) Story() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.story)
}

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
