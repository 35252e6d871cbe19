package egress

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Tenant acme listed an origin in its own network. Tenant blue did not, and must
// not get there over the connection that acme left open.
func TestConnectionsAreNotShared(t *testing.T) {
	r := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(r.Close)
	const origin = "https://example.com:8443" // the name in httptest's certificate
	p, err := NewPolicy(Settings{Tenants: map[string][]string{"acme": {origin}}})
	if err != nil {
		t.Fatal(err)
	}
	tr := NewTransport(Options{Policy: p, Resolver: inHouseResolver(t)})
	t.Cleanup(tr.CloseIdleConnections)
	tr.listed.TLSClientConfig = r.Client().Transport.(*http.Transport).TLSClientConfig
	tr.listed.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) { // 10.0.0.1 is here
		return new(net.Dialer).DialContext(ctx, network, r.Listener.Addr().String())
	}
	if err := get(t, tr, "acme", origin); err != nil {
		t.Fatal(err)
	}
	e := (*Error)(nil)
	if err := get(t, tr, "blue", origin); !errors.As(err, &e) || e.Code != CodeForbiddenAddress {
		t.Error(err)
	}
}

func get(t *testing.T, tr *Transport, tenant, url string) error {
	t.Helper()
	q, err := http.NewRequestWithContext(WithTenant(t.Context(), tenant), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := tr.RoundTrip(q)
	if err != nil {
		return err
	}
	return a.Body.Close()
}

// inHouseResolver knows every name as 10.0.0.1.
func inHouseResolver(t *testing.T) *net.Resolver {
	t.Helper()
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		t.Cleanup(func() { client.Close(); server.Close() })
		go answerOnce(server)
		return client, nil // a stream: messages have their length before them
	}}
}

func answerOnce(c net.Conn) {
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	var m dnsmessage.Message
	for err == nil && n <= 2 { // the length may come by itself
		var more int
		more, err = c.Read(buf[n:])
		n += more
	}
	if err != nil || m.Unpack(buf[2:n]) != nil {
		return
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
			Body:   &dnsmessage.AResource{A: [4]byte{10, 0, 0, 1}},
		}}
	}
	b, err := m.AppendPack(make([]byte, 2, 512))
	if err == nil {
		b[0], b[1] = byte((len(b)-2)>>8), byte(len(b)-2)
		_, _ = c.Write(b)
	}
}
