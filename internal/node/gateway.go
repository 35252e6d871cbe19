package node

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/waterclock/waterclock/gateway"
	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/internal/asyncapi"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/egress"
	"github.com/waterclock/waterclock/schemas"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// openGateway creates the HTTP API.
func (n *node) openGateway() (err error) {
	c := n.cfg
	o := gateway.Options{
		Kafka: n.clients, Names: n.names, Partitions: int32(c.Topics.Partitions),
		Brokers: gateway.Brokers{Addresses: c.Brokers, Auth: c.Kafka.TLS.Enabled || c.Kafka.SASL.Mechanism != ""},
		Address: n.internalAddress, Peers: n.peers,
		Timetable: n.timetable.Fork, Limits: topics.Limits{Payload: int(c.Limits.Payload)},
		Admit: n.admit, TestEndpoint: n.testEndpoint,
		KnownChannel: channelSettings{c: c}.Known, FixedChannels: !c.AutoCreate,
		Channels: channelTopics(c), Onlookers: []string{c.ContentGroup()}, Awaits: func(name string) (string, bool) {
			ch := c.Channel(name)
			return ch.Topic, ch.Receipts
		},
		WorkerGroup: func(channel string) string { return c.Group + "." + channel }, Settings: n.settings,
		Tenants: slices.Sorted(maps.Keys(c.Tenants)), Rate: func(tenant string) float64 {
			return c.Tenant(tenant).
				Rate
		},
		Metrics: n.metricsHandler(), Ready: n.readiness, Notes: n.notes, Overloaded: n.overloaded, Schemas: schemas.FS,
		Throttled:   n.throttledWhy,
		Preferences: n.preferences,
		Listener:    n.metrics, Tracing: n.tracing, Logger: n.log.With("role", "api"),
		OwnCalendars: c.Limits.Calendars, CalendarInterval: c.Limits.CalendarInterval,
		Horizon: c.Dedup.Horizon, LogRequests: c.Log.Requests, AuditRate: c.Auth.AuditRate,
		AuditRegisters: c.Audit.Registers,
	}
	n.boundReads(&o)
	if n.engine != nil {
		o.Owner = engineOwner{
			e: n.engine, address: n.internalAddress, limit: int64(n.cfg.Limits.MaxPending), reconcile: n.reconcile,
		}
		o.Timetable = n.engine.Timetable
	}
	if n.fullBroker != nil {
		o.NoRoom = n.noRoom
	}
	if n.history != nil {
		o.History, o.Letters = historyReader{n.history}, historyReader{n.history}
		o.Notifications, o.UserTriggers = historyReader{n.history}, historyReader{n.history}
	}
	if o.Auth, err = n.authenticator(); err != nil {
		return err
	}
	if o.AsyncAPI, err = asyncapi.Document(asyncapi.Options{
		Names: n.names, Partitions: int32(c.Topics.Partitions), Replication: int16(c.Topics.Replication),
	}); err != nil {
		return err
	}
	if o.Twilio, err = n.twilioCallbacks(); err != nil {
		return err
	}
	if o.AckSecrets, err = n.ackLinks(); err != nil {
		return err
	}
	o.TLS, o.TLSElsewhere, o.OwnHost = n.cert.server(), c.HTTP.TLSElsewhere, n.ownHost
	o.Console, o.ConsolePrefix = c.Console.Enabled, c.Console.Prefix
	n.gateway, err = gateway.New(o)
	return err
}

// settings are those in use, with secrets masked.
func (n *node) settings() (list []gateway.Setting) {
	for _, v := range n.cfg.Values() {
		list = append(list, gateway.Setting{Key: v.Key, Value: v.Value, Source: v.Source})
	}
	return list
}

// noRoom says why the embedded broker accepts nothing from callers, or returns "". If callers
// filled the last bytes of the disk, the broker would stop, and the process with it.
func (n *node) noRoom() string {
	if err := n.brokerFull(); err != nil {
		return fmt.Sprintf("%v. No command can be written; pending triggers are kept and fire when there is room", err)
	}
	if disk := n.engine.Disk(); disk.Full {
		return fmt.Sprintf("the disk of %s is full, so no command can be written: %s. Pending triggers are kept and "+
			"fire when there is room", n.cfg.DataDir, disk.Why)
	}
	return ""
}

// brokerFull returns an error if the embedded broker serves nothing because its disk is full.
func (n *node) brokerFull() error {
	if n.fullBroker == nil {
		return nil
	}
	return n.fullBroker()
}

// channelTopics returns the due topics of the channels that exist without any command.
func channelTopics(c *config.Config) map[string]string {
	all := map[string]string{}
	for _, name := range slices.AppendSeq(config.BuiltInChannels(), maps.Keys(c.Channels)) {
		all[name] = c.Channel(name).Topic
	}
	return all
}

// boundReads sets how much readers may use, and how many streams may be open.
func (n *node) boundReads(o *gateway.Options) {
	c := n.cfg
	o.Reads, o.ReadBudget, o.ReadTime = c.Limits.Reads, int64(c.Limits.ReadBudget), c.Limits.ReadTime
	o.PageBytes = int64(c.Limits.PageBytes)
	o.PagesInFlight = min(int64(c.Limits.PagesInFlight), n.shares.Pages)
	o.BodiesInFlight, o.LinesInFlight, o.CommandBytes = n.shares.Bodies, n.shares.Lines, int(n.shares.Commands)
	o.StreamBytes = int32(n.shares.Stream)
	o.Batches, o.Followers, o.BodyRate = c.Limits.Batches, c.Limits.EventStreams, int64(c.Limits.BodyRate)
	if c.HasAuth() {
		o.ReadRate = func(tenant string) float64 { return c.Tenant(tenant).ReadRate }
	}
}

// derivedSecret signs requests between instances on loopback if the setting is empty. Its
// key comes from the id of topic state, which only readers of that topic know.
func derivedSecret(stateID [16]byte) []byte {
	mac := hmac.New(sha256.New, stateID[:])
	mac.Write([]byte("waterclock internal"))
	return mac.Sum(nil)
}

// authenticator checks callers by API keys, by an identity provider, or by both. nil admits
// loopback only.
func (n *node) authenticator() (auth.Authenticator, error) {
	var list []auth.Authenticator
	if file := n.cfg.Auth.KeysFile; file != "" {
		keys, err := n.readKeys(file)
		if err != nil {
			return nil, err
		}
		n.keys = keys
		list = append(list, keys)
	}
	if o := n.cfg.Auth.OIDC; o.Issuer != "" {
		provider, err := auth.NewOIDC(auth.OIDCOptions{
			Issuer: o.Issuer, Audience: o.Audience, TenantClaim: o.TenantClaim, RoleClaim: o.RoleClaim,
			Algorithms: o.Algorithms,
		})
		if err != nil {
			return nil, fmt.Errorf("auth.oidc: %w", err)
		}
		list = append(list, provider)
	}
	if len(list) == 0 {
		return nil, nil
	}
	return auth.AnyOf(list...), nil
}

func (n *node) readKeys(file string) (*auth.Keys, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("auth.keys_file: %w", err)
	}
	defer f.Close()
	if err := config.OthersMayWrite(f); err != nil {
		return nil, fmt.Errorf("auth.keys_file: %w", err)
	}
	keys, err := auth.ReadKeys(f)
	if err != nil {
		return nil, fmt.Errorf("auth.keys_file %s: %w", file, err)
	}
	if keys.Len() == 0 {
		n.log.Warn("auth.keys_file has no keys, so no caller can authenticate", "file", file)
	}
	return keys, nil
}

// loadKeys reads the file of API keys.
func (n *node) loadKeys() error {
	keys, err := n.readKeys(n.cfg.Auth.KeysFile)
	if err == nil {
		n.keys.Replace(keys)
	}
	return err
}

// admit refuses commands over HTTP that the settings forbid.
func (n *node) admit(tenant string, c *trigger.Command) *trigger.Error {
	if c.Op != trigger.OpRegister { // a reschedule has a Spec too, with time fields only
		return nil
	}
	allowed := n.cfg.Tenant(tenant).Channels
	for _, name := range c.Spec.Channels() {
		if len(allowed) > 0 && !slices.Contains(allowed, name) {
			msg := fmt.Sprintf("tenant %s may not use channel %s", tenant, name)
			return &trigger.Error{Code: trigger.CodeForbiddenChannel, Field: "channel", Msg: msg}
		}
	}
	if c.Spec.Callback == nil {
		return nil
	}
	return n.allowURL(tenant, c.Spec.Callback.URL)
}

// testEndpoint calls a URL like a webhook worker, but without the signature. Each test opens new
// connections, so that it sees what the next new connection of a worker would see.
func (n *node) testEndpoint(ctx context.Context, tenant, url string, send bool) *egress.Report {
	t := egress.NewTransport(egress.Options{Policy: n.egress, Limits: egress.Limits{Answer: 10 * time.Second}})
	defer t.CloseIdleConnections()
	if !send {
		return t.Probe(ctx, tenant, url, nil)
	}
	return t.Probe(ctx, tenant, url, func(ctx context.Context) (*http.Request, error) {
		const body = `{"triggerId":"endpoint-test","payload":null}`
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("User-Agent", "waterclock/"+n.opts.Version)
		r.Header.Set("X-Trigger-Id", "endpoint-test")
		r.Header.Set("X-Trigger-Attempt", "1")
		return r, nil
	})
}

// allowURL refuses a callback URL that the tenant may not call.
func (n *node) allowURL(tenant, url string) *trigger.Error {
	var e *egress.Error
	if errors.As(n.egress.Check(tenant, url), &e) {
		return &trigger.Error{Code: trigger.Code(e.Code), Field: "callback", Msg: e.Reason}
	}
	return nil
}
