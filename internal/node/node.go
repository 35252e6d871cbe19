// Package node is one process of Waterclock: it opens what the roles of the
// settings need, starts them, and ends them in the opposite order. The command
// line calls it; it prints nothing, and reads no flags.
//
// # Files
//
//	serve.go dev.go     the two ways to run: roles against Kafka, or everything beside a broker of our own
//	engine.go           the engine role, and the engine alone for measurements
//	gateway.go owner.go the api role, and how it reads from the engine of this process
//	history.go          the history role, and reading the history
//	webhook.go          the webhook role
//	memory.go           what each part of this process may take, and shedding load before that is met
//	http.go             listeners, probes, metrics, requests of other instances
//	settings.go         settings as package pipeline wants them
//	life.go             starting roles and ending them
//	reload.go           keys, certificates and secrets that change while we run
//	datadir.go          the data directory, and the identity that it keeps
//	backup.go           a copy of it, while dev runs or not
//	failpoints.go       faults for tests, only with -tags failpoints
//
// # Promises
//
//   - Two processes never share a data directory: it is locked first.
//   - Nothing listens beyond loopback in the clear, and no role starts, before
//     the topics fit the settings.
//   - What a role uses is closed only after the role has ended.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/engine"
	"github.com/waterclock/waterclock/gateway"
	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/egress"
	"github.com/waterclock/waterclock/internal/heap"
	"github.com/waterclock/waterclock/internal/kafkaconn"
	"github.com/waterclock/waterclock/internal/memory"
	"github.com/waterclock/waterclock/internal/metrics"
	"github.com/waterclock/waterclock/internal/tracing"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Options are what a process is made of.
type Options struct {
	Config  *config.Config
	Logger  *slog.Logger
	Version string // of this program, for traces

	AcceptGaps []pipeline.Gap // commands that were lost, and may be
	TakeOver   string         // a group whose topics this process takes; "" takes none
}

// SettingError says that a setting has to be written otherwise. Its message
// names the setting.
type SettingError struct{ Msg string }

func (e *SettingError) Error() string { return e.Msg }

// ErrTopics says that the topics of the cluster do not fit the settings.
var ErrTopics = errors.New("the topics do not fit")

// node is the roles of one process.
type node struct {
	opts    Options
	cfg     *config.Config
	log     *slog.Logger
	kafka   []kgo.Opt // of clients from outside
	clients []kgo.Opt // of this process's own: kafka, and the way to a broker in it
	names   topics.Names
	metrics *metrics.Metrics
	engine  *engine.Engine
	history sinks.History // nil without the role, unless an API reads it

	internal        net.Listener
	internalAddress string // where other instances ask ours
	peers           *peer.Credentials
	peerFallback    []byte     // the secret without a setting
	keys            *auth.Keys // nil: no auth.keys_file
	cert            *certificate
	timetable       *trigger.Timetable
	egress          *egress.Policy // which callback URLs may be called
	gateway         *gateway.Server
	webhooks        *webhooks       // nil without the role
	tracing         *tracing.Tracer // nil: off

	ownBroker bool // it is in this process, on the disk of the stores
	throttle  *kafkaconn.Throttle
	abandoned bool // roles are left that did not end in time

	memory *memory.Watcher
	shares memory.Shares // of this process's memory
}

// newNode makes a process of its settings. inner is how its own clients reach a
// broker that is in it.
func newNode(o Options, inner ...kgo.Opt) (*node, error) {
	c := o.Config
	o.Logger.Info("starting", "version", o.Version, "go", runtime.Version(), "settings", c.Digest(), "roles", c.Roles,
		"data_dir", c.DataDir)
	n := &node{opts: o, cfg: c, log: o.Logger, names: topics.Names{Prefix: c.Topics.Prefix}, metrics: metrics.New()}
	n.metrics.Build(o.Version)
	n.shareMemory()
	heap.Manage()
	n.timetable = &trigger.Timetable{
		Zones:     calendar.Embedded(),
		MinPeriod: func(tenant string) time.Duration { return c.Tenant(tenant).MinPeriod },
	}
	if err := n.openCert(); err != nil {
		return nil, err
	}
	var err error
	if n.egress, err = c.Egress(); err != nil {
		return nil, &SettingError{err.Error()}
	}
	if n.kafka, err = kafkaconn.Options(c, "waterclock", quiet(n.log)); err != nil {
		return nil, err
	}
	n.throttle = kafkaconn.NewThrottle(nil)
	n.kafka = append(n.kafka, kgo.WithHooks(n.throttle))
	n.metrics.WatchThrottle(n.throttle.Total)
	n.clients = append(slices.Clone(n.kafka), inner...)
	return n, n.openTracing()
}

// quiet is a logger for the Kafka client, which logs every transaction at
// level info: its info is our debug.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(quietHandler{log.Handler()}) }

type quietHandler struct{ slog.Handler }

func (h quietHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return (l >= slog.LevelWarn || h.Handler.Enabled(ctx, slog.LevelDebug)) && h.Handler.Enabled(ctx, l)
}

// connectWithin bounds how long a process waits for the first broker.
const connectWithin = 6 * time.Second

// served are the channels whose due topics this process makes, so that its
// workers need not wait for the first trigger.
func (n *node) served() []string {
	if n.cfg.HasRole("webhook") && n.cfg.Topics.Manage {
		return []string{"webhook"}
	}
	return nil
}

// prepare makes the topics, or checks them where topics.manage says so.
func (n *node) prepare(ctx context.Context) error {
	cl, err := kafkaconn.Connect(ctx, n.cfg, connectWithin, n.clients...)
	if err != nil {
		return err
	}
	defer cl.Close()
	want := kafkaconn.Wanted(n.cfg, n.served()...)
	existing, err := kafkaconn.Existing(ctx, cl, want)
	if err != nil {
		return err
	}
	plan, err := kafkaconn.Plan(ctx, cl, want, existing)
	if err != nil {
		return err
	}
	if err := topics.Check(plan, n.cfg.Topics.Manage); err != nil {
		return fmt.Errorf("%w: %w", ErrTopics, err)
	}
	if err := kafkaconn.Apply(ctx, cl, want, plan); err != nil {
		return err
	}
	details, err := kadm.NewClient(cl).ListTopics(ctx, n.names.State())
	if err != nil {
		return fmt.Errorf("metadata of %s: %w", n.names.State(), err)
	}
	return n.openPeers(derivedSecret(details[n.names.State()].ID))
}
