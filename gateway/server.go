package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/internal/slots"
)

// Server is the HTTP API of one process.
type Server struct {
	opts    Options
	log     *slog.Logger
	kafka   *producer.Producer
	control *topicReader
	letters *topicReader // of topic dead-letter
	limits  *rateLimits
	cursors *cursorSeal
	routes  *routeTable
	openapi []byte

	commands *commandLog  // writes
	router   *peer.Router // asks owners
	decider  *decider     // what became of writes
	events   *eventLog    // what happened to triggers
	channels *channels    // which are new
	readers  *readers     // of due topics
	auditor  *auditor     // records refused attempts
	moves    *mover       // of follow_user triggers to new zones
	erasures *eraser      // of users

	endpoints *endpointLog // how webhooks fare

	calendarChanges *changeRate // of tenants' own

	prefers  *slots.Slots // one for each call of the preference store; nil: no bound
	ackRates *rateLimits  // of links to acknowledge, by occurrence

	stopping context.Context //nolint:containedctx // the life of the server: its end ends open event streams
	stop     context.CancelFunc

	batches *slots.Slots // one for each batch under way

	reconciling sync.Mutex   // at most one at a time
	undecided   *undecided   // lines of batches; nil without log-in
	followers   *slots.Slots // one for each open event stream
	tests       *slots.Slots // one for each endpoint that is being tested
	reads       *reads       // lists, forecasts, previews
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
	s := &Server{
		opts: o, log: o.Logger, kafka: kafka, limits: newRateLimits(o.Rate, 1, o.Now),
		control:   &topicReader{kafka: kafka, topic: o.Names.Control()},
		letters:   &topicReader{kafka: kafka, topic: o.Names.DeadLetter()},
		batches:   slots.New(o.Batches, o.Auth != nil),
		followers: slots.New(o.Followers, o.Auth != nil),
		tests:     slots.New(testsAtOnce, false),
	}
	if o.Auth != nil {
		s.undecided = newUndecided(o.BatchBeside, o.Now)
	}
	s.reads = &reads{
		slots: slots.New(o.Reads, o.Auth != nil), within: waitForRead,
		quota:     newRateLimits(o.ReadRate, readBurst, o.Now),
		pages:     &pages{most: o.PagesInFlight, by: map[string]int64{}},
		gathering: slots.New(gatherAtOnce, o.Auth != nil),
	}
	s.commands = &commandLog{
		kafka: kafka, topic: o.Names.Commands(), partitions: o.Partitions, within: o.ProduceWithin,
		tracing: o.Tracing,
	}
	s.endpoints = &endpointLog{topic: &topicReader{kafka: kafka, topic: o.Names.Endpoints()}}
	s.channels = &channels{kafka: kafka, names: o.Names, known: o.KnownChannel, within: o.ReadWithin}
	s.readers = &readers{kafka: kafka, except: o.Onlookers}
	s.auditor = newAuditor(&o, s.commands)
	s.moves, s.erasures = newMover(s), newEraser(s)
	s.ackRates, s.prefers = newAckRates(&o), preferencesAtOnce(&o)
	s.calendarChanges = &changeRate{every: o.CalendarInterval, now: o.Now}
	s.stopping, s.stop = context.WithCancel(context.Background())
	state := &topicReader{kafka: kafka, topic: o.Names.State()}
	s.router = peer.NewRouter(peer.Config{
		Partitions: o.Partitions, Owner: o.Owner, Address: o.Address,
		Trust: o.Peers, LastOwner: state.lastOwner,
	})
	s.decider = &decider{router: s.router, within: o.AnswerWithin, log: o.Logger}
	s.events = &eventLog{
		history: o.History, kafka: kafka, opts: o.Kafka, topic: o.Names.Events(), router: s.router,
		within: o.ReadWithin,
	}
	s.cursors = newCursorSeal(sealSecrets(o.Peers))
	s.routes = newRouteTable()
	if s.openapi, err = describe(s.routes, o.Auth == nil); err != nil {
		return nil, fmt.Errorf("openapi: %w", err)
	}
	return s, nil
}

// Close ends open event streams and lets go of Kafka. Writes still under way
// answer 503.
func (s *Server) Close() {
	s.stop()
	s.kafka.Close()
}

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

// How long a costly read waits for a slot, and how many seconds' worth of its
// tenant's reads it may use at once.
const (
	waitForRead = 2 * time.Second
	readBurst   = 10
)

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
	return fmt.Errorf("listen %s: credentials would travel in the clear: set http.tls.cert and http.tls.key, or "+
		"http.tls_elsewhere=true where a proxy in front ends TLS, or listen on 127.0.0.1", addr)
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
