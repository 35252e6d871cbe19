package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Limits bound what a receiver can take from us. 0 means the default.
type Limits struct {
	Connect      time.Duration // DNS and TCP; 5 s
	TLSHandshake time.Duration // 5 s
	Answer       time.Duration // from the request's last byte to the headers; 1 min
	Total        time.Duration // all of it, the body's end included; 2 min. A context may ask for less
	Idle         time.Duration // an unused connection is kept this long; 90 s

	HeaderBytes int64 // of an answer; 32 KiB
	BodyBytes   int64 // of an answer; 1 MiB. Reading on is ErrBodyTooLarge

	ConnsPerOrigin int // 256
	IdlePerOrigin  int // 128
	IdleConns      int // in all; 2,048
}

func (l Limits) withDefaults() Limits {
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	set(&l.Connect, 5*time.Second)
	set(&l.TLSHandshake, 5*time.Second)
	set(&l.Answer, time.Minute)
	set(&l.Total, 2*time.Minute)
	set(&l.Idle, 90*time.Second)
	count(&l.HeaderBytes, 32<<10)
	count(&l.BodyBytes, 1<<20)
	count(&l.ConnsPerOrigin, 256)
	count(&l.IdlePerOrigin, 128)
	count(&l.IdleConns, 2048)
	return l
}

func count[N int | int64](n *N, def N) {
	if *n <= 0 {
		*n = def
	}
}

// Options make a Transport.
type Options struct {
	Policy *Policy // nil: that of zero Settings
	Limits Limits

	Resolver *net.Resolver  // nil: the system's
	RootCAs  *x509.CertPool // nil: the system's
}

// Transport calls what its Policy allows, and checks every address it dials. It
// takes no proxy from the environment, follows no redirect, and decompresses
// nothing.
//
// The caller sets the tenant (WithTenant) and a deadline, reads the body no
// further than it needs, and closes it.
type Transport struct {
	policy         *Policy
	limits         Limits
	resolver       *net.Resolver
	roots          *x509.CertPool
	public, listed *http.Transport          // apart, so that no connection serves both
	connect        map[bool]*http.Transport // for Connect, by whether the target is listed
}

// NewTransport makes a Transport. Close it by CloseIdleConnections.
func NewTransport(o Options) *Transport {
	t := &Transport{policy: o.Policy, limits: o.Limits.withDefaults(), resolver: o.Resolver, roots: o.RootCAs}
	if t.policy == nil {
		t.policy = new(Policy)
	}
	t.public, t.listed = t.pool(false), t.pool(true)
	t.connect = map[bool]*http.Transport{false: t.pool(false), true: t.pool(true)}
	for _, own := range t.connect {
		// In Go 1.26 the end of an http.ClientConn counts down what its beginning did not
		// count up, and panics below 0.
		own.MaxConnsPerHost = 0
	}
	return t
}

func (t *Transport) pool(listed bool) *http.Transport {
	l := &t.limits
	return &http.Transport{
		Proxy: nil, // in words: not even one of the environment
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return t.dial(ctx, network, address, listed)
		},
		TLSClientConfig:        t.tls(),
		TLSHandshakeTimeout:    l.TLSHandshake,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
		DisableCompression:     true, // so that nothing is decompressed either
		ResponseHeaderTimeout:  l.Answer,
		MaxResponseHeaderBytes: l.HeaderBytes,
		MaxConnsPerHost:        l.ConnsPerOrigin,
		MaxIdleConnsPerHost:    l.IdlePerOrigin,
		MaxIdleConns:           max(1, l.IdleConns/2), // there are two pools
		IdleConnTimeout:        l.Idle,
	}
}

func (t *Transport) tls() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: t.roots}
}

// dial connects to the first address that answers. Control is called for each,
// behind the resolver, so what is checked is what is dialled.
func (t *Transport) dial(ctx context.Context, network, address string, listed bool) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	host = strings.ToLower(host)
	target := Target{Origin: Origin{Host: host}, Listed: listed}
	d := net.Dialer{Timeout: t.limits.Connect, Resolver: t.resolver}
	d.Control = func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil { // a Unix socket, say
			return &Error{Code: CodeForbiddenAddress, Reason: host + " resolves to no IP address"}
		}
		return target.Address(at.Addr())
	}
	return d.DialContext(ctx, network, address)
}

type tenantKey struct{}

// WithTenant says for whom requests under the context are made.
func WithTenant(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

func tenantOf(ctx context.Context) string {
	tenant, _ := ctx.Value(tenantKey{}).(string)
	return tenant
}

// RoundTrip sends a request that the Policy allows. What it does not allow is an
// *Error; errors.As finds it.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	target, err := t.policy.target(tenantOf(r.Context()), r.URL)
	if err == nil && r.Host != "" && r.Host != r.URL.Host {
		err = forbidden("a request's Host must be the URL's")
	}
	if err != nil {
		closeBody(r)
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), t.limits.Total)
	ctx, giveUp := context.WithCancelCause(ctx)
	answer, err := t.of(target).RoundTrip(r.WithContext(fewConnections(ctx, giveUp)))
	if err != nil {
		if errors.Is(context.Cause(ctx), ErrConnections) {
			err = ErrConnections
		}
		cancel()
		return nil, err
	}
	if answer.StatusCode == http.StatusSwitchingProtocols {
		// Its body is the bare connection, which no context and no deadline ends. Nobody here
		// asks for another protocol.
		_ = answer.Body.Close()
		answer.Body = http.NoBody
	}
	answer.Body = &body{ReadCloser: answer.Body, left: t.limits.BodyBytes, cancel: cancel}
	return answer, nil
}

// ErrConnections is the end of a request whose receiver closes one connection after
// the other before it answers.
var ErrConnections = errors.New("egress: the receiver closed each connection before it answered")

// maxConnections bounds those that are made for one request. net/http sends a
// request again for as long as a receiver says, in words of HTTP/2, that it has not
// looked at it. Each time is a handshake of ours.
const maxConnections = 3

// fewConnections gives a request up that needs more connections than that.
func fewConnections(ctx context.Context, giveUp context.CancelCauseFunc) context.Context {
	var made atomic.Int32
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		if !c.Reused && made.Add(1) > maxConnections {
			giveUp(ErrConnections)
		}
	}})
}

// Connect opens a connection of the caller's own to the host of a URL, if the Policy allows
// it. The caller closes it, and bounds what it reads from it.
func (t *Transport) Connect(ctx context.Context, u *url.URL) (*http.ClientConn, error) {
	target, err := t.policy.target(tenantOf(ctx), u)
	if err != nil {
		return nil, err
	}
	o := target.Origin
	return t.connect[target.Listed].NewClientConn(ctx, o.Scheme, net.JoinHostPort(o.Host, strconv.Itoa(int(o.Port))))
}

func (t *Transport) of(target Target) *http.Transport {
	if target.Listed {
		return t.listed
	}
	return t.public
}

// closeBody keeps the promise of RoundTripper for requests that go nowhere.
func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // nothing was sent of it
	}
}

// CloseIdleConnections closes what is not in use.
func (t *Transport) CloseIdleConnections() {
	t.public.CloseIdleConnections()
	t.listed.CloseIdleConnections()
}

// Client returns a client that follows no redirect: a 3xx is an answer.
func (t *Transport) Client() *http.Client {
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}
