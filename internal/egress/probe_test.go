package egress_test

import (
	"context"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/egress"
)

func asks(url string) func(context.Context) (*http.Request, error) {
	return func(ctx context.Context) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	}
}

// A host that the policy refuses is not looked up: the answer would tell what
// names this network has.
func TestProbeForbidden(t *testing.T) {
	dns := startNameServer(t, map[string][][]string{"vault.internal": {{"10.0.0.1"}}})
	tr := transport(t, egress.Options{Policy: new(egress.Policy), Resolver: dns.resolver()})
	r := tr.Probe(t.Context(), "acme", "https://vault.internal/", asks("https://vault.internal/"))
	if r.Allowed || r.Code != egress.CodeForbiddenURL || r.Detail == "" || len(r.Addresses) != 0 ||
		dns.queries("vault.internal") != 0 {
		t.Errorf("%+v, %d look-ups", r, dns.queries("vault.internal"))
	}
}

func TestProbeAddresses(t *testing.T) {
	dns := startNameServer(t, map[string][][]string{
		"hooks.example.com": {{"169.254.169.254", "10.0.0.1"}},
		"a.localhost":       {{"10.0.0.1", "127.0.0.1"}},
	})
	tr := transport(t, egress.Options{Resolver: dns.resolver()})
	r := tr.Probe(t.Context(), "acme", "https://hooks.example.com/", nil)
	if r.Allowed || r.Code != egress.CodeForbiddenAddress || len(r.Addresses) != 2 || r.Addresses[0].Allowed ||
		r.Addresses[0].Detail == "" || r.Took.Connect != 0 {
		t.Errorf("%+v", r)
	}
	receiver := receive(t, (*httptest.Server).Start, nil)
	r = tr.Probe(t.Context(), "acme", "http://a.localhost:"+receiver.port(), nil)
	if !r.Allowed || !r.Listed || len(r.Addresses) != 2 || r.TLS != nil || r.Answer != nil || r.Took.Connect == 0 {
		t.Errorf("%+v", r)
	}
	if i := slices.IndexFunc(r.Addresses, func(a egress.ReportAddress) bool { return a.Allowed }); i < 0 ||
		r.Addresses[i].Address != "127.0.0.1" {
		t.Errorf("%+v", r.Addresses)
	}
	r = tr.Probe(t.Context(), "acme", "https://nobody.example.com/", nil)
	if r.Allowed || r.Code != "" || r.Detail == "" {
		t.Errorf("%+v", r)
	}
}

func TestProbeAnswer(t *testing.T) {
	inner := receive(t, (*httptest.Server).Start, nil)
	outer := receive(t, func(s *httptest.Server) {
		s.EnableHTTP2, s.Config.ErrorLog = true, quiet
		s.StartTLS()
	}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, inner.URL, http.StatusTemporaryRedirect)
		}
		_, _ = io.WriteString(w, "secret")
	})
	roots := x509.NewCertPool()
	roots.AddCert(outer.Certificate())
	tr := transport(t, egress.Options{RootCAs: roots})
	r := tr.Probe(t.Context(), "acme", outer.URL, nil)
	if !r.Allowed || r.Detail != "" || r.TLS == nil || !r.TLS.Trusted || r.TLS.Version != "TLS 1.3" ||
		r.TLS.Protocol != "h2" ||
		!slices.Contains(r.TLS.Names, "example.com") || r.TLS.Expires.Before(time.Now()) ||
		r.Answer != nil {
		t.Errorf("%+v, %+v", r, r.TLS)
	}
	if outer.requests.Load() != 0 {
		t.Error("a request without being asked for one")
	}
	r = tr.Probe(t.Context(), "acme", outer.URL, asks(outer.URL))
	if r.Answer == nil || r.Answer.Status != 200 || !r.Answer.Acknowledges || r.Took.Answer == 0 {
		t.Errorf("%+v, %+v", r, r.Answer)
	}
	r = tr.Probe(t.Context(), "acme", outer.URL+"/moved", asks(outer.URL+"/moved"))
	if r.Answer == nil || r.Answer.Status != 307 || r.Answer.Acknowledges || inner.requests.Load() != 0 {
		t.Errorf("%+v, %+v", r, r.Answer)
	}

	// One that nobody signed is shown, and nothing is sent to it.
	before := outer.requests.Load()
	r = transport(t, egress.Options{}).Probe(t.Context(), "acme", outer.URL, asks(outer.URL))
	if !r.Allowed || r.Detail == "" || r.TLS == nil || r.TLS.Trusted || len(r.TLS.Names) == 0 || r.Answer != nil ||
		outer.requests.Load() != before {
		t.Errorf("%+v, %+v", r, r.TLS)
	}
}

// A receiver that switches protocols is given nothing to keep a slot of the test with.
func TestProbeSwitch(t *testing.T) {
	stays := receive(t, (*httptest.Server).Start, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn) // until the other side closes it
	})
	r := transport(t, egress.Options{}).Probe(t.Context(), "acme", stays.URL, asks(stays.URL))
	if r.Answer == nil || r.Answer.Status != 101 || r.Answer.Acknowledges {
		t.Errorf("%+v, %+v", r, r.Answer)
	}
}
