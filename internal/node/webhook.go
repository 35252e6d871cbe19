package node

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/clients/go/worker/workerprom"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/egress"
	"github.com/waterclock/waterclock/sinks/webhook"
	"github.com/waterclock/waterclock/trigger"
)

// webhooks holds the role webhook of a process.
type webhooks struct {
	worker    *webhook.Worker
	transport *egress.Transport
	publisher *webhook.TopicPublisher
	trust     atomic.Pointer[webhookTrust]
	settings  *config.Config // with the endpoints as they are now; nil: those of the start. Of the reload alone
}

// webhookTrust holds the keys and headers for requests, from files and the environment. It may
// change while requests are sent.
type webhookTrust struct {
	keys    map[string]webhook.Keys // by tenant; "" is for all other tenants
	origins map[string]webhook.Origin
}

// openWebhook creates the worker of the role.
func (n *node) openWebhook(dev bool) error {
	if dev {
		if err := n.devSecret(); err != nil {
			return err
		}
	}
	h := &webhooks{}
	trust, err := n.readWebhookTrust()
	if err != nil {
		return err
	}
	h.trust.Store(trust)
	if len(trust.keys[""]) == 0 {
		n.log.Warn("webhooks are not signed: set webhook.secret, so that receivers can verify them")
	}
	c := n.cfg
	h.transport = egress.NewTransport(egress.Options{Policy: n.egress, Limits: webhookLimits(c)})
	if h.publisher, err = webhook.NewTopicPublisher(n.clients, n.names, n.webhookInstance()); err != nil {
		return err
	}
	n.webhooks = h
	h.worker, err = webhook.New(webhook.Options{
		Kafka: n.clients, Kit: n.kitOptions(webhook.Channel), Policy: n.egress, Transport: h.transport,
		Keys: h.keys, Origin: h.origin, Live: n.stillLive, Publish: h.publisher,
		Consent:     n.consent(webhook.Channel),
		Concurrency: c.Webhook.Concurrency, PerEndpoint: c.Webhook.PerEndpoint, Waiting: c.Webhook.Waiting,
		MaxEndpoints: c.Webhook.Endpoints, AnswerLimit: int64(c.Webhook.AnswerLimit),
		Breaker: webhook.Breaker{
			Failures: float64(c.Webhook.Breaker.Failures) / 100, Requests: uint(c.Webhook.Breaker.Requests),
			Window: c.Webhook.Breaker.Window, Open: c.Webhook.Breaker.Open,
			Returns: float64(c.Webhook.Breaker.Returns),
		},
		UserAgent: userAgent(n.opts.Version), Logger: n.log.With("role", "webhook"),
	})
	if err != nil {
		return err
	}
	n.metrics.WatchEndpoints(h.worker.Status)
	return nil
}

// webhookLimits returns the limits of the worker's transport. The worker bounds the calls to an
// origin per tenant. A bound on the connections of all tenants together would let the hanging
// calls of some delay those of others.
func webhookLimits(c *config.Config) egress.Limits {
	return egress.Limits{
		// The worker's own limit is lower, so that its error is the one people see.
		BodyBytes:      int64(c.Webhook.AnswerLimit) + 64<<10,
		ConnsPerOrigin: max(c.Webhook.Concurrency, 256),
	}
}

// If a worker of ours is killed, others take over its partitions after sessionTimeout. When a
// partition moves, the worker may finish for revokeWithin what is under way.
const (
	sessionTimeout = 10 * time.Second
	revokeWithin   = 6 * time.Second
)

// bufferRecords is how many due events a worker has in memory.
const bufferRecords = 10_000

// kitOptions converts the settings that the worker kit needs, for any channel that we serve.
func (n *node) kitOptions(channel string) []worker.Option {
	c := n.cfg
	ch := c.Channel(channel)
	opts := []worker.Option{
		worker.Prefix(c.Topics.Prefix), worker.Group(c.Group), worker.Topic(ch.Topic),
		worker.Memory(int(n.shares.Receipts)), worker.Buffer(bufferRecords, n.shares.Buffer),
		worker.FetchBytes(int32(n.shares.WorkerFetch)),
		worker.Kafka(kgo.SessionTimeout(sessionTimeout)), worker.RevokeTimeout(revokeWithin),
		worker.DrainTimeout(c.Stop.Timeout * 3 / 4), worker.WithMetrics(workerprom.New(n.metrics.Registry, channel)),
	}
	opts = append(opts, n.traceWorker(channel, ch.Topic)...)
	if ch.Partitioning == "by_key" {
		opts = append(opts, worker.ByKey())
	}
	return opts
}

func userAgent(version string) string {
	plain := strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f {
			return -1
		}
		return r
	}, version)
	return "Waterclock/" + plain
}

// webhookInstance is the name of this process on topic endpoints.
func (n *node) webhookInstance() string {
	if id := n.instanceID(); id != "" {
		return id
	}
	return NewID()
}

// runWebhook serves channel webhook until ctx ends.
func (n *node) runWebhook(ctx context.Context) error { return n.webhooks.worker.Run(ctx) }

func (n *node) closeWebhook() {
	if h := n.webhooks; h != nil {
		h.publisher.Close()
		h.transport.CloseIdleConnections()
	}
}

func (h *webhooks) keys(tenant string) webhook.Keys {
	t := h.trust.Load()
	if own, ok := t.keys[tenant]; ok {
		return own
	}
	return t.keys[""]
}

func (h *webhooks) origin(origin string) webhook.Origin { return h.trust.Load().origins[origin] }

// loadEndpoints reads endpoints.<origin>.* from the settings file. What else has changed there needs a restart.
func (n *node) loadEndpoints() error {
	now, err := n.cfg.Reread()
	if err != nil {
		return err
	}
	if now.Blank() && !n.endpointSettings().Blank() {
		return fmt.Errorf("%s: it is empty: write `endpoints: {}` if no origin has settings any more", n.cfg.File())
	}
	before := n.webhooks.settings
	n.webhooks.settings = now
	if err := n.loadWebhook(); err != nil {
		n.webhooks.settings = before
		return err
	}
	return nil
}

// endpointSettings are the settings with the endpoints as they are now.
func (n *node) endpointSettings() *config.Config {
	if n.webhooks != nil && n.webhooks.settings != nil {
		return n.webhooks.settings
	}
	return n.cfg
}

// endpointFiles lists the files with headers of endpoints.
func (n *node) endpointFiles() []string { return n.endpointSettings().WebhookFiles() }

// loadWebhook reads keys and headers from their files.
func (n *node) loadWebhook() error {
	trust, err := n.readWebhookTrust()
	if err == nil {
		n.webhooks.trust.Store(trust)
	}
	return err
}

func (n *node) readWebhookTrust() (*webhookTrust, error) {
	t := &webhookTrust{keys: map[string]webhook.Keys{}, origins: map[string]webhook.Origin{}}
	for _, tenant := range append([]string{""}, slices.Collect(maps.Keys(n.cfg.Tenants))...) {
		if tenant != "" && n.cfg.Tenants[tenant].WebhookSecret == "" {
			continue
		}
		setting, secrets, err := n.cfg.WebhookSecrets(tenant)
		if err != nil {
			return nil, err
		}
		if t.keys[tenant], err = webhook.NewKeys(secrets...); err != nil {
			return nil, fmt.Errorf("%s: %w", setting, err)
		}
	}
	c := n.endpointSettings()
	for origin, e := range c.Endpoints {
		headers, err := c.EndpointHeaders(origin)
		if err != nil {
			return nil, fmt.Errorf("endpoints.%s.headers: %w", origin, err)
		}
		t.origins[origin] = webhook.Origin{Headers: headers, Rate: e.Rate, Paused: e.Paused}
	}
	return t, nil
}

// devSecretFile holds the webhook key that dev generated.
const devSecretFile = "webhook.secret"

// devSecret generates the key that signs webhooks if the settings have none, once per data
// directory.
func (n *node) devSecret() error {
	if n.cfg.Webhook.Secret != "" || n.cfg.SecretFile("webhook.secret") != "" {
		return nil
	}
	file, err := n.ownSecret(devSecretFile, "whsec_")
	if err != nil {
		return fmt.Errorf("keep the key of webhooks: %w", err)
	}
	n.cfg.Webhook.Secret = "file:" + file
	return nil
}

// ownSecret returns a file of the data directory with a secret. It generates the secret the first
// time.
func (n *node) ownSecret(name, prefix string) (file string, err error) {
	file = filepath.Join(n.cfg.DataDir, name)
	if _, err = os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never returns an error
	text := prefix + base64.StdEncoding.EncodeToString(key) + "\n"
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// stillLive asks the owner whether a due event is still in flight, and not yet cancelled, erased,
// acknowledged or decided.
func (n *node) stillLive(ctx context.Context, e *worker.DueEvent) (bool, error) {
	s, err := n.gateway.Router().Get(ctx, trigger.Key(e.Key))
	live := err == nil && isLive(s, e, n.cfg.Channel(webhook.Channel).Receipts)
	if err == nil && !live && isBehind(s, e) {
		err = errBehind
	}
	return live, err
}

// errBehind is no answer, so the delivery is postponed.
var errBehind = errors.New("the owner that answered has not fired this yet: another one has its partition by now")

// isBehind reports whether a state is older than a due event. An owner that has lost its partition, and does not know
// it yet, answers with one. In it the occurrence is not in flight either, but nobody has cancelled anything.
func isBehind(s *trigger.State, e *worker.DueEvent) bool {
	if s == nil || s.Status.Finished() {
		return false
	}
	for i := range s.Live {
		if l := &s.Live[i]; l.Occurrence == e.Occurrence &&
			(l.Step < e.Step || l.Step == e.Step && l.Attempt < e.Attempt) {
			return true
		}
	}
	return s.Series.At != 0 && s.Series.Occurrence == e.Occurrence
}

// isLive reports whether a state still wants a due event of a channel with or without receipts.
// Without receipts the engine forgets an emission at once, unless it waits for the next step. So
// what is not remembered is live until its trigger is cancelled or erased.
func isLive(s *trigger.State, e *worker.DueEvent, receipts bool) bool {
	if s == nil {
		return false
	}
	for i := range s.Live {
		if l := &s.Live[i]; l.Attempt == e.Attempt && trigger.DueID(s.Key, l.Occurrence, l.Step) == e.ID {
			return true
		}
	}
	steps, _ := e.Header("wcx-steps")
	last := steps == "" || steps == strconv.Itoa(e.Step+1)
	if receipts || !last {
		return false
	}
	return s.Status != trigger.Cancelled && s.Status != trigger.Erased && s.Status != trigger.Unknown
}
