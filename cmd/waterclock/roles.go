package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/waterclock/waterclock/engine"
	"github.com/waterclock/waterclock/gateway"
	"github.com/waterclock/waterclock/internal/asyncapi"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/schemas"
	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/cassandra"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// openEngine makes the engine; its Run is a role.
func (n *node) openEngine() error {
	o := n.engineOptions()
	if err := armFailpoints(&o); err != nil {
		return err
	}
	e, err := engine.New(o)
	if err != nil {
		return err
	}
	n.engine = e
	n.metrics.Watch(e.Partitions, e.Standbys)
	return nil
}

// openInternal listens where other instances ask about our partitions. It
// comes before the engine, which publishes the address.
func (n *node) openInternal() (err error) {
	if n.internal, err = listen("internal.listen", n.cfg.Internal.Listen); err != nil {
		return err
	}
	n.internalAddress = n.cfg.Internal.Advertise
	if n.internalAddress == "" {
		n.internalAddress = advertised(n.internal.Addr().String())
	}
	return nil
}

// advertised is an address others can dial: the host's name in place of a
// wildcard.
func advertised(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return address
	}
	name, err := os.Hostname()
	if err != nil {
		return address
	}
	return net.JoinHostPort(name, port)
}

// openGateway makes the HTTP door.
func (n *node) openGateway() (err error) {
	c := n.cfg
	o := gateway.Options{
		Kafka: n.clients, Names: n.names, Partitions: int32(c.Topics.Partitions), Address: n.internalAddress, PeerSecret: n.peerSecret,
		Timetable: n.timetable.Fork, Limits: topics.Limits{Payload: int(c.Limits.Payload)},
		Admit: n.admit, KnownChannel: channelSettings{c: c}.Known, Rate: func(tenant string) float64 { return c.Tenant(tenant).Rate },
		Metrics: promhttp.HandlerFor(n.metrics.Registry, promhttp.HandlerOpts{}), Ready: n.readiness, Schemas: schemas.FS,
		Listener: n.metrics, Tracing: n.tracing, LogRequests: c.Log.Requests, AuditRate: c.Auth.AuditRate, Tenants: slices.Sorted(maps.Keys(c.Tenants)),
		Logger: n.log.With("role", "api"),
	}
	if n.engine != nil {
		o.Owner, o.Timetable = engineOwner{n.engine, n.internalAddress}, n.engine.Timetable
	}
	if n.history != nil {
		o.History = historyReader{n.history}
	}
	if o.Auth, err = n.authenticator(); err != nil {
		return err
	}
	if o.AsyncAPI, err = asyncapi.Document(asyncapi.Options{Names: n.names, Partitions: int32(c.Topics.Partitions), Replication: int16(c.Topics.Replication)}); err != nil {
		return err
	}
	if o.TLS, err = serverTLS(c.HTTP); err != nil {
		return err
	}
	o.TLSElsewhere = c.HTTP.TLSElsewhere
	n.gateway, err = gateway.New(o)
	return err
}

// serverTLS is what listen serves; nil is plain HTTP.
func serverTLS(h config.HTTP) (*tls.Config, error) {
	if h.Cert == "" && h.Key == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(h.Cert, h.Key)
	if err != nil {
		return nil, failf("http.tls: %v", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// secretFor is what instances sign their requests to each other with: the
// setting, or on loopback, where the setting may be left out, a key derived
// from the id that Kafka gave topic state, which only its readers know.
func (n *node) secretFor(stateID [16]byte) []byte {
	if s := n.cfg.Internal.Secret; s != "" {
		return []byte(s)
	}
	mac := hmac.New(sha256.New, stateID[:])
	mac.Write([]byte("waterclock internal"))
	return mac.Sum(nil)
}

// authenticator is who may come in: API keys, an identity provider, or both;
// nil is nobody but loopback.
func (n *node) authenticator() (gateway.Authenticator, error) {
	var list []gateway.Authenticator
	if file := n.cfg.Auth.KeysFile; file != "" {
		f, err := os.Open(file)
		if err != nil {
			return nil, failf("auth.keys_file: %v", err)
		}
		defer f.Close()
		keys, err := gateway.ReadKeys(f)
		if err != nil {
			return nil, failf("auth.keys_file %s: %v", file, err)
		}
		if keys.Len() == 0 {
			n.log.Warn("auth.keys_file has no keys, so nobody gets in by one", "file", file)
		}
		list = append(list, keys)
	}
	if o := n.cfg.Auth.OIDC; o.Issuer != "" {
		provider, err := gateway.NewOIDC(gateway.OIDCOptions{Issuer: o.Issuer, Audience: o.Audience, TenantClaim: o.TenantClaim,
			RoleClaim: o.RoleClaim, Algorithms: o.Algorithms})
		if err != nil {
			return nil, failf("auth.oidc: %v", err)
		}
		list = append(list, provider)
	}
	if len(list) == 0 {
		return nil, nil
	}
	return gateway.AnyOf(list...), nil
}

// admit refuses what only settings know, for callers over HTTP.
func (n *node) admit(tenant string, c *trigger.Command) *trigger.Error {
	if c.Op != trigger.OpRegister { // a reschedule has a Spec too, of times alone
		return nil
	}
	if allowed := n.cfg.Tenant(tenant).Channels; len(allowed) > 0 && !slices.Contains(allowed, c.Spec.Channel) {
		return &trigger.Error{Code: trigger.CodeForbiddenChannel, Field: "channel", Msg: fmt.Sprintf("tenant %s may not use channel %s", tenant, c.Spec.Channel)}
	}
	return nil
}

// readiness is what /readyz says.
func (n *node) readiness() error {
	if n.engine == nil {
		return nil
	}
	return n.engine.Unready()
}

// historyReader lets the gateway read the projection.
type historyReader struct{ h sinks.History }

func (r historyReader) Events(ctx context.Context, tenant string, key trigger.Key, after gateway.EventCursor, limit int) ([]topics.Event, error) {
	page, err := r.h.Events(ctx, sinks.EventQuery{Tenant: tenant, Trigger: string(key), After: sinks.EventCursor(after), Limit: limit})
	if err != nil {
		return nil, err
	}
	out := make([]topics.Event, len(page.Events))
	for i := range page.Events {
		out[i] = page.Events[i].Event
	}
	return out, nil
}

func (r historyReader) Next(ctx context.Context, partition int32) (int64, error) {
	progress, err := r.h.Progress(ctx)
	return progress[partition].Next, err
}

// openHistory opens the projection: to write it, or because an API reads it.
func (n *node) openHistory() error {
	if len(n.cfg.Cassandra.Hosts) == 0 {
		return nil
	}
	o, err := cassandraOptions(n.cfg)
	if err != nil {
		return err
	}
	o.Migrate, o.Logger = n.cfg.HasRole("history"), n.log.With("role", "history")
	n.history, err = cassandra.New(o)
	return err
}

func (n *node) closeHistory() {
	if n.history != nil {
		if err := n.history.Close(); err != nil {
			n.log.Warn("closing the history failed", "error", err)
		}
	}
}

// startInternal answers other instances about our partitions.
func (n *node) startInternal(life *lifeOf) {
	if h := n.gateway.InternalHandler(); h != nil {
		life.start("internal", func(ctx context.Context) error { return serveHTTP(ctx, n.internal, h) })
	}
}
