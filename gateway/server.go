package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/waterclock/waterclock/gateway/console"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/internal/producer"
)

// Server is the HTTP API of one process: its listeners, its routes, and what is done for
// every request. Its parts answer.
type Server struct {
	opts    Options
	log     *slog.Logger
	kafka   *producer.Producer
	routes  *routeTable
	router  *peer.Router // asks owners
	auditor *auditor     // records refused attempts
	acts    *acts        // records who did what
	reads   *reads       // bounds lists, forecasts, previews
	answers *sharedAnswers
	stop    func()       // ends open event streams
	console http.Handler // nil: there is none

	moves    *mover  // of follow_user triggers to new zones
	erasures *eraser // of users

	parts
}

// New checks the options and makes a server. It connects to Kafka when the
// first write or look-up needs it.
func New(o Options) (*Server, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("gateway options: %w", err)
	}
	kafka, err := producer.New(producerOptions(&o)...)
	if err != nil {
		return nil, fmt.Errorf("gateway's Kafka client: %w", err)
	}
	s := &Server{opts: o, log: o.Logger, kafka: kafka, reads: newReads(&o)}
	s.answers = &sharedAnswers{
		now: o.Now, panicked: s.panicked, reads: s.reads, known: map[askedFor]*sharedAnswer{},
	}
	state := &topicReader{kafka: kafka, topic: o.Names.State()}
	s.router = peer.NewRouter(peer.Config{
		Partitions: o.Partitions, Owner: o.Owner, Address: o.Address,
		Trust: o.Peers, LastOwner: state.lastOwner,
	})
	s.wire()
	s.routes = newRouteTable(&s.parts)
	s.documents.routes = s.routes
	if s.documents.openapi, err = describe(s.routes, o.Auth == nil); err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	if o.Console {
		s.console, err = console.New(console.Options{
			API: s.api(), Prefix: o.ConsolePrefix, Secrets: sealSecrets(o.Peers), Now: o.Now,
			OwnHost: func(host string) bool { return OwnHost(host, o.OwnHost) },
		})
		if err != nil {
			return nil, fmt.Errorf("console: %w", err)
		}
	}
	return s, nil
}

// Close ends open event streams and lets go of Kafka. Writes still under way
// answer 503.
func (s *Server) Close() {
	s.stop()
	s.kafka.Close()
}

// Notes are sentences for /readyz: what is refused although this process is ready.
func (s *Server) Notes() []string { return s.acts.log.notes() }

// Router reads triggers of any partition, from this process or from its owner.
func (s *Server) Router() *peer.Router { return s.router }

// InternalHandler is what other instances ask; it belongs on internal.listen.
// It is nil where this process has no engine or no shared secret.
func (s *Server) InternalHandler() http.Handler {
	if s.opts.Owner == nil || s.opts.Peers == nil {
		return nil
	}
	return peer.NewHandler(s.opts.Owner, s.opts.Address, s.opts.Peers, s.opts.Timetable, s.log)
}

// sealSecrets are what list cursors are sealed with: the secrets that all
// instances share, or where there are no others, one of this process.
func sealSecrets(shared *peer.Credentials) func() [][]byte {
	if shared != nil {
		return shared.Secrets
	}
	own := make([]byte, 32)
	_, _ = rand.Read(own) // never fails
	return func() [][]byte { return [][]byte{own} }
}

// Time-outs against callers that send or read slowly, and the bound on headers.
const (
	headersWithin  = 5 * time.Second
	requestWithin  = 30 * time.Second
	responseWithin = 60 * time.Second
	idleFor        = 2 * time.Minute
	maxHeaderBytes = 32 << 10
	// maxStreams bounds what one HTTP/2 connection has under way. Streams beyond it
	// wait, and one that opens and resets them faster than they are served is closed.
	maxStreams  = 32
	closeWithin = 5 * time.Second
)

// Serve answers on l until ctx ends, then lets requests under way finish for
// at most 5 s. It refuses an address beyond loopback without auth and TLS.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if err := s.mayListen(l.Addr()); err != nil {
		return err
	}
	srv := NewHTTPServer(s.Handler(), s.log)
	srv.RegisterOnShutdown(s.stop) // open streams would never finish
	srv.TLSConfig = s.opts.TLS
	failed := make(chan error, 1)
	go func() {
		if s.opts.TLS != nil {
			failed <- srv.ServeTLS(l, "", "")
			return
		}
		failed <- srv.Serve(l)
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	if err := srv.Shutdown(late); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("close %s: %w", l.Addr(), err)
	}
	return srv.Close()
}

// NewHTTPServer is an http.Server with the bounds every listener of ours has.
func NewHTTPServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headersWithin, ReadTimeout: requestWithin, WriteTimeout: responseWithin,
		IdleTimeout: idleFor, MaxHeaderBytes: maxHeaderBytes,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

func (s *Server) mayListen(addr net.Addr) error {
	if isLoopback(addr) {
		return nil
	}
	if s.opts.Auth == nil {
		return fmt.Errorf("listen %s: without auth only loopback is served; set auth.keys_file or "+
			"auth.oidc.issuer, or listen on 127.0.0.1", addr)
	}
	return refusePlainHTTP(addr, s.opts.TLS != nil || s.opts.TLSElsewhere)
}

// refusePlainHTTP refuses an address beyond loopback without TLS. tls is true if callers
// use TLS, to us or to a proxy in front.
func refusePlainHTTP(addr net.Addr, tls bool) error {
	if tls || isLoopback(addr) {
		return nil
	}
	return fmt.Errorf("listen %s: credentials would be sent unencrypted: set http.tls.cert and http.tls.key, or "+
		"http.tls_elsewhere=true where a proxy in front terminates TLS, or listen on 127.0.0.1", addr)
}

func isLoopback(addr net.Addr) bool {
	if addr == nil {
		return false
	}
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.Network() == "unix"
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
