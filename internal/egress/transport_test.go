package egress_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/egress"
)

// receiver counts what reaches it.
type receiver struct {
	*httptest.Server
	requests, conns atomic.Int32
	open            atomic.Int32
}

func receive(t *testing.T, start func(*httptest.Server), h http.HandlerFunc) *receiver {
	t.Helper()
	r := new(receiver)
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.requests.Add(1)
		_, _ = io.Copy(io.Discard, q.Body) // from then on the server notices a caller that goes
		if h != nil {
			h(w, q)
		}
	}))
	r.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			r.conns.Add(1)
			r.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			r.open.Add(-1)
		}
	}
	r.Config.ErrorLog = nil
	start(r.Server)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) port() string {
	return r.Listener.Addr().(*net.TCPAddr).AddrPort().String()[len("127.0.0.1:"):]
}

// transport allows loopback, as dev does.
func transport(t *testing.T, o egress.Options) *egress.Transport {
	t.Helper()
	if o.Policy == nil {
		o.Policy = policy(t, egress.Settings{Loopback: true})
	}
	tr := egress.NewTransport(o)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func post(t *testing.T, tr *egress.Transport, url string) (status int, body []byte, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return postUnder(ctx, tr, url)
}

func postUnder(ctx context.Context, tr *egress.Transport, url string) (status int, body []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return 0, nil, err
	}
	a, err := tr.Client().Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer a.Body.Close()
	body, err = io.ReadAll(a.Body)
	return a.StatusCode, body, err
}

func refusedAs(err error, code string) bool {
	e := (*egress.Error)(nil)
	return errors.As(err, &e) && e.Code == code
}

// A name that was public when it was looked up is loopback when it is dialled.
func TestRebinding(t *testing.T) {
	r := receive(t, (*httptest.Server).StartTLS, nil)
	dns := startNameServer(t, map[string][][]string{"hooks.example.com": {{"93.184.215.14"}, {"127.0.0.1"}}})
	roots := x509.NewCertPool()
	roots.AddCert(r.Certificate())
	tr := transport(t, egress.Options{Policy: new(egress.Policy), Resolver: dns.resolver(), RootCAs: roots})
	hook := "https://hooks.example.com:" + r.port()

	addrs, err := dns.resolver().LookupNetIP(t.Context(), "ip4", "hooks.example.com")
	if err != nil || len(addrs) != 1 || addrs[0] != netip.MustParseAddr("93.184.215.14") {
		t.Fatal(addrs, err)
	}
	if _, _, err := post(t, tr, hook); !refusedAs(err, egress.CodeForbiddenAddress) {
		t.Error(err)
	}
	if dns.queries("hooks.example.com") != 2 || r.conns.Load() != 0 {
		t.Errorf("%d look-ups, %d connections", dns.queries("hooks.example.com"), r.conns.Load())
	}
}

// Whatever a public name resolves to, nothing special is dialled.
func TestSpecialAddresses(t *testing.T) {
	r := receive(t, (*httptest.Server).StartTLS, nil)
	answers := map[string][][]string{}
	for i, list := range [][]string{
		{"127.0.0.1"},
		{"127.0.0.1", "10.0.0.1"},
		{"169.254.169.254", "127.0.0.1", "::1"},
		{"::1"},
		{"::ffff:127.0.0.1"},
		{"64:ff9b::7f00:1", "2002:7f00:1::"},
		{"0.0.0.0"},
		{"::"},
		{"168.63.129.16"},
		{"fd00:ec2::254", "fe80::1"},
	} {
		answers[fmt.Sprintf("n%d.example.com", i)] = [][]string{list}
	}
	tr := transport(t, egress.Options{Policy: new(egress.Policy), Resolver: startNameServer(t, answers).resolver()})
	for name, list := range answers {
		if _, _, err := post(t, tr, "https://"+name+":"+r.port()); !refusedAs(err, egress.CodeForbiddenAddress) {
			t.Errorf("%v: %v", list, err)
		}
	}
	if r.conns.Load() != 0 {
		t.Error(r.conns.Load(), "connections")
	}
}

// One forbidden answer among others is passed over.
func TestManyAnswers(t *testing.T) {
	r := receive(t, (*httptest.Server).Start, nil)
	dns := startNameServer(t, map[string][][]string{
		"a.localhost": {{"169.254.169.254", "10.0.0.1", "127.0.0.1"}},
	})
	tr := transport(t, egress.Options{Resolver: dns.resolver()})
	if status, _, err := post(t, tr, "http://a.localhost:"+r.port()); status != 200 {
		t.Error(status, err)
	}
}

// What a listed host may resolve to depends on how it is written.
func TestAddresses(t *testing.T) {
	for _, row := range []struct {
		host   string
		listed bool
		yes    string
		no     string
	}{
		{
			"hooks.example.com", false, "8.8.8.8 2606:4700:4700::1111",
			"10.0.0.1 100.64.0.1 127.0.0.1 169.254.169.254 168.63.129.16 " +
				"100.100.100.200 0.0.0.0 224.0.0.1 fd00::1 ::1 " +
				"fe80::1 fe80::1%eth0 ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808:: 2001:0:808:808::",
		},
		{
			"receiver", true, "8.8.8.8 10.0.0.1 172.16.3.4 192.168.0.9 100.64.0.1 fd12::1 2606:4700:4700::1111",
			"127.0.0.1 127.0.1.1 ::1 169.254.169.254 168.63.129.16 " +
				"100.100.100.200 fd00:ec2::254 fd20:ce::254 0.0.0.0 :: " +
				"224.0.0.1 255.255.255.255 fe80::1 fe80::1%eth0 ::ffff:10.0.0.1 64:ff9b::a00:1 2002:a00:1::",
		},
		{"localhost", true, "127.0.0.1 127.0.1.1 ::1", "8.8.8.8 10.0.0.1 169.254.169.254 ::ffff:127.0.0.1 0.0.0.0"},
		{"a.localhost", true, "127.0.0.1 ::1", "8.8.8.8 10.0.0.1"},
		{"10.0.0.5", true, "10.0.0.5", "10.0.0.6 8.8.8.8 127.0.0.1 ::ffff:10.0.0.5"},
		{"169.254.169.254", true, "169.254.169.254", "169.254.170.2"},
		{"fd00::5", true, "fd00::5", "fd00::6"},
	} {
		target := egress.Target{Origin: egress.Origin{Host: row.host}, Listed: row.listed}
		for _, text := range strings.Fields(row.yes) {
			if err := target.Address(netip.MustParseAddr(text)); err != nil {
				t.Errorf("%s at %s: %v", row.host, text, err)
			}
		}
		for _, text := range strings.Fields(row.no) {
			if err := target.Address(netip.MustParseAddr(text)); !refusedAs(err, egress.CodeForbiddenAddress) {
				t.Errorf("%s at %s: %v", row.host, text, err)
			}
		}
	}
}

// What the policy forbids goes nowhere, whoever built the request.
func TestForbidden(t *testing.T) {
	r := receive(t, (*httptest.Server).Start, nil)
	tr := transport(t, egress.Options{Policy: policy(t, egress.Settings{
		Tenants: map[string][]string{"acme": {r.URL}},
	})})
	if _, _, err := post(t, tr, r.URL); !refusedAs(err, egress.CodeForbiddenURL) {
		t.Error("without a tenant:", err)
	}
	if _, _, err := postUnder(egress.WithTenant(t.Context(), "blue"), tr, r.URL); !refusedAs(
		err,
		egress.CodeForbiddenURL,
	) {
		t.Error("of another tenant:", err)
	}
	acme := egress.WithTenant(t.Context(), "acme")
	if status, _, err := postUnder(acme, tr, r.URL); status != 200 {
		t.Error(err)
	}
	q, _ := http.NewRequestWithContext(acme, http.MethodPost, r.URL, nil)
	q.Host = "metadata.google.internal"
	if resp, err := tr.RoundTrip(q); !refusedAs(err, egress.CodeForbiddenURL) {
		resp.Body.Close()
		t.Error("with another Host:", err)
	}
	if r.requests.Load() != 1 {
		t.Error(r.requests.Load(), "requests")
	}
}

func TestRedirectsAreAnswers(t *testing.T) {
	inner := receive(t, (*httptest.Server).Start, nil)
	for _, status := range []int{301, 302, 303, 307, 308} {
		outer := receive(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, inner.URL, status)
		})
		if got, _, err := post(t, transport(t, egress.Options{}), outer.URL); got != status {
			t.Error(got, err)
		}
	}
	if inner.requests.Load() != 0 {
		t.Error("a redirect was followed")
	}
}

// a.localhost is a name that http.ProxyFromEnvironment would send to the proxy
// that TestMain names.
func TestNoProxy(t *testing.T) {
	asked, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: "http", Host: "a.localhost"}})
	if asked == nil {
		t.Fatal("the environment names no proxy:", err)
	}
	r := receive(t, (*httptest.Server).Start, nil)
	dns := startNameServer(t, map[string][][]string{"a.localhost": {{"127.0.0.1"}}})
	tr := transport(t, egress.Options{Resolver: dns.resolver()})
	if status, _, err := post(t, tr, "http://a.localhost:"+r.port()); status != 200 {
		t.Error(status, err)
	}
}

func TestTLS(t *testing.T) {
	for name, row := range map[string]struct {
		config *tls.Config
		proto  string
		ok     bool
	}{
		"1.1":    {&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, "", false},
		"1.2":    {&tls.Config{MaxVersion: tls.VersionTLS12}, "HTTP/1.1", true},
		"HTTP/2": {&tls.Config{NextProtos: []string{"h2", "http/1.1"}}, "HTTP/2.0", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := receive(t, func(s *httptest.Server) {
				s.TLS, s.EnableHTTP2 = row.config.Clone(), row.proto == "HTTP/2.0"
				s.Config.ErrorLog = quiet
				s.StartTLS()
			}, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) })
			roots := x509.NewCertPool()
			roots.AddCert(r.Certificate())
			_, body, err := post(t, transport(t, egress.Options{RootCAs: roots}), r.URL)
			if (err == nil) != row.ok || string(body) != row.proto {
				t.Errorf("%s, %v", body, err)
			}
			if _, _, err := post(t, transport(t, egress.Options{}), r.URL); err == nil {
				t.Error("a certificate that nobody signed was taken")
			}
		})
	}
}

// Whatever a receiver does, it takes no more than it was given.
func TestHostileReceivers(t *testing.T) {
	limits := egress.Limits{
		Answer: 2 * time.Second, Total: 3 * time.Second, HeaderBytes: 4 << 10, BodyBytes: 64 << 10,
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 1<<20))
	_ = z.Close()
	for name, row := range map[string]struct {
		h      http.HandlerFunc
		status int
		err    string
		body   int // at most, of which nothing is lost up to the limit
	}{
		"100 MB": {func(w http.ResponseWriter, _ *http.Request) {
			chunk := make([]byte, 1<<20)
			for range 100 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, 200, egress.ErrBodyTooLarge.Error(), 64 << 10},
		"one byte over": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 64<<10+1))
		}, 200, egress.ErrBodyTooLarge.Error(), 64 << 10},
		"as much as it may": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 64<<10))
		}, 200, "", 64 << 10},
		"large headers": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Large", strings.Repeat("a", 64<<10))
		}, 0, "header", 0},
		"many interim answers": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", strings.Repeat("a", 1<<10))
			for range 1000 {
				w.WriteHeader(http.StatusEarlyHints)
			}
		}, 0, "headers exceeded", 0},
		"no answer": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 0, "timeout", 0},
		"a byte at a time": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write([]byte("a"))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(50 * time.Millisecond)
			}
		}, 200, "deadline", 1000},
		"less than it said": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("abc"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, 200, "EOF", 3},
		"reset": {func(w http.ResponseWriter, _ *http.Request) {
			c, _, _ := http.NewResponseController(w).Hijack()
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}, 0, "", 0},
		"no HTTP": {func(w http.ResponseWriter, _ *http.Request) {
			c, _, _ := http.NewResponseController(w).Hijack()
			_, _ = io.WriteString(c, "220 mail.example ESMTP\r\n")
			_ = c.Close()
		}, 0, "malformed", 0},
		"a gzip bomb": {func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") != "" {
				w.WriteHeader(http.StatusTeapot)
			}
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		}, 200, "", bomb.Len()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := receive(t, (*httptest.Server).Start, row.h)
			status, body, err := post(t, transport(t, egress.Options{Limits: limits}), r.URL)
			if status != row.status || len(body) > row.body {
				t.Errorf("%d, %d bytes", status, len(body))
			}
			if row.status == 0 && err == nil ||
				row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)) ||
				row.status != 0 && row.err == "" && (err != nil || len(body) != row.body) {
				t.Errorf("%d bytes, %v", len(body), err)
			}
		})
	}
}

// Bounds on connections hold for one origin.
func TestConnections(t *testing.T) {
	release := make(chan struct{})
	r := receive(t, (*httptest.Server).Start, func(http.ResponseWriter, *http.Request) { <-release })
	tr := transport(t, egress.Options{Limits: egress.Limits{ConnsPerOrigin: 5, IdlePerOrigin: 2}})
	var done sync.WaitGroup
	for range 20 {
		done.Go(func() {
			if status, _, err := post(t, tr, r.URL); status != 200 {
				t.Error(status, err)
			}
		})
	}
	for r.requests.Load() < 5 {
		time.Sleep(time.Millisecond)
	}
	if n := r.open.Load(); n > 5 {
		t.Error(n, "connections at once")
	}
	close(release)
	done.Wait()
	for deadline := time.Now().Add(20 * time.Second); r.open.Load() > 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(r.open.Load(), "unused connections are kept")
		}
	}
}

// The time of a request is over when its answer is closed, read or not.
func TestClosedEarly(t *testing.T) {
	gone := make(chan struct{})
	r := receive(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(gone)
	})
	q, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL, nil)
	a, err := transport(t, egress.Options{}).RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Body.Close()
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Error("the receiver still has a connection")
	}
}
