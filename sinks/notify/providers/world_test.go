package providers_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/sinks/notify"
	"github.com/waterclock/waterclock/sinks/notify/providers"
)

// received is one request as the server received it.
type received struct {
	proto, path string
	header      http.Header
	body        []byte
}

// server is a provider's server, HTTP/2 over TLS, with answers set by the test.
type server struct {
	*httptest.Server
	mu   sync.Mutex
	got  []received
	next func(r received, w http.ResponseWriter)
}

func startServer(t testing.TB, next func(r received, w http.ResponseWriter)) *server {
	t.Helper()
	s := &server{next: next}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	got := received{r.Proto, r.URL.Path, r.Header, body}
	s.mu.Lock()
	s.got = append(s.got, got)
	next := s.next
	s.mu.Unlock()
	next(got, w)
}

// answer changes the server's answers from now on.
func (s *server) answer(next func(r received, w http.ResponseWriter)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = next
}

// requests returns the requests whose path contains a text.
func (s *server) requests(path string) (list []received) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.got {
		if strings.Contains(r.path, path) {
			list = append(list, r)
		}
	}
	return list
}

func (s *server) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return pool
}

func (s *server) http(now func() time.Time) providers.HTTP {
	return providers.HTTP{URL: s.URL, Roots: s.roots(), Now: now}
}

// says answers each request with a status, a body and headers ("Name: value").
func says(status int, body string, headers ...string) func(received, http.ResponseWriter) {
	return func(_ received, w http.ResponseWriter) {
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// clock is the real time plus an offset that the test sets.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func ecKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// pemOf returns a key in the format of Google's and Apple's files.
func pemOf(t testing.TB, key crypto.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// message returns a message for an address.
func message(address string) *notify.Message {
	return &notify.Message{
		ID: "acme/rent@2026-11-20T09:00:00#0", Attempt: 2, Channel: "push", Tenant: "acme", Trigger: "rent",
		User: "u_81", Address: address, Title: "Rent", Body: "Pay the rent today",
		Data: map[string]string{"notification_id": "n1"},
	}
}

// said formats an answer on one line.
func said(a notify.Answer) string {
	parts := []string{string(a.Result.Outcome)}
	if a.Result.Code != "" {
		parts = append(parts, a.Result.Code)
	}
	if a.Result.RetryAfter > 0 {
		parts = append(parts, "after", a.Result.RetryAfter.String())
	}
	if a.DeadAddress {
		parts = append(parts, "dead")
	}
	if a.Throttled {
		parts = append(parts, "throttled")
	}
	if a.MayBeAddress {
		parts = append(parts, "or the address")
	}
	if a.Ref != "" {
		parts = append(parts, "ref", a.Ref)
	}
	return strings.Join(parts, " ")
}

// sound checks what must hold for every answer, and that it contains none of the secrets.
func sound(t testing.TB, a notify.Answer, secrets ...string) {
	t.Helper()
	if a.Result.Outcome == "" {
		t.Fatal("an answer without an outcome:", said(a))
	}
	if a.Throttled && a.Result.Outcome != worker.OutcomePostponed {
		t.Fatal("throttled, but not postponed:", said(a))
	}
	if a.DeadAddress && a.Result.Outcome != worker.OutcomeFailed {
		t.Fatal("a dead address, but not failed:", said(a))
	}
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets {
		if secret != "" && strings.Contains(string(text)+a.Result.Detail, secret) {
			t.Fatalf("a secret is in the answer: %.200s", text)
		}
	}
}
