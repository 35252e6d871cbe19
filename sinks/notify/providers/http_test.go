package providers_test

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/sinks/notify"
	"github.com/waterclock/waterclock/sinks/notify/providers"
)

// each runs do with every provider over HTTP at one server, and an address that it accepts.
func each(t *testing.T, h providers.HTTP, do func(t *testing.T, p notify.Provider, address string)) {
	t.Helper()
	g := startGoogle(t) // for tokens only
	fcm := func(t *testing.T) notify.Provider {
		// Its token server has another origin, so it needs a token from a request to its own
		// server.
		b := strings.ReplaceAll(string(g.credentials(t)), g.URL, strings.TrimRight(h.URL, "/"))
		f, err := providers.NewFCM(providers.FCMOptions{HTTP: h, Credentials: []byte(b)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	for _, c := range []struct {
		address string
		open    func(t *testing.T) notify.Provider
	}{
		{"registration-1", fcm},
		{device, func(t *testing.T) notify.Provider { return newAPNs(t, h, ecKey(t)) }},
		{phone, func(t *testing.T) notify.Provider { return newTwilio(t, h, nil) }},
	} {
		p := c.open(t)
		t.Run(p.Name(), func(t *testing.T) { do(t, p, c.address) })
	}
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := providers.HTTP{URL: "https://" + l.Addr().String()}
	_ = l.Close()
	each(t, h, func(t *testing.T, p notify.Provider, address string) {
		a := p.Send(t.Context(), message(address))
		if a.Result.Code != "connection_refused" || a.DeadAddress {
			t.Fatal(said(a))
		}
		if p.Name() != "fcm" && a.Result.Detail != "not sent: connection_refused" {
			t.Fatal(a.Result.Detail)
		}
		sound(t, a, address, canary)
	})
}

func TestUnknownAuthority(t *testing.T) {
	s := startServer(t, created)
	nobody := providers.HTTP{URL: s.URL, Roots: x509.NewCertPool()}
	each(t, nobody, func(t *testing.T, p notify.Provider, address string) {
		if a := p.Send(t.Context(), message(address)); a.Result.Code != "tls" {
			t.Fatal(said(a))
		}
	})
	if n := len(s.requests("")); n != 0 {
		t.Fatal(n)
	}
}

// A server hangs before the TLS handshake, or never answers. A message waits for at most its own
// time-out, and then another one can be sent.
func TestSendEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	each(t, providers.HTTP{URL: "https://" + l.Addr().String()}, func(t *testing.T, p notify.Provider, address string) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		a := p.Send(ctx, message(address))
		if a.Result.Code != "timeout" {
			t.Fatal(said(a))
		}
	})
}

func TestSendAfterClose(t *testing.T) {
	s := startServer(t, accepts)
	a := newAPNs(t, s.http(nil), ecKey(t))
	a.Send(t.Context(), message(device))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if got := said(a.Send(t.Context(), message(device))); got != "retry connection" {
		t.Fatal(got)
	}
}

// A proxy may speak only HTTP/1.1, and have a path of its own.
func TestHTTP1Proxy(t *testing.T) {
	var s server
	s.next = func(r received, w http.ResponseWriter) {
		if strings.HasSuffix(r.path, "/token") {
			says(200, `{"access_token":"t","expires_in":3599}`)(r, w)
			return
		}
		created(r, w)
		if r.proto != "HTTP/1.1" || !strings.HasPrefix(r.path, "/via/") {
			t.Error(r.proto, r.path)
		}
	}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	defer s.Close()
	each(t, providers.HTTP{URL: s.URL + "/via/"}, func(t *testing.T, p notify.Provider, address string) {
		answers := make(chan notify.Answer, 20)
		for range cap(answers) {
			go func() { answers <- p.Send(t.Context(), message(address)) }()
		}
		for range cap(answers) {
			// FCM and APNs answer 200, so 201 is unexpected from them.
			if a := <-answers; p.Name() == "twilio" && said(a) != "accepted ref SM123" || a.Result.Code != "" &&
				a.Result.Code != "bad_answer" {
				t.Fatal(said(a), a.Result.Detail)
			}
		}
	})
}
