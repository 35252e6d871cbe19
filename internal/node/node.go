// Package node is one process of Waterclock. It opens what the configured roles need, starts the
// roles, and stops them in the opposite order. The command line calls it. It prints nothing and
// reads no flags.
//
// # Files
//
//	serve.go dev.go     the two ways to run: against Kafka, or with an embedded broker
//	roles.go            starts roles and stops them
//	engine.go           the engine role, and the engine alone for measurements
//	gateway.go owner.go the api role, and how it reads from the engine of this process
//	history.go          the history role, and reading the history
//	preferences.go      users' preferences, sweeping claims, and moving triggers to a new zone
//	webhook.go          the webhook role
//	notify.go           the roles push, sms and email
//	outside.go          links and callbacks that reach this process from outside
//	export.go           the export role
//	memory.go           divides the memory, and refuses requests before it is full
//	http.go             listeners, probes, metrics, requests of other instances
//	reconcile.go        compares timers, states and rows of the history, once an hour
//	settings.go         converts settings for package pipeline
//	reload.go           keys, certificates and secrets that change while the process runs
//	tracing.go          the tracer
//	worker_trace.go     a span for each attempt of our workers
//	datadir.go          the data directory, and the identity that it keeps
//	backup.go           copies the data directory of dev, running or not
//	failpoints.go       faults for tests, only with -tags failpoints
//
// # Promises
//
//   - Two processes never share a data directory: it is locked first.
//   - Nothing listens beyond loopback without TLS, and no role starts, before the topics fit
//     the settings.
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
	"strings"
	"sync/atomic"
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
	"github.com/waterclock/waterclock/internal/kafkaconn"
	"github.com/waterclock/waterclock/internal/memory"
	"github.com/waterclock/waterclock/internal/metrics"
	"github.com/waterclock/waterclock/internal/tracing"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Options configure a process.
type Options struct {
	Config  *config.Config
	Logger  *slog.Logger
	Version string // version of this program, for traces

	AcceptGaps []pipeline.Gap // losses of commands that the operator accepts
	TakeOver   string         // a group whose topics this process takes over; "" takes none

	LastSpansWithin time.Duration // how long the end waits for the collector of traces; 0 means 5 s

	Step func(partition int32, step pipeline.Step) // hears the steps of turns; nil in all but measurements
}

// SettingError says that a setting is wrong. Its message names the setting.
type SettingError struct{ Msg string }

func (e *SettingError) Error() string { return e.Msg }

// ErrTopics says that the topics of the cluster do not fit the settings.
var ErrTopics = errors.New("the topics do not have the required settings")

// node holds the roles of one process.
type node struct {
	opts     Options
	cfg      *config.Config
	embedded bool // the broker is in this process
	log      *slog.Logger
	kafka    []kgo.Opt // options for clients outside this process
	clients  []kgo.Opt // options for our own clients: kafka, plus the connection to an embedded broker
	names    topics.Names
	metrics  *metrics.Metrics
	engine   *engine.Engine
	history  sinks.History // nil without the role, unless an API reads it

	historyAway atomic.Pointer[string] // why the history has not answered yet

	preferences preferences.Store // nil: preferences are not stored

	internal        net.Listener
	internalAddress string // the address that other instances dial
	peers           *peer.Credentials
	peerFallback    []byte     // used if the setting has no secret
	keys            *auth.Keys // nil: no auth.keys_file
	cert            *certificate
	timetable       *trigger.Timetable
	egress          *egress.Policy // which callback URLs may be called
	gateway         *gateway.Server
	webhooks        *webhooks                // nil without the role
	notifiers       *notifiers               // nil without one of the roles
	ackSecrets      atomic.Pointer[[]string] // nil: no links are created
	twilioTokens    atomic.Pointer[[]string] // nil: Twilio has no callback URL
	tracing         *tracing.Tracer          // nil: off

	fullBroker func() error // why the embedded broker serves nothing; nil without one
	throttle   *kafkaconn.Throttle
	abandoned  bool      // some roles did not end in time, so what they use stays open
	stopBy     time.Time // when all must have ended and be closed; zero until it stops
	unclosed   string    // what was not closed by then

	memory *memory.Watcher
	shares memory.Shares // how the memory of this process is divided
}

// newNode makes a process from its settings. inner connects its own clients to an embedded
// broker.
func newNode(o Options, inner ...kgo.Opt) (*node, error) {
	c := o.Config
	o.Logger.Info("starting", "version", o.Version, "go", runtime.Version(), "settings", c.Digest(), "roles", c.Roles,
		"data_dir", c.DataDir)
	n := &node{
		opts: o, cfg: c, log: o.Logger, names: topics.Names{Prefix: c.Topics.Prefix}, metrics: metrics.New(),
		embedded: len(inner) > 0,
	}
	n.metrics.Build(o.Version)
	if err := n.shareMemory(); err != nil {
		return nil, err
	}
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
	n.throttle = kafkaconn.NewThrottle(nil, n.log)
	n.kafka = append(n.kafka, kgo.WithHooks(n.throttle))
	n.metrics.WatchThrottle(n.throttle.Total)
	n.clients = append(slices.Clone(n.kafka), inner...)
	return n, n.openTracing()
}

// quiet is a logger for the Kafka client. The client logs every transaction at level info,
// so its info becomes our debug. So does what each of our readers of a group logs itself.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(quietHandler{log.Handler()}) }

type quietHandler struct{ slog.Handler }

func (h quietHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return (l >= slog.LevelWarn || h.Handler.Enabled(ctx, slog.LevelDebug)) && h.Handler.Enabled(ctx, l)
}

// groupErrored is what the client logs beside each failure of a group that it returns from a poll.
const groupErrored = "group manage loop errored"

func (h quietHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == groupErrored && !h.Handler.Enabled(ctx, slog.LevelDebug) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// connectWithin bounds how long a process waits for the first broker.
const connectWithin = 6 * time.Second

// served lists the channels whose due topics this process creates at start, so that its
// workers do not wait for the first trigger.
func (n *node) served() []string {
	if !n.cfg.Topics.Manage {
		return nil
	}
	var channels []string
	for _, role := range config.WorkerChannels() {
		if n.cfg.HasRole(role) {
			channels = append(channels, role)
		}
	}
	return channels
}

// prepare creates the topics. With topics.manage: false it only checks them.
func (n *node) prepare(ctx context.Context) error {
	cl, err := kafkaconn.Connect(ctx, n.cfg, connectWithin, n.clients...)
	if err != nil {
		return err
	}
	defer cl.Close()
	want := kafkaconn.Wanted(n.cfg, n.served()...)
	plan, _, err := kafkaconn.Plan(ctx, cl, want)
	if err != nil {
		return err
	}
	if err := topics.Check(plan, n.cfg.Topics.Manage); err != nil {
		return fmt.Errorf("%w: %w", ErrTopics, err)
	}
	must, late := splitLate(plan)
	if err := kafkaconn.Apply(ctx, cl, want, must, nil); err != nil {
		return err
	}
	n.logCreated(want, append(must, n.createLate(ctx, cl, want, late)...))
	details, err := kadm.NewClient(cl).ListTopics(ctx, n.names.State())
	if err != nil {
		return fmt.Errorf("metadata of %s: %w", n.names.State(), err)
	}
	return n.openPeers(derivedSecret(details[n.names.State()].ID))
}

// splitLate takes apart a plan: what a process cannot run without, and the topics that may be
// missing for a while.
func splitLate(plan []topics.Change) (must, late []topics.Change) {
	for _, c := range plan {
		if c.Late != "" {
			late = append(late, c)
		} else {
			must = append(must, c)
		}
	}
	return must, late
}

// logCreated names the topics that this start has created, with their partitions.
func (n *node) logCreated(want []topics.Topic, done []topics.Change) {
	names := kafkaconn.Created(done)
	var created []string
	for i := range want {
		if slices.Contains(names, want[i].Name) {
			created = append(created, fmt.Sprintf("%s (%d)", want[i].Name, want[i].Partitions))
		}
	}
	if len(created) > 0 {
		n.log.Info("topics created", "topics", strings.Join(created, ", "))
	}
}

// createLate creates topics that may be missing for a while, or says what that means. In a
// cluster that is being upgraded, this process may lack the right to create them.
func (n *node) createLate(ctx context.Context, cl *kgo.Client, want []topics.Topic, late []topics.Change) (
	created []topics.Change,
) {
	for _, c := range late {
		if n.cfg.Topics.Manage {
			err := kafkaconn.Apply(ctx, cl, want, []topics.Change{c}, nil)
			if err == nil {
				created = append(created, c)
				continue
			}
			n.log.Warn("a topic could not be created", "topic", c.Topic, "error", err)
		}
		n.log.Warn("a topic is missing: run `waterclock topics apply`", "topic", c.Topic, "meanwhile", c.Late)
	}
	return created
}
