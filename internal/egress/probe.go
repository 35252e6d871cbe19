package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

// Report is what would happen to a callback, phase by phase. A phase that was not
// reached is left out.
type Report struct {
	Origin    string          `json:"origin,omitempty"    doc:"Scheme, host and port"`
	Allowed   bool            `json:"allowed"             doc:"By settings, and at least one address is"`
	Listed    bool            `json:"listed"              doc:"In webhook.allow, callback_allow, or as loopback of dev"`
	Code      string          `json:"code,omitempty"      doc:"Why not: forbidden_url or forbidden_address"`
	Detail    string          `json:"detail,omitempty"    doc:"Why it is not allowed, or what went wrong"`
	Addresses []ReportAddress `json:"addresses,omitempty" doc:"What the host resolves to"`
	TLS       *ReportTLS      `json:"tls,omitempty"       doc:"For https, once a connection stands"`
	Answer    *ReportAnswer   `json:"answer,omitempty"    doc:"To a request, with send"`
	Took      ReportTook      `json:"took"                doc:"Milliseconds of each phase"`
}

// ReportAddress is one answer of DNS.
type ReportAddress struct {
	Address string `json:"address"`
	Allowed bool   `json:"allowed"`
	Detail  string `json:"detail,omitempty" doc:"Why it is not allowed"`
}

// ReportTLS is what the receiver shows.
type ReportTLS struct {
	Version  string    `json:"version"  doc:"Such as TLS 1.3"`
	Protocol string    `json:"protocol" doc:"h2 or http/1.1"`
	Names    []string  `json:"names"    doc:"That the certificate is for, 20 at most"`
	Issuer   string    `json:"issuer"`
	Expires  time.Time `json:"expires"`
	Trusted  bool      `json:"trusted"  doc:"The certificate is for this host, in date, and of a known authority"`
}

// ReportAnswer is the head of an answer.
type ReportAnswer struct {
	Status       int  `json:"status"`
	Acknowledges bool `json:"acknowledges" doc:"It is a 2xx; a redirect is not followed"`
}

// ReportTook has milliseconds.
type ReportTook struct {
	Resolve int64 `json:"resolve_ms,omitempty"`
	Connect int64 `json:"connect_ms,omitempty" doc:"TCP and TLS"`
	Answer  int64 `json:"answer_ms,omitempty"  doc:"Of the request, on a connection of its own"`
}

// mostShown bounds the addresses and names in a Report.
const mostShown = 20

// Probe says what would happen to a callback of a tenant. It resolves the host
// and connects as a call would, and makes a request only if build is not nil. A
// host that is not allowed is not even looked up.
func (t *Transport) Probe(ctx context.Context, tenant, rawURL string,
	build func(context.Context) (*http.Request, error),
) *Report {
	r := new(Report)
	target, err := t.policy.Target(tenant, rawURL)
	if err != nil {
		return r.refused(err)
	}
	r.Origin, r.Listed = target.Origin.String(), target.Listed
	if err := t.probeAddresses(ctx, r, target); err != nil {
		return r.refused(err)
	}
	r.Allowed = true
	start := time.Now()
	err = t.probeConnection(ctx, r, target)
	r.Took.Connect = since(start)
	if err == nil && build != nil {
		err = t.probeAnswer(WithTenant(ctx, tenant), r, build)
	}
	if err != nil {
		return r.refused(err)
	}
	return r
}

// refused ends a report: by the policy, or by what went wrong.
func (r *Report) refused(err error) *Report {
	var e *Error
	if errors.As(err, &e) {
		r.Allowed, r.Code, r.Detail = false, e.Code, e.Reason
	} else {
		r.Detail = err.Error()
	}
	return r
}

// since is never 0, which stands for a phase that was not reached.
func since(start time.Time) int64 { return max(1, time.Since(start).Milliseconds()) }

// probeAddresses judges all that the host resolves to. One that may be dialled
// is enough, as it is for a call.
func (t *Transport) probeAddresses(ctx context.Context, r *Report, target Target) error {
	start := time.Now()
	addrs, err := t.resolve(ctx, target.Origin.Host)
	r.Took.Resolve = since(start)
	if err != nil {
		return err
	}
	allowed := false
	for _, ip := range addrs {
		ip = ip.Unmap() // as the dialler does
		err = target.Address(ip)
		a := ReportAddress{Address: ip.String(), Allowed: err == nil}
		var e *Error
		if errors.As(err, &e) {
			a.Detail = e.Reason
		}
		if allowed = allowed || err == nil; len(r.Addresses) < mostShown {
			r.Addresses = append(r.Addresses, a)
		}
	}
	if allowed {
		return nil
	}
	return err
}

func (t *Transport) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.limits.Connect)
	defer cancel()
	resolver := t.resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	return resolver.LookupNetIP(ctx, "ip", host)
}

// probeConnection connects and, for https, says what the receiver shows, be it
// trusted or not.
func (t *Transport) probeConnection(ctx context.Context, r *Report, target Target) error {
	at := net.JoinHostPort(target.Origin.Host, strconv.Itoa(int(target.Origin.Port)))
	conn, err := t.dial(ctx, "tcp", at, target.Listed)
	if err != nil {
		return err
	}
	defer conn.Close()
	if target.Origin.Scheme != "https" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.limits.TLSHandshake)
	defer cancel()
	var refused error
	config := t.tls()
	config.ServerName, config.NextProtos = target.Origin.Host, []string{"h2", "http/1.1"}
	config.InsecureSkipVerify = true // verified here, so that a bad certificate is shown; nothing is sent
	config.VerifyConnection = func(s tls.ConnectionState) error {
		refused = verify(s, target.Origin.Host, t.roots)
		r.TLS = shown(s, refused == nil)
		return nil
	}
	if err := tls.Client(conn, config).HandshakeContext(ctx); err != nil {
		return err
	}
	return refused
}

// verify is what crypto/tls does by itself.
func verify(s tls.ConnectionState, host string, roots *x509.CertPool) error {
	o := x509.VerifyOptions{DNSName: host, Roots: roots, Intermediates: x509.NewCertPool()}
	if len(s.PeerCertificates) == 0 {
		return errors.New("the receiver shows no certificate")
	}
	for _, c := range s.PeerCertificates[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(o)
	return err
}

func shown(s tls.ConnectionState, trusted bool) *ReportTLS {
	r := &ReportTLS{Version: tls.VersionName(s.Version), Protocol: s.NegotiatedProtocol, Trusted: trusted}
	if r.Protocol == "" {
		r.Protocol = "http/1.1"
	}
	if len(s.PeerCertificates) == 0 {
		return r
	}
	c := s.PeerCertificates[0]
	r.Issuer, r.Expires, r.Names = c.Issuer.String(), c.NotAfter.UTC(), c.DNSNames
	for _, ip := range c.IPAddresses {
		r.Names = append(r.Names, ip.String())
	}
	r.Names = r.Names[:min(len(r.Names), mostShown)]
	return r
}

// probeAnswer sends a request as a worker does. Nothing of the body is shown.
func (t *Transport) probeAnswer(
	ctx context.Context,
	r *Report,
	build func(context.Context) (*http.Request, error),
) error {
	q, err := build(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	a, err := t.RoundTrip(q)
	r.Took.Answer = since(start)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	_, _ = io.CopyN(io.Discard, a.Body, 64<<10) // a connection that was read to its end may be used again
	r.Answer = &ReportAnswer{Status: a.StatusCode, Acknowledges: a.StatusCode/100 == 2}
	return nil
}
