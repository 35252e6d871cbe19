package main

import (
	"context"
	"fmt"
	"net"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/broker"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/embedded"
)

func newDev(a *app) *cobra.Command {
	var demo bool
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process: Kafka broker, engine, HTTP API, history",
		Long: `Run everything in one process, for development and small installations:
an embedded Kafka broker, the engine, the HTTP API and the history. Data is
kept in ./waterclock-data (--data-dir) and survives kill -9.`,
		Example: "  waterclock dev\n  waterclock dev --demo",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, given := a.flags.Values()["roles"]; given {
				return usagef("dev runs every role in one process: --roles is for waterclock serve")
			}
			c, err := a.config(true)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return a.runDev(ctx, c, demo)
		},
	}
	cmd.Flags().BoolVar(&demo, "demo", false, "schedule a few triggers and show them firing")
	a.flags.BindAllDev(cmd.Flags())
	_ = cmd.Flags().MarkHidden("roles") // it is there to be refused by name
	return cmd
}

// startWithin bounds how long the embedded broker may repair and compact.
const startWithin = 10 * time.Minute

func (a *app) runDev(ctx context.Context, c *config.Config, demo bool) error {
	if c.Kafka.TLS.Enabled {
		return usagef("kafka.tls.enabled: the broker inside dev has no TLS; unset it, or run serve with brokers of yours")
	}
	dir, err := openDataDir(c.DataDir)
	if err != nil {
		return err
	}
	defer dir.close()
	ln, err := listen("listen", c.Listen)
	if err != nil {
		return err
	}
	defer ln.Close()
	if err := mayListen(c, ln.Addr()); err != nil {
		return err
	}
	probe, err := listen("kafka.listen", c.Kafka.Listen) // a better sentence than the broker's
	if err != nil {
		return err
	}
	probe.Close()
	history := a.openHistoryBeside(c) // which takes a second after a kill -9, as the broker does
	defer history.close()
	b, err := a.startBroker(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	c.Brokers = []string{b.Addr()}
	n, err := newNode(c, a.log(c), true, kgo.Dialer(b.Dial))
	if err != nil {
		return err
	}
	defer n.closeTracing()
	if err := n.prepare(ctx); err != nil {
		return err
	}
	if n.history, err = history.get(); err != nil {
		return fmt.Errorf("open history: %w", err)
	}
	return a.runNode(ctx, n, ln, b, demo)
}

// opening is the embedded history while it opens.
type opening struct {
	done  chan struct{}
	store *embedded.Store
	err   error
}

func (a *app) openHistoryBeside(c *config.Config) *opening {
	o := &opening{done: make(chan struct{})}
	go func() {
		defer close(o.done)
		options := embeddedOptions(c, filepath.Join(c.DataDir, "history"))
		options.Logger = a.log(c)
		o.store, o.err = embedded.Open(options)
	}()
	return o
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

func (a *app) startBroker(ctx context.Context, c *config.Config) (*broker.Broker, error) {
	sctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	return broker.Start(sctx, broker.Options{Dir: filepath.Join(c.DataDir, "broker"), Listen: c.Kafka.Listen, Sync: true, Logger: a.log(c)})
}

// runNode starts what dev is made of and waits.
func (a *app) runNode(ctx context.Context, n *node, ln net.Listener, b *broker.Broker, demo bool) error {
	life := newLife()
	if err := n.openInternal(); err != nil {
		return err
	}
	defer n.internal.Close()
	if err := n.openEngine(); err != nil {
		return err
	}
	if err := n.openGateway(); err != nil {
		return err
	}
	defer n.gateway.Close()
	defer life.end() // before what the roles use is closed
	if err := n.startAdmin(life); err != nil {
		return err
	}
	life.start("broker", func(ctx context.Context) error { return brokerFailed(ctx, b) })
	life.start("trim", func(ctx context.Context) error { return n.trim(ctx, b) })
	life.start("history", n.runHistory)
	life.start("engine", n.engine.Run)
	n.startInternal(life)
	life.start("http", func(ctx context.Context) error { return n.gateway.Serve(ctx, ln) })
	restoring := a.progress("", 0)
	if err := n.awaitReadyTelling(ctx, life, func(done, total int64) {
		if total != restoring.total {
			restoring.end()
			restoring = a.progress("restoring", total)
		}
		restoring.done(done)
	}); err != nil {
		return err
	}
	restoring.end()
	a.banner(n, ln.Addr().String(), b.Addr())
	if demo {
		life.start("demo", func(ctx context.Context) error { return a.runDemo(ctx, n) })
	}
	return life.wait(ctx)
}

// brokerFailed ends dev when the embedded broker's disk fails it: what was
// acknowledged is safe, and nothing more is.
func brokerFailed(ctx context.Context, b *broker.Broker) error {
	select {
	case <-b.Fatal():
		return fmt.Errorf("the embedded broker stopped: %w", b.Err())
	case <-ctx.Done():
		return nil
	}
}

// keepCommands is how many applied commands of a partition the embedded broker
// keeps, for people who look; trimEvery is how often the rest goes.
const (
	keepCommands = 100_000
	trimEvery    = time.Minute
)

// trim drops commands that will never be read again: the embedded broker does
// not compact while it runs, and a laptop must not fill.
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

// awaitReady waits until every partition fires.
func (n *node) awaitReady(ctx context.Context, life *lifeOf) error {
	return n.awaitReadyTelling(ctx, life, func(int64, int64) {})
}

// awaitReadyTelling also tells how many records of topic state have been read
// again, of how many: only where a store has to be rebuilt.
func (n *node) awaitReadyTelling(ctx context.Context, life *lifeOf, tell func(done, total int64)) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !n.ready() {
		var done, total int64
		for _, s := range n.engine.Partitions() {
			done, total = done+s.Restored, total+s.RestoreTotal
		}
		tell(done, total)
		select {
		case <-ctx.Done():
			return nil
		case err := <-life.errs:
			return err
		case <-tick.C:
		}
	}
	return nil
}

// banner says what listens where, and lines to paste: as they are, also where
// dev was told to listen elsewhere.
func (a *app) banner(n *node, http, kafka string) {
	at := ""
	if kafka != defaultKafka {
		at = " --brokers " + kafka
	}
	fmt.Fprintf(a.io.out, `Waterclock is running. Data in %s, Ctrl-C to stop.

  Kafka   %s
  HTTP    %s   (/readyz, /metrics, /v1/triggers)

Schedule something, in another terminal:

  waterclock schedule tea --in 5s --data '{"say":"tea is ready"}' --wait%[4]s
  echo '{"say":"tea is ready"}' | kcat -P -b %[2]s -t %[5]s -k tea2 -X topic.partitioner=murmur2_random -H wc-delay=5s

Watch what fires:

  waterclock due tail default%[4]s
`, n.cfg.DataDir, kafka, urlOf(n.cfg, http), at, n.names.Commands())
}

// urlOf is where a browser finds what listens at an address.
func urlOf(c *config.Config, address string) string {
	scheme := "http"
	if c.HTTP.Cert != "" {
		scheme = "https"
	}
	return scheme + "://" + advertised(address)
}

// defaultKafka is where the command line looks for brokers unless told.
const defaultKafka = "127.0.0.1:9092"
