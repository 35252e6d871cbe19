package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Broker is one running broker. Its methods may be called from anywhere.
type Broker struct {
	opts  Options
	lock  *os.File // held while we run
	addr  string
	fatal *fatal
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu sync.RWMutex
	*node
	entry atomic.Pointer[doors] // the node's, for Dial: a restart holds mu for long

	waiting atomic.Pointer[error] // why, while it waits for room
}

// node is the broker between two starts of kfake; see Broker.restart.
type node struct {
	opts   Options
	log    *slog.Logger
	data   string // kfake's directory; empty in memory
	fatal  *fatal
	noRoom *first
	listen string
	kept   net.Listener // of the node before, for that address; nil: listen anew

	topics   topics
	tickets  tickets
	txns     *txns
	syncer   *syncer // nil unless Sync, on disk
	listings listings
	floors   *floors
	cleaned  map[floorKey]int64
	conns    conns
	early    buffers
	members  members
	doors    *doors
	freezing atomic.Pointer[freezing] // a copy that is asked for

	life    sync.RWMutex // held for reading while cluster is asked something
	cluster *kfake.Cluster
}

// Start repairs what the last run left in o.Dir, trims and compacts it, and
// serves. ctx bounds the start alone.
func Start(ctx context.Context, o Options) (*Broker, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("broker options: %w", err)
	}
	o = o.withDefaults()
	b := &Broker{opts: o, fatal: &fatal{first: newFirst(), onFail: o.OnFatal, log: o.Logger}}
	if err := b.start(ctx); err != nil {
		if b.lock != nil {
			b.lock.Close()
		}
		return nil, fmt.Errorf("start broker: %w", err)
	}
	return b, nil
}

func (b *Broker) start(ctx context.Context) error {
	if b.opts.Dir != "" {
		if err := b.open(); err != nil {
			return err
		}
	}
	n, err := startNode(ctx, b.opts, b.opts.Listen, before{}, b.fatal)
	if err != nil {
		return err
	}
	b.node, b.addr = n, n.doors.Addr().String()
	b.entry.Store(n.doors)
	stop, cancel := context.WithCancel(context.Background())
	b.stop = cancel
	if b.opts.Dir != "" && (b.opts.RetentionInterval > 0 || b.opts.AwaitRoom) {
		b.wg.Go(func() { b.housekeep(stop) })
	}
	return nil
}

// before is what a node takes over from the one before it.
type before struct {
	listener net.Listener        // for its address; nil: listen anew
	copies   map[floorKey]*ahead // compacted; nil: a start compacts what has grown
}

// startNode starts a node that listens at an address.
func startNode(ctx context.Context, o Options, listen string, from before, f *fatal) (*node, error) {
	n := &node{
		opts:    o,
		log:     o.Logger,
		listen:  listen,
		kept:    from.listener,
		fatal:   f,
		noRoom:  newFirst(),
		tickets: tickets{open: map[int32]*produceCall{}},
		conns:   conns{max: o.MaxConns, set: map[*conn]struct{}{}},
		members: newMembers(),
	}
	n.topics.lookup = n.ask
	n.txns = newTxns(n)
	if err := n.start(ctx, from.copies); err != nil {
		return nil, errors.Join(err, n.release())
	}
	return n, nil
}

func (b *node) start(ctx context.Context, copies map[floorKey]*ahead) error {
	if b.opts.Dir != "" {
		b.data = filepath.Join(b.opts.Dir, dataDir)
		r, err := repair(ctx, b.opts, b.log, copies)
		if err != nil {
			return err
		}
		b.floors, b.cleaned = r.floors, r.cleaned
		b.txns.own(r.pids)
		if err := b.txns.begin(filepath.Join(b.opts.Dir, outcomeFile), nil); err != nil {
			return err
		}
		if b.opts.Sync {
			s, err := newSyncer(b.opts.Dir, r.ends, &b.listings, b.fail)
			if err != nil {
				return fmt.Errorf("begin journal: %w", err)
			}
			b.syncer = s
		}
	}
	return b.serve()
}

// open makes and locks the directory and checks who wrote it.
func (b *Broker) open() error {
	if err := os.MkdirAll(b.opts.Dir, 0o700); err != nil {
		return err
	}
	lock, err := lockDir(b.opts.Dir)
	if err != nil {
		return err
	}
	b.lock = lock
	return checkVersion(b.opts.Dir)
}

func (b *node) serve() error {
	host, port, _ := net.SplitHostPort(b.listen)
	n, err := strconv.Atoi(port)
	if err != nil {
		return fmt.Errorf("listen %q: %w", b.listen, err)
	}
	opts := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.Ports(n),
		kfake.ClusterID("waterclock"),
		kfake.WithLogger(b),
		kfake.BrokerConfigs(b.configs()),
		kfake.ListenFn(func(network, _ string) (net.Listener, error) {
			ln, err := b.kept, error(nil)
			if ln == nil {
				ln, err = b.opts.ListenFn(network, net.JoinHostPort(host, port))
			}
			if err != nil {
				return nil, fmt.Errorf("listen on %s: %w", b.listen, err)
			}
			b.doors = openDoors(ln)
			return listener{b.doors, b}, nil
		}),
	}
	if b.data != "" {
		opts = append(opts, kfake.DataDir(b.data))
	}
	b.life.Lock() // see ready
	defer b.life.Unlock()
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		return err
	}
	b.hook(c)
	b.cluster = c
	return nil
}

// ready returns once the hooks are in place: no request may pass before.
func (b *node) ready() { b.ask(func(*kfake.Cluster) {}) }

// configs are broker settings that keep kfake's hands off the files: its own
// cleaner loses data when the process is killed, so it sleeps.
func (b *node) configs() map[string]string {
	return map[string]string{
		"log.cleaner.backoff.ms":         "9000000000000", // 285 years
		"log.segment.bytes":              strconv.FormatInt(b.opts.SegmentBytes, 10),
		"transactional.id.expiration.ms": "2147483647", // the most kfake can take, 24.8 days
		"default.replication.factor":     "1",
		// A share fetch reads all that lies between the records it gives out: at most this many.
		"group.share.partition.max.record.locks": strconv.Itoa(int(max(b.opts.fetchBytes>>20, 1))),
	}
}

// Addr is where clients connect, host:port.
func (b *Broker) Addr() string { return b.addr }

// Addrs is Addr as a list of seed brokers.
func (b *Broker) Addrs() []string { return []string{b.addr} }

// Fatal is closed when the broker has stopped serving because its disk failed
// it; Err then says why. Nothing acknowledged is lost: the answer that could
// not be kept was not sent.
func (b *Broker) Fatal() <-chan struct{} { return b.fatal.done }

// Err is nil while the broker serves.
func (b *Broker) Err() error { return b.fatal.get() }

// Close stops serving and saves. It returns the error that stopped the broker
// before, if there was one.
func (b *Broker) Close() error {
	b.stop()
	b.wg.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.node.close()
	if b.lock != nil {
		err = errors.Join(err, b.lock.Close())
		b.lock = nil
	}
	return errors.Join(b.fatal.get(), err)
}

// close stops kfake, which saves, and gives up connections and files.
func (b *node) close() error {
	b.life.Lock()
	c := b.cluster
	b.cluster = nil
	b.life.Unlock()
	if c == nil {
		return nil
	}
	c.Close()
	return b.release()
}

func (b *node) release() error {
	b.members.stop()
	b.conns.closeAll()
	err := b.txns.close()
	if b.syncer != nil {
		err = errors.Join(err, b.syncer.emptyJournal())
		b.syncer.close()
	}
	return err
}

// ask runs fn with the cluster. kfake's own methods wait for ever once it is
// closed, so none is called from then on.
func (b *node) ask(fn func(*kfake.Cluster)) {
	b.life.RLock()
	defer b.life.RUnlock()
	if b.cluster != nil {
		fn(b.cluster)
	}
}

func (b *node) partition(topic string, partition int32) target {
	return target{partitionDir(b.data, topic, partition), aPartition}
}

func (b *node) groupsLog() target  { return target{filepath.Join(b.data, "groups.log"), aFile} }
func (b *node) pidsLog() target    { return target{filepath.Join(b.data, "pids.log"), aFile} }
func (b *node) outcomeLog() target { return target{filepath.Join(b.opts.Dir, outcomeFile), aLog} }
