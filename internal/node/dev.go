package node

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/broker"
	"github.com/waterclock/waterclock/internal/heap"
	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/embedded"
)

// DevHooks are called during Dev. Each may be nil.
type DevHooks struct {
	// Restoring reports how many records of topic state have been read, and of how many. It
	// is called only if a store is rebuilt.
	Restoring func(done, total int64)
	// Ready is called once all partitions fire, with the addresses of the API and of Kafka.
	Ready func(url, brokers string)
	// Beside runs as one more role after Ready.
	Beside func(context.Context) error
}

// Dev runs every role with an embedded broker, until ctx ends or one of them fails. It sets
// the brokers of the settings to that broker.
func Dev(ctx context.Context, o Options, hooks DevHooks) (err error) {
	c := o.Config
	if c.Kafka.TLS.Enabled {
		return &SettingError{"kafka.tls.enabled: the broker inside dev has no TLS; " +
			"unset it, or run serve with your own brokers"}
	}
	dir, err := openDataDir(c.DataDir)
	if err != nil {
		return err
	}
	defer dir.close()
	ln, err := listen(c, "listen", c.Listen)
	if err != nil {
		return err
	}
	defer ln.Close()
	// So that a port in use gives a clearer error than the broker's.
	probe, err := listen(c, "kafka.listen", c.Kafka.Listen)
	if err != nil {
		return err
	}
	probe.Close()
	runProviders(c)                 // before the roles are counted and logged
	history := openHistoryBeside(o) // in parallel: after a kill -9 it takes a second, like the broker
	var n *node
	closing := func(name string, f func()) func() {
		return func() {
			if n == nil {
				f()
				return
			}
			n.closing(name, f)()
		}
	}
	defer func() {
		if n != nil {
			err = n.ended(err)
		}
	}()
	defer closing("history", history.close)()
	b, err := startBroker(ctx, o)
	if err != nil {
		return err
	}
	defer closing("broker", func() { b.Close() })()
	c.Brokers = []string{b.Addr()}
	if n, err = newNode(o, kgo.Dialer(b.Dial)); err != nil {
		return err
	}
	heap.Manage(heap.LeastGrowthOfDev)
	n.fullBroker = b.NoRoom
	defer n.closing("tracing", n.closeTracing)()
	if err := n.prepare(ctx); err != nil {
		return err
	}
	if n.history, err = history.get(); err != nil {
		return fmt.Errorf("open history: %w", err)
	}
	if err := n.openDevPreferences(); err != nil {
		return err
	}
	defer n.closing("preferences", n.closePreferences)()
	return n.runDev(ctx, ln, b, hooks)
}

// runDev starts every role and waits.
func (n *node) runDev(ctx context.Context, ln net.Listener, b *broker.Broker, hooks DevHooks) (err error) {
	if err := n.openInternal(); err != nil {
		return err
	}
	defer n.internal.Close()
	if err := n.openEngine(); err != nil {
		return err
	}
	if err := n.devLinks(urlOf(n.cfg, ln.Addr().String())); err != nil {
		return err
	}
	var opened closers
	defer opened.close()
	if err := n.openDoors(&opened, true); err != nil {
		return err
	}
	life := newRoles(n.cfg.Stop.Timeout, n.log)
	defer func() { err = n.finish(life, err) }() // runs before everything that the roles use is closed
	life.start("broker", func(ctx context.Context) error { return brokerFailed(ctx, b) })
	life.start("trim", func(ctx context.Context) error { return n.trim(ctx, b) })
	if err := n.startRoles(life, true); err != nil {
		return err
	}
	n.startControl(life, b)
	n.startReloads(life, false)
	life.start("http", func(ctx context.Context) error { return n.gateway.Serve(ctx, ln) })
	if err := n.awaitReady(ctx, life, hooks.Restoring); err != nil {
		return err
	}
	if hooks.Ready != nil {
		hooks.Ready(urlOf(n.cfg, ln.Addr().String()), b.Addr())
	}
	if hooks.Beside != nil {
		life.start("demo", hooks.Beside)
	}
	return life.wait(ctx)
}

// startWithin bounds how long the embedded broker may repair and compact.
const startWithin = 10 * time.Minute

func startBroker(ctx context.Context, o Options) (*broker.Broker, error) {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	c := o.Config
	dir := filepath.Join(c.DataDir, brokerDir)
	return broker.Start(ctx, broker.Options{
		Dir: dir, Listen: c.Kafka.Listen, Sync: true, AwaitRoom: true,
		Logger: o.Logger,
	})
}

// brokerFailed ends dev if a disk failure stops the embedded broker. Acknowledged records are
// safe; later writes would not be.
func brokerFailed(ctx context.Context, b *broker.Broker) error {
	select {
	case <-b.Fatal():
		return fmt.Errorf("the embedded broker stopped: %w", b.Err())
	case <-ctx.Done():
		return nil
	}
}

// opening is the embedded history while it opens.
type opening struct {
	done  chan struct{}
	store *embedded.Store
	err   error
}

func openHistoryBeside(o Options) *opening {
	h := &opening{done: make(chan struct{})}
	go func() {
		defer close(h.done)
		options := EmbeddedOptions(o.Config, filepath.Join(o.Config.DataDir, historyDir))
		options.Logger = o.Logger
		options.MemTableBytes = tableShare(o.Config)
		options.CacheBytes = int64(options.MemTableBytes)
		h.store, h.err = embedded.Open(options)
	}()
	return h
}

func (o *opening) get() (sinks.History, error) {
	<-o.done
	if o.err != nil {
		return nil, o.err
	}
	return o.store, nil
}

func (o *opening) close() {
	if h, err := o.get(); err == nil {
		_ = h.Close()
	}
}

// keepCommands is how many applied commands of a partition the embedded broker keeps, for
// people to read. Older ones are dropped every trimEvery.
const (
	keepCommands = 100_000
	trimEvery    = time.Minute
)

// trim drops commands that no owner will need. The embedded broker does not compact while
// it runs, and must not fill a laptop's disk.
func (n *node) trim(ctx context.Context, b *broker.Broker) error {
	tick := time.NewTicker(trimEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, s := range n.engine.Partitions() {
			if below := s.TrimBelow - keepCommands; s.Ready && below > 0 {
				if err := b.Trim(n.names.Commands(), s.Partition, below); err != nil {
					n.log.Warn("trimming commands failed", "partition", s.Partition, "error", err)
				}
			}
		}
	}
}
