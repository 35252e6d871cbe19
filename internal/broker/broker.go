package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Broker is one running broker. Its methods may be called from anywhere.
type Broker struct {
	opts  Options
	log   *slog.Logger
	data  string   // kfake's directory; empty in memory
	lock  *os.File // held while we run
	fatal fatal

	topics  topics
	tickets tickets
	txns    *txns
	syncer  *syncer // nil unless Sync, on disk
	floors  *floors
	conns   conns

	addr string
	ln   net.Listener
	stop context.CancelFunc
	wg   sync.WaitGroup

	life    sync.RWMutex // held for reading while cluster is asked something
	cluster *kfake.Cluster
}

// Start repairs what the last run left in o.Dir, trims and compacts it, and
// serves. ctx bounds the start alone.
func Start(ctx context.Context, o Options) (*Broker, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("broker options: %w", err)
	}
	b := newBroker(o.withDefaults())
	if err := b.start(ctx); err != nil {
		b.release()
		return nil, fmt.Errorf("start broker: %w", err)
	}
	return b, nil
}

func newBroker(o Options) *Broker {
	b := &Broker{
		opts:    o,
		log:     o.Logger,
		tickets: tickets{open: map[int32]*produceCall{}},
		conns:   conns{max: o.MaxConns, set: map[*conn]struct{}{}},
		fatal:   fatal{done: make(chan struct{})},
	}
	b.topics.lookup = b.ask
	b.txns = newTxns(b)
	return b
}

func (b *Broker) start(ctx context.Context) error {
	newest := map[string]int64{}
	if b.opts.Dir != "" {
		if err := b.open(); err != nil {
			return err
		}
		r, err := repair(ctx, b.opts, b.log)
		if err != nil {
			return err
		}
		newest = r.newest
		b.floors = r.floors
		if err := b.txns.begin(filepath.Join(b.opts.Dir, outcomeFile), nil); err != nil {
			return err
		}
	}
	if b.opts.Dir != "" && b.opts.Sync {
		b.syncer = newSyncer(newest, b.fail)
	}
	if err := b.serve(); err != nil {
		return err
	}
	var stop context.Context
	stop, b.stop = context.WithCancel(context.Background())
	if b.opts.Dir != "" && b.opts.RetentionInterval > 0 {
		b.wg.Go(func() { b.retain(stop) })
	}
	return nil
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
	b.data = filepath.Join(b.opts.Dir, dataDir)
	return checkVersion(b.opts.Dir)
}

func (b *Broker) serve() error {
	host, port, _ := net.SplitHostPort(b.opts.Listen)
	n, err := strconv.Atoi(port)
	if err != nil {
		return fmt.Errorf("listen %q: %w", b.opts.Listen, err)
	}
	opts := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.Ports(n),
		kfake.ClusterID("waterclock"),
		kfake.WithLogger(b),
		kfake.BrokerConfigs(b.configs()),
		kfake.ListenFn(func(network, _ string) (net.Listener, error) {
			ln, err := b.opts.ListenFn(network, net.JoinHostPort(host, port))
			if err != nil {
				return nil, fmt.Errorf("listen on %s: %w", b.opts.Listen, err)
			}
			b.addr, b.ln = ln.Addr().String(), ln
			return listener{ln, b}, nil
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
func (b *Broker) ready() { b.ask(func(*kfake.Cluster) {}) }

// configs are broker settings that keep kfake's hands off the files: its own
// cleaner loses data when the process is killed, so it sleeps.
func (b *Broker) configs() map[string]string {
	return map[string]string{
		"log.cleaner.backoff.ms":         "9000000000000", // 285 years
		"log.segment.bytes":              strconv.FormatInt(b.opts.SegmentBytes, 10),
		"transactional.id.expiration.ms": "2147483647", // the most kfake can take, 24.8 days
		"default.replication.factor":     "1",
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
	b.life.Lock()
	c := b.cluster
	b.cluster = nil
	b.life.Unlock()
	if c == nil {
		return b.fatal.get()
	}
	b.stop()
	b.wg.Wait()
	c.Close()
	return b.release()
}

// release gives up connections, files and the lock.
func (b *Broker) release() error {
	b.conns.closeAll()
	err := b.txns.close()
	if b.syncer != nil {
		b.syncer.wait()
		b.syncer.close()
	}
	if b.lock != nil {
		err = errors.Join(err, b.lock.Close())
	}
	return errors.Join(b.fatal.get(), err)
}

// ask runs fn with the cluster. kfake's own methods wait for ever once it is
// closed, so none is called from then on.
func (b *Broker) ask(fn func(*kfake.Cluster)) {
	b.life.RLock()
	defer b.life.RUnlock()
	if b.cluster != nil {
		fn(b.cluster)
	}
}

func (b *Broker) partition(topic string, partition int32) target {
	return target{partitionDir(b.data, topic, partition), aPartition}
}

func (b *Broker) groupsLog() target { return target{filepath.Join(b.data, "groups.log"), aFile} }
func (b *Broker) pidsLog() target   { return target{filepath.Join(b.data, "pids.log"), aFile} }

// fatal is the first error that stopped the broker.
type fatal struct {
	mu   sync.Mutex
	err  error
	done chan struct{}
}

func (f *fatal) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *fatal) set(err error) (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return false
	}
	f.err = err
	close(f.done)
	return true
}

// fail stops serving. It may be called from kfake's loop, so it asks kfake
// nothing; the caller of Start closes.
func (b *Broker) fail(err error) {
	if !b.fatal.set(fmt.Errorf("broker stopped, its disk failed: %w", err)) {
		return
	}
	b.log.Error("broker stopped: its disk failed, restart it when that is repaired", "error", err)
	go func() {
		b.ln.Close()
		b.conns.closeAll()
		if b.opts.OnFatal != nil {
			b.opts.OnFatal(b.fatal.get())
		}
	}()
}

// Logf takes kfake's log. kfake goes on after a failed write as if nothing
// had happened, and says so only here: before it answers.
func (b *Broker) Logf(level kfake.LogLevel, format string, args ...any) {
	if err := writeError(format, args); err != nil {
		b.fail(err)
		return
	}
	if l, ok := levels[level]; ok {
		b.log.Log(context.Background(), l, "kafka: "+fmt.Sprintf(format, args...))
	}
}

// kfake's information is one line a request, so it counts as debugging.
var levels = map[kfake.LogLevel]slog.Level{
	kfake.LogLevelError: slog.LevelError,
	kfake.LogLevelWarn:  slog.LevelWarn,
	kfake.LogLevelInfo:  slog.LevelDebug,
}

// writeError returns the error of a message about a file that could not be
// written: those name an *fs.PathError, or begin like kfake's messages.
func writeError(format string, args []any) error {
	about := strings.HasPrefix(format, "persist ") || strings.HasPrefix(format, "compact ") ||
		strings.HasPrefix(format, "endTx: failed") || strings.HasPrefix(format, "save session")
	for _, a := range args {
		err, ok := a.(error)
		if !ok {
			continue
		}
		var pe *fs.PathError
		if about || errors.As(err, &pe) {
			return fmt.Errorf(strings.ReplaceAll(format, "%v", "%w"), args...)
		}
	}
	if about {
		return fmt.Errorf(format, args...)
	}
	return nil
}
