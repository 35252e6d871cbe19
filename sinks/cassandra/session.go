package cassandra

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/gocql/gocql"

	"github.com/waterclock/waterclock/sinks"
)

// link holds the session. It creates it when it is first needed, and replaces it when it has had
// no success for too long. Only one attempt to create it runs at a time, and it belongs to no
// caller: the driver ignores contexts, and a caller that can wait 2 s must not wait for the
// driver's time-outs.
type link[S interface{ Close() }] struct {
	create func(context.Context) (S, error)
	after  time.Duration
	now    func() time.Time
	log    *slog.Logger

	mu      sync.Mutex
	session S
	have    bool
	closed  bool
	good    time.Time // time of the last success, or of the session's creation
	making  *attempt  // nil: none is running
}

// attempt is an attempt to create a session.
type attempt struct {
	stop context.CancelFunc
	done chan struct{} // closed when it has ended
	err  error         // valid once done is closed
}

var errClosed = errors.New("history store is closed")

// get returns the session, or waits for one until ctx ends.
func (l *link[S]) get(ctx context.Context) (none S, err error) {
	for {
		s, a, err := l.sessionOrAttempt(ctx)
		if a == nil {
			return s, err
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return none, fmt.Errorf("connect to Cassandra: %w", ctx.Err())
		}
		if a.err != nil {
			return none, fmt.Errorf("connect to Cassandra: %w", a.err)
		}
	}
}

func (l *link[S]) sessionOrAttempt(ctx context.Context) (s S, a *attempt, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return s, nil, errClosed
	case l.have:
		return l.session, nil, nil
	case ctx.Err() != nil:
		return s, nil, ctx.Err()
	case l.making == nil:
		ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
		l.making = &attempt{stop: stop, done: make(chan struct{})}
		go l.make(ctx, l.making)
	}
	return s, l.making, nil
}

func (l *link[S]) make(ctx context.Context, a *attempt) {
	defer a.stop()
	defer close(a.done)
	s, err := l.create(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.making, a.err = nil, err
	switch {
	case err != nil:
	case l.closed:
		s.Close()
	default:
		l.session, l.have, l.good = s, true, l.now()
	}
}

// report notes the result of a call. After too long without a success the session is closed, and
// the next get creates another.
func (l *link[S]) report(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.have:
	case err == nil:
		l.good = l.now()
	case l.now().Sub(l.good) > l.after:
		l.log.Warn("history: no success for too long; opening another session", "since", l.good, "err", err)
		l.drop()
	}
}

func (l *link[S]) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.making != nil {
		l.making.stop()
	}
	if l.have {
		l.drop()
	}
}

func (l *link[S]) drop() {
	var none S
	l.session.Close()
	l.session, l.have = none, false
}

// cluster returns the driver's configuration for our options.
func cluster(o Options) (*gocql.ClusterConfig, error) {
	hosts, port, err := splitHosts(o.Hosts)
	if err != nil {
		return nil, err
	}
	c := gocql.NewCluster(hosts...)
	c.ProtoVersion = 4 // for unset values; every server since 2.2 supports it
	c.Port = port
	c.Timeout, c.WriteTimeout, c.ConnectTimeout = o.Timeout, o.Timeout, o.Timeout
	c.Consistency, c.SerialConsistency = gocql.LocalQuorum, gocql.LocalSerial
	c.DefaultTimestamp = false // the statements have our timestamps
	c.DefaultIdempotence = true
	c.ReconnectInterval = 5 * time.Second
	c.ReconnectionPolicy = &gocql.ConstantReconnectionPolicy{MaxRetries: 2, Interval: 500 * time.Millisecond}
	c.SocketKeepalive = 15 * time.Second
	c.Logger = driverLog{o.Logger}
	c.PoolConfig.HostSelectionPolicy = hostPolicy(o.LocalDC)
	if o.Username != "" {
		c.Authenticator = logIn{&o}
	}
	if o.TLS != nil {
		c.SslOpts = &gocql.SslOptions{Config: o.TLS.Clone(), EnableHostVerification: !o.TLS.InsecureSkipVerify}
	}
	return c, nil
}

// logIn logs each new connection in with the password that is current then.
type logIn struct{ o *Options }

func (l logIn) Challenge(req []byte) ([]byte, gocql.Authenticator, error) {
	by := gocql.PasswordAuthenticator{Username: l.o.Username, Password: l.o.Password}
	if l.o.rotated != nil {
		by.Password = *l.o.rotated.Load()
	}
	return by.Challenge(req)
}

// Success accepts whatever the server says of a log-in that it accepted.
func (logIn) Success([]byte) error { return nil }

// A write goes to a replica; with a local data centre, to a replica there.
func hostPolicy(localDC string) gocql.HostSelectionPolicy {
	fallback := gocql.RoundRobinHostPolicy()
	if localDC != "" {
		fallback = gocql.DCAwareRoundRobinPolicy(localDC)
	}
	return gocql.TokenAwareHostPolicy(fallback)
}

const defaultPort = 9042

// splitHosts separates the ports. They must be equal, because the driver has only one.
func splitHosts(in []string) (hosts []string, port int, err error) {
	for _, h := range in {
		host, p := h, defaultPort
		if name, text, err := net.SplitHostPort(h); err == nil {
			if p, err = strconv.Atoi(text); err != nil || p < 1 || p > 65535 {
				return nil, 0, fmt.Errorf("%q: %q is not a port", h, text)
			}
			host = name
		}
		if host == "" {
			return nil, 0, fmt.Errorf("%q: no host", h)
		}
		if port != 0 && p != port {
			return nil, 0, fmt.Errorf("ports %d and %d: the driver takes one for all hosts", port, p)
		}
		hosts, port = append(hosts, host), p
	}
	return hosts, port, nil
}

// unavailable marks errors as temporary or refused.
func unavailable(err error) error {
	switch {
	case err == nil || errors.Is(err, errClosed):
		return err
	case refused(err):
		return fmt.Errorf("%w: %w", sinks.ErrRefused, err)
	}
	return fmt.Errorf("%w: %w", sinks.ErrUnavailable, err)
}

// refused reports whether Cassandra understood the request and refused it, or its columns do not
// have the types that we bind. The event is never the cause.
func refused(err error) bool {
	var bind gocql.MarshalError
	var request gocql.RequestError
	if errors.Is(err, ErrSchema) || errors.As(err, &bind) {
		return true
	}
	if !errors.As(err, &request) {
		return false
	}
	switch request.Code() {
	case gocql.ErrCodeSyntax, gocql.ErrCodeUnauthorized, gocql.ErrCodeInvalid, gocql.ErrCodeConfig,
		gocql.ErrCodeCredentials:
		return true
	}
	return false
}

type driverLog struct{ log *slog.Logger }

func (d driverLog) Print(v ...any) { d.log.Debug("history: driver: " + fmt.Sprint(v...)) }
func (d driverLog) Printf(f string, v ...any) {
	d.log.Debug("history: driver: " + fmt.Sprintf(f, v...))
}
func (d driverLog) Println(v ...any) { d.log.Debug("history: driver: " + fmt.Sprintln(v...)) }
