package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/engine"
	"github.com/waterclock/waterclock/gateway"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/heap"
	"github.com/waterclock/waterclock/internal/kafkaconn"
	"github.com/waterclock/waterclock/internal/metrics"
	"github.com/waterclock/waterclock/internal/tracing"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// node is the roles of one process. run starts them, and ends them in the
// opposite order.
type node struct {
	cfg     *config.Config
	log     *slog.Logger
	dev     bool
	kafka   []kgo.Opt // of clients from outside
	clients []kgo.Opt // of this process's own: kafka, and the way to a broker in it
	names   topics.Names
	metrics *metrics.Metrics
	engine  *engine.Engine
	history sinks.History // nil without the role, unless an API reads it

	acceptGaps      []pipeline.Gap
	takeOver        string // a group whose topics this one takes
	internal        net.Listener
	internalAddress string // where other instances ask ours
	peerSecret      []byte
	timetable       *trigger.Timetable
	gateway         *gateway.Server
	tracing         *tracing.Tracer // nil: off
}

// newNode makes a process of its settings; inner is how its own clients reach a
// broker that is in it.
func newNode(c *config.Config, log *slog.Logger, dev bool, inner ...kgo.Opt) (*node, error) {
	n := &node{cfg: c, log: log, dev: dev, names: topics.Names{Prefix: c.Topics.Prefix}, metrics: metrics.New()}
	if c.Memory.Limit > 0 {
		debug.SetMemoryLimit(int64(c.Memory.Limit))
	}
	heap.Manage()
	n.timetable = &trigger.Timetable{Zones: calendar.Embedded(), MinPeriod: func(tenant string) time.Duration { return c.Tenant(tenant).MinPeriod }}
	var err error
	if n.kafka, err = kafkaconn.Options(c, "waterclock", quiet(log)); err != nil {
		return nil, err
	}
	n.clients = append(slices.Clone(n.kafka), inner...)
	return n, n.openTracing()
}

// quiet is a logger for the Kafka client, which tells of every transaction at
// level info: its info is our debug.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(quietHandler{log.Handler()}) }

type quietHandler struct{ slog.Handler }

func (h quietHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return (l >= slog.LevelWarn || h.Handler.Enabled(ctx, slog.LevelDebug)) && h.Handler.Enabled(ctx, l)
}

// prepare makes the data directory and the topics.
func (n *node) prepare(ctx context.Context) error {
	cl, err := kafkaconn.Connect(ctx, n.cfg, connectWithin, n.clients...)
	if err != nil {
		return err
	}
	defer cl.Close()
	want := kafkaconn.Wanted(n.cfg)
	existing, err := kafkaconn.Existing(ctx, cl, want)
	if err != nil {
		return err
	}
	plan := topics.Plan(want, existing)
	if err := topics.Check(plan, n.cfg.Topics.Manage); err != nil {
		return &failure{Exit: exitConflict, Msg: "the topics do not fit", Err: err}
	}
	if err := kafkaconn.Apply(ctx, cl, want, plan); err != nil {
		return err
	}
	details, err := kadm.NewClient(cl).ListTopics(ctx, n.names.State())
	if err != nil {
		return fmt.Errorf("metadata of %s: %w", n.names.State(), err)
	}
	n.peerSecret = n.secretFor(details[n.names.State()].ID)
	return nil
}

// engineOptions are the settings as the pipeline wants them.
func (n *node) engineOptions() pipeline.Options {
	c := n.cfg
	o := pipeline.Options{
		Kafka: n.clients, Names: n.names, Partitions: int32(c.Topics.Partitions), Group: c.Group, InstanceID: n.instanceID(),
		Cluster: c.Group, Address: n.internalAddress, Dir: filepath.Join(c.DataDir, "store"),
		Cache:  statestore.NewCache(int64(c.Store.Cache)),
		Limits: topics.Limits{Payload: int(c.Limits.Payload)}, BatchBytes: int(c.Limits.BatchBytes),
		MaxPending: maxPending(c),
		Machine: trigger.Machine{Horizon: c.Dedup.Horizon, MisfireAfter: c.MisfireAfter, MaxCatchUp: c.CatchUp.Max,
			Timetable: n.timetable},
		Channels: channelSettings{c, new(sync.Map)}, ManageTopics: c.Topics.Manage, Replication: replicationFactor(c),
		Quota: quotaOf(c), EventsPayload: c.Events.Payload, MinInterval: c.Turn.MinInterval, BarrierMaxHold: c.Barrier.MaxHold, MaxClockOffset: c.Clock.MaxOffset,
		CatchUpRate: catchUpRate(c), Standby: c.Standby, ServerAssigns: c.Protocol == "consumer", HangAfter: c.HangAfter,
		MaxDone: int64(c.Dedup.MaxPerPartition), AcceptGaps: n.acceptGaps, TakeOverGroup: n.takeOver, Logger: n.log, Listener: n.metrics, Tracing: n.tracing,
	}
	o.Machine.Channel = func(name string) trigger.Channel { return o.Channels.Settings(name).Channel }
	return o
}

// catchUpRate is as the engine wants it: 0 would be its default.
func catchUpRate(c *config.Config) float64 {
	if c.CatchUp.Rate == 0 {
		return -1
	}
	return c.CatchUp.Rate
}

// maxPending is as the engine wants it: 0 would be its default.
func maxPending(c *config.Config) int64 {
	if c.Limits.MaxPending == 0 {
		return -1
	}
	return int64(c.Limits.MaxPending)
}

// quotaOf is nil where no tenant has a bound, which saves counting.
func quotaOf(c *config.Config) func(string) pipeline.Quota {
	if len(c.Tenants) == 0 {
		return nil
	}
	return func(name string) pipeline.Quota {
		t, ok := c.Tenants[name]
		if !ok {
			return pipeline.Quota{}
		}
		return pipeline.Quota{Rate: t.Rate, MaxPending: int64(t.MaxPending)}
	}
}

func replicationFactor(c *config.Config) int16 {
	if c.Topics.Replication == 0 {
		return -1
	}
	return int16(c.Topics.Replication)
}

// channelSettings answers the engine from the settings. Asked for every fire,
// so what it has worked out it keeps: channels are at most a few hundred.
type channelSettings struct {
	c     *config.Config
	known *sync.Map // name → pipeline.ChannelSettings
}

func (s channelSettings) Known(name string) bool {
	_, ok := s.c.Channels[name]
	return ok || name == "default"
}

func (s channelSettings) Configured() []string {
	return slices.AppendSeq([]string{"default"}, maps.Keys(s.c.Channels))
}

func (s channelSettings) AutoCreate() bool { return s.c.AutoCreate }

func (s channelSettings) Settings(name string) pipeline.ChannelSettings {
	if v, ok := s.known.Load(name); ok {
		return v.(pipeline.ChannelSettings)
	}
	ch := s.c.Channel(name)
	settings := pipeline.ChannelSettings{
		Channel: trigger.Channel{Topic: ch.Topic, Receipts: ch.Receipts, ReceiptTimeout: ch.ReceiptTimeout, Retry: ch.Retry, JitterLow: ch.JitterLow},
		ByKey:   ch.Partitioning == "by_key", HighLane: ch.HighLane,
	}
	s.known.Store(name, settings)
	return settings
}

// instanceID is what makes a member static: the same data directory is the
// same member, and a quick restart moves no partitions. It is made once.
func (n *node) instanceID() string {
	file := filepath.Join(n.cfg.DataDir, "instance-id")
	if b, err := os.ReadFile(file); err == nil && len(b) > 0 {
		return string(b)
	}
	host, _ := os.Hostname()
	id := fmt.Sprintf("%s-%s", host, newID())
	if err := os.WriteFile(file, []byte(id), 0o600); err != nil {
		n.log.Warn("no static membership: the instance id cannot be kept", "error", err)
		return ""
	}
	return id
}

// runHistory projects events until ctx ends.
func (n *node) runHistory(ctx context.Context) error {
	p, err := sinks.NewProjector(n.history, sinks.Options{
		Kafka: n.clients, Topic: n.names.Events(), Group: n.cfg.Group + "-history", Logger: n.log.With("role", "history"),
		Hooks: n.metrics.History(),
	})
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// adminHandler is what every process answers, whatever its roles.
func (n *node) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := n.readiness(); err != nil {
			http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(n.metrics.Registry, promhttp.HandlerOpts{}))
	return mux
}

// ready says that every partition we own is restored and firing.
func (n *node) ready() bool { return n.engine == nil || n.engine.Ready() }

// serveHTTP answers on ln until ctx ends.
func serveHTTP(ctx context.Context, ln net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute}
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if s.Shutdown(grace) != nil {
			s.Close()
		}
	})
	defer stop()
	if err := s.Serve(ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// listen opens a listener, and says what to do when the port is taken.
func listen(setting, address string) (net.Listener, error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, failf("cannot listen on %s: %v. Stop what listens there, or choose another address with --%s", address, err, config.FlagName(setting))
	}
	return ln, nil
}

// mayListen refuses an API in the clear beyond loopback before anything else
// starts.
func mayListen(c *config.Config, at net.Addr) error {
	if !c.HasRole("api") {
		return nil
	}
	if err := gateway.InTheClear(at, c.HTTP.Cert != "" || c.HTTP.TLSElsewhere); err != nil {
		return usagef("%v", err)
	}
	return nil
}

// lifeOf runs roles until ctx ends or one of them fails; then all end, the
// last started first.
type lifeOf struct {
	errs  chan error
	roles []role
}

type role struct {
	name string
	stop context.CancelFunc
	done chan struct{}
}

func newLife() *lifeOf { return &lifeOf{errs: make(chan error, 16)} }

// start runs a role with a context of its own, so that the order of ending is
// ours to choose.
func (l *lifeOf) start(name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	r := role{name, cancel, make(chan struct{})}
	l.roles = append(l.roles, r)
	go func() {
		defer close(r.done)
		if err := run(ctx); err != nil && ctx.Err() == nil {
			l.errs <- fmt.Errorf("%s: %w", name, err)
		}
	}()
}

// wait returns when ctx ends or a role fails.
func (l *lifeOf) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-l.errs:
		return err
	}
}

// end stops the roles, the last started first.
func (l *lifeOf) end() {
	for _, r := range slices.Backward(l.roles) {
		r.stop()
		<-r.done
	}
}
