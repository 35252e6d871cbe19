package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/check"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/topics"
)

// Options of a world.
type Options struct {
	Seed       uint64 // of everything random; printed when the test fails
	Partitions int32  // 0 means 2
	// Brokers there are; 0 means 1. The first leads all partitions, until the
	// test moves one.
	Brokers int32
	// Change is applied to every node's engine options; name is the node's.
	Change func(name string, o *pipeline.Options)
	// Epsilon is how far a node's clock may be trusted to be right: a cancel
	// acknowledged less than this before the due time may come too late, and a
	// due event may be this early. 0: clocks are right.
	Epsilon time.Duration
	// MaxLate is how late a due event may be. 0: however late.
	MaxLate time.Duration
	// Tombstones is how long topic state keeps them. 0: a day.
	Tombstones time.Duration
	// Channels are more than default that triggers of the world use.
	Channels []string
	// Previewed is how many occurrences of a series are asked of preview, more
	// than it may have in this world. 0: 10,000.
	Previewed int
	// Verbose logs what the engines say.
	Verbose bool
}

// World is one broker, its topics, and the nodes that come and go.
type World struct {
	T       testing.TB
	Names   topics.Names
	P       int32
	Rand    *rand.Rand // the test goroutine's
	Cluster *kfake.Cluster

	opts    Options
	network *kfake.VirtualNetwork
	direct  *gate // the world's own way, beyond all faults
	client  *kgo.Client
	step    func(node string, partition int32, step string)

	mu     sync.Mutex
	dice   *rand.Rand
	nodes  map[string]*Node
	disks  map[string]*vfs.MemFS
	full   map[string]bool // disks without room
	free   map[string]bool // triggers that the checker alone judges
	story  []string        // what was done to whom
	ending sync.WaitGroup  // engines that are going down
	wishes map[string]*wish
	series map[string]*promise
	heard  map[string]int

	calendars map[string]calendar.DateSet // as topic control has them
	misfires  map[string][]topics.Event   // as topic events had them when first asked

	compacted bool
	cut       atomic.Pointer[cutLog]

	acks         []check.Ack   // commands that Kafka has acknowledged
	misfireAfter time.Duration // of the engines, for the checker; 0: the default
	catchUp      int
	foreigners   int // transactions of other producers
	open         []span
}

// New makes a world. It must be called inside a synctest bubble and ends with
// the test.
func New(t testing.TB, o Options) *World {
	t.Helper()
	if o.Partitions == 0 {
		o.Partitions = 2
	}
	if o.Previewed == 0 {
		o.Previewed = 10_000
	}
	w := &World{T: t, Names: topics.Names{Prefix: "waterclock."}, P: o.Partitions, opts: o, Rand: rand.New(rand.NewPCG(o.Seed, 1)),
		network: &kfake.VirtualNetwork{}, nodes: map[string]*Node{}, disks: map[string]*vfs.MemFS{}, wishes: map[string]*wish{}, series: map[string]*promise{}, calendars: map[string]calendar.DateSet{}, heard: map[string]int{}, full: map[string]bool{}, free: map[string]bool{}, dice: rand.New(rand.NewPCG(o.Seed, 4))}
	ports := []int{9092}
	for len(ports) < int(o.Brokers) {
		ports = append(ports, ports[len(ports)-1]+1)
	}
	var err error
	w.Cluster, err = kfake.NewCluster(kfake.NumBrokers(len(ports)), kfake.Ports(ports...),
		kfake.ListenFn(w.network.Listen),
		kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": "1000000000000"})) // tests compact when they mean to
	if err != nil {
		t.Fatalf("kfake: %v", err)
	}
	t.Cleanup(w.close)
	for _, topic := range topics.Catalogue(w.Names, w.P, 1, append([]string{"default"}, o.Channels...)) {
		if o.Tombstones > 0 && topic.Name == w.Names.State() {
			topic.Configs["delete.retention.ms"] = strconv.FormatInt(o.Tombstones.Milliseconds(), 10)
		}
		if err := w.Cluster.CreateTopic(topic.Name, topic.Partitions, topic.Configs); err != nil {
			t.Fatalf("create %s: %v", topic.Name, err)
		}
		for p := range topic.Partitions {
			if err := w.Cluster.MoveTopicPartition(topic.Name, p, 0); o.Brokers > 1 && err != nil {
				t.Fatalf("move %s/%d: %v", topic.Name, p, err)
			}
		}
	}
	w.direct = newGate(w.network, new(atomic.Pointer[cutLog]))
	cl, err := w.Producer(context.Background())
	if err != nil {
		t.Fatalf("client: %v", err)
	}
	w.client = cl
	return w
}

func (w *World) close() {
	for _, n := range w.Nodes() {
		w.Kill(n.Name)
	}
	w.ending.Wait()
	if w.client != nil {
		w.client.Close()
	}
	w.Cluster.Close()
	if w.T.Failed() {
		w.T.Logf("seed %d", w.opts.Seed)
	}
}

// Client is a client of the world's own, beyond all faults of nodes.
func (w *World) Client(opts ...kgo.Opt) *kgo.Client {
	w.T.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers("127.0.0.1:9092"), kgo.Dialer(w.direct.dial), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0), kgo.DisableClientMetrics(), kgo.MetadataMinAge(10 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		w.T.Fatalf("client: %v", err)
	}
	return cl
}

// Producer is a Client that has its producer id already. kgo holds a mutex while
// it asks for one, and in a bubble no time passes for who waits at a mutex: two
// produces at once would wait for ever for an answer that is to come later.
func (w *World) Producer(ctx context.Context, opts ...kgo.Opt) (*kgo.Client, error) {
	w.T.Helper()
	cl := w.Client(opts...)
	if _, _, err := cl.ProducerID(ctx); err != nil {
		cl.Close()
		return nil, err
	}
	return cl, nil
}

// OnStep makes f hear every step of every turn of every node, on the
// partition's own goroutine: f may kill the node, or block like a stopped
// process. Set it before the nodes start.
func (w *World) OnStep(f func(node string, partition int32, step string)) { w.step = f }

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
	slices.SortFunc(out, func(a, b *Node) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}

// Owner is the node that owns a partition: of those that say so, the one with
// the highest term. nil: nobody yet.
func (w *World) Owner(partition int32) *Node {
	var owner *Node
	var term int64
	for _, n := range w.Nodes() {
		for _, s := range n.Engine.Partitions() {
			if s.Partition == partition && s.Ready && s.Term > term {
				owner, term = n, s.Term
			}
		}
	}
	return owner
}

// AwaitOwners waits until every partition is owned and fires.
func (w *World) AwaitOwners() {
	w.T.Helper()
	for range 3000 {
		owned := int32(0)
		for p := range w.P {
			if w.Owner(p) != nil {
				owned++
			}
		}
		if owned == w.P {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	var all []string
	for _, n := range w.Nodes() {
		all = append(all, fmt.Sprintf("%s: %+v", n.Name, n.Engine.Partitions()))
	}
	w.T.Fatalf("after five minutes some partition has no owner: %v", all)
}

// tell adds a line to the story.
func (w *World) tell(format string, args ...any) {
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

// context bounds one look at the world; it is far longer than any time-out.
func (w *World) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 10*time.Minute)
}
