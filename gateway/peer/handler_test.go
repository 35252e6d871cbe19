package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

const (
	peerSecret  = "a secret of the cluster"
	otherSecret = "another secret of 16"
	peerAddress = "10.0.0.1:8090"
)

// keeper owns one trigger, or with nil none.
type keeper struct {
	Owner
	state *trigger.State
}

func (k *keeper) Get(context.Context, trigger.Key) (*trigger.State, error) {
	if k.state == nil {
		return nil, ErrNoOwner
	}
	return k.state, nil
}

func trusting(t *testing.T, trust Trust) *Credentials {
	c, err := NewCredentials(trust)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func bytesOf(secrets ...string) (all [][]byte) {
	for _, s := range secrets {
		all = append(all, []byte(s))
	}
	return all
}

func internalAt(t *testing.T, own Owner, address string) http.Handler {
	trust := trusting(t, Trust{Secrets: bytesOf(peerSecret), Plain: true})
	return NewHandler(own, address, trust, nil, slog.New(slog.DiscardHandler))
}

// question is a signed request for path; change makes it a forged one.
func question(method, path, body string, at time.Time, change func(*http.Request)) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	newSigner().sign([]byte(peerSecret), r, peerAddress, []byte(body), at)
	if change != nil {
		change(r)
	}
	return r
}

func TestInternalAPIRefuses(t *testing.T) {
	own := &keeper{state: &trigger.State{Key: "a", Status: trigger.Pending}}
	h := internalAt(t, own, peerAddress)
	const path = internalPath + "trigger?key=a"
	now := time.Now()
	header := func(text string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", text) }
	}
	for _, c := range []struct {
		name string
		r    *http.Request
		want int
	}{
		{"right", question("GET", path, "", now, nil), 200},
		{"none", question("GET", path, "", now, func(r *http.Request) { r.Header.Del("Authorization") }), 401},
		{"another secret", question("GET", path, "", now, func(r *http.Request) {
			newSigner().sign([]byte(otherSecret), r, peerAddress, nil, now)
		}), 401},
		{"another path", question("GET", path, "", now, func(r *http.Request) { r.URL.RawQuery = "key=b" }), 401},
		{"another method", question("GET", path, "", now, func(r *http.Request) { r.Method = "POST" }), 401},
		{"a body added", question("GET", path, "", now, func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader("x"))
		}), 401},
		{"a body changed", question("GET", path, "abc", now, func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader("abd"))
		}), 401},
		{"a body as signed", question("GET", path, "abc", now, nil), 200},
		{"a body too large", question("GET", path, strings.Repeat("x", maxQuestion+1), now, nil), 401},
		{"for another instance", question("GET", path, "", now, func(r *http.Request) {
			newSigner().sign([]byte(peerSecret), r, "10.0.0.2:8090", nil, now)
		}), 401},
		{"old", question("GET", path, "", now.Add(-2*maxSkew), nil), 401},
		{"ahead", question("GET", path, "", now.Add(2*maxSkew), nil), 401},
		{"garbled", question("GET", path, "", now, header("Waterclock 1.zz")), 401},
		{"the scheme of old", question("GET", path, "", now, header("Bearer 1.00")), 401},
		{"no such question", question("GET", internalPath+"x", "", now, nil), 404},
		{"no partition", question("GET", internalPath+"find?x=1", "", now, nil), 500},
	} {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, c.r)
		if rec.Code != c.want {
			t.Errorf("%s: status %d, want %d: %s", c.name, rec.Code, c.want, rec.Body)
		}
	}
	own.state = nil
	rec := httptest.NewRecorder()
	if h.ServeHTTP(rec, question("GET", path, "", now, nil)); rec.Code != http.StatusMisdirectedRequest {
		t.Errorf("not the owner: status %d", rec.Code)
	}
}

// A request that was overheard is not answered again, not even by another
// instance.
func TestReplayedRequestIsRefused(t *testing.T) {
	own := &keeper{state: &trigger.State{Key: "a", Status: trigger.Pending}}
	h, other := internalAt(t, own, peerAddress), internalAt(t, own, "10.0.0.2:8090")
	const path = internalPath + "trigger?key=a"
	r := question("GET", path, "", time.Now(), nil)
	for i, c := range []struct {
		at   http.Handler
		want int
	}{{h, 200}, {h, 401}, {other, 401}, {h, 401}} {
		repeat := httptest.NewRequest("GET", path, nil)
		repeat.Header.Set("Authorization", r.Header.Get("Authorization"))
		rec := httptest.NewRecorder()
		if c.at.ServeHTTP(rec, repeat); rec.Code != c.want {
			t.Errorf("time %d: status %d, want %d: %s", i, rec.Code, c.want, rec.Body)
		}
	}
}

func TestReplayWindow(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var seen replays
	admit := func(session byte, number uint64) bool {
		return seen.admit(stamp{[8]byte{session}, number, now.Unix()}, now) == nil
	}
	for _, c := range []struct {
		number uint64
		want   bool
	}{
		{5, true},
		{5, false},
		{4, true},
		{4, false},
		{7, true},
		{6, true},
		{6, false},
		{5 + windowBits, true},
		{5, false},
		{6, false},
		{8, true},
		{8, false},
		{1 << 40, true},
		{1 << 40, false},
		{1<<40 - 1, true},
		{1<<40 - windowBits + 1, true},
		{1<<40 - windowBits, false},
		{9, false},
	} {
		if got := admit(1, c.number); got != c.want {
			t.Errorf("number %d: %v", c.number, got)
		}
	}
	if !admit(2, 5) {
		t.Error("another session's numbers are its own")
	}
	for i := range 2 * maxSessions { // what is remembered is bounded
		_ = seen.admit(stamp{[8]byte{9, byte(i), byte(i >> 8)}, 1, now.Unix()}, now)
	}
	if len(seen.seen) > maxSessions {
		t.Errorf("%d sessions are kept", len(seen.seen))
	}
	if admit(3, 1) {
		t.Error("a session over the bound was let in, so one was forgotten in its minute")
	}
	if now = now.Add(maxSkew + time.Second); !admit(3, 1) {
		t.Error("old sessions keep new ones out")
	}
}

// changing hands answers on after it changed them.
func changing(h http.Handler, change func(status *int, body []byte, header http.Header) []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		resp := rec.Result()
		header := http.Header{}
		if mac := rec.Header().Get(answerMAC); mac != "" {
			header.Set(answerMAC, mac)
		}
		status := resp.StatusCode
		body := change(&status, rec.Body.Bytes(), header)
		w.Header().Set("Trailer", answerMAC)
		w.WriteHeader(status)
		_, _ = w.Write(body)
		for name, values := range header {
			w.Header()[name] = values
		}
	})
}

// An answer that is not what the owner said is an error, whatever was changed.
func TestTamperedAnswerIsRefused(t *testing.T) {
	own := &keeper{state: &trigger.State{Key: "a", Status: trigger.Pending, Revision: 3}}
	same := func(_ *int, body []byte, _ http.Header) []byte { return body }
	var earlier http.Header
	for _, c := range []struct {
		name   string
		state  bool
		change func(status *int, body []byte, header http.Header) []byte
		ok     bool
		moved  bool
	}{
		{"as it is", true, same, true, false},
		{"body", true, func(_ *int, b []byte, _ http.Header) []byte {
			return bytes.Replace(b, []byte{1, 'a'}, []byte{1, 'b'}, 1)
		}, false, false},
		{"more behind it", true, func(_ *int, b []byte, _ http.Header) []byte { return append(b, 'x') }, false, false},
		{"much more", true, func(_ *int, b []byte, _ http.Header) []byte {
			return append(b, make([]byte, 2*maxQuestion)...)
		}, false, false},
		{
			"no signature", true, func(_ *int, b []byte, h http.Header) []byte { h.Del(answerMAC); return b }, false,
			false,
		},
		{"keep one", true, func(_ *int, b []byte, h http.Header) []byte { earlier = h.Clone(); return b }, true, false},
		{"the signature of another answer", true, func(_ *int, b []byte, h http.Header) []byte {
			h.Set(answerMAC, earlier.Get(answerMAC))
			return b
		}, false, false},
		{"not the owner", false, same, false, true},
		{"made out to be not the owner", true, func(status *int, b []byte, _ http.Header) []byte {
			*status = http.StatusMisdirectedRequest
			return b
		}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewUnstartedServer(nil)
			addr := s.Listener.Addr().String()
			owner := own
			if !c.state {
				owner = &keeper{}
			}
			s.Config.Handler = changing(internalAt(t, owner, addr), c.change)
			s.Start()
			defer s.Close()
			trust := trusting(t, Trust{Secrets: bytesOf(peerSecret), Plain: true})
			got, err := newClient(trust, 1).get(t.Context(), addr, "a")
			if (err == nil) != c.ok || c.ok && got.Revision != 3 || Moved(err) != c.moved {
				t.Errorf("state %v, error %v", got, err)
			}
		})
	}
}

// serveTLS answers with what a Trust says, and counts requests.
func serveTLS(t *testing.T, trust *Credentials) (addr string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own := &keeper{state: &trigger.State{Key: "a", Status: trigger.Pending}}
	s := &http.Server{
		Handler:  NewHandler(own, ln.Addr().String(), trust, nil, slog.New(slog.DiscardHandler)),
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), ReadHeaderTimeout: 5 * time.Second,
	}
	go func() { _ = s.Serve(tls.NewListener(ln, trust.ServerTLS())) }()
	t.Cleanup(func() { s.Close() })
	return ln.Addr().String()
}

// Instances with one secret need no files to speak TLS; nobody else is let as far
// as a request, and nobody is taken for an instance.
func TestOwnAuthority(t *testing.T) {
	both := func(secrets ...string) *Credentials { return trusting(t, Trust{Secrets: bytesOf(secrets...)}) }
	server := both(peerSecret)
	addr := serveTLS(t, server)
	ask := func(c *Credentials, addr string) error {
		_, err := newClient(c, 1).get(t.Context(), addr, "a")
		return err
	}
	if err := ask(both(peerSecret), addr); err != nil {
		t.Errorf("the same secret: %v", err)
	}
	if err := ask(both(otherSecret), addr); err == nil {
		t.Error("another secret was let in")
	}
	plain := trusting(t, Trust{Secrets: bytesOf(peerSecret), Plain: true})
	if err := ask(plain, addr); err == nil {
		t.Error("plain http was answered")
	}
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // an attacker's
	if err == nil {
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Error("somebody without a certificate got an answer")
		}
		conn.Close()
	}
	// One secret for another, without a moment in which two instances do not know each other.
	old, first := both(peerSecret), both(peerSecret, otherSecret)
	then, last := both(otherSecret, peerSecret), both(otherSecret)
	for _, step := range [][2]*Credentials{{old, first}, {first, then}, {then, last}} {
		for _, pair := range [][2]*Credentials{step, {step[1], step[0]}} {
			if err := ask(pair[1], serveTLS(t, pair[0])); err != nil {
				t.Errorf("while a secret is changed: %v", err)
			}
		}
	}
	// And in place: new connections know the new one.
	if err := server.Replace(Trust{Secrets: bytesOf(otherSecret)}); err != nil {
		t.Fatal(err)
	}
	if err := ask(both(peerSecret), addr); err == nil {
		t.Error("the secret of old is still good")
	}
	if err := ask(both(otherSecret), addr); err != nil {
		t.Errorf("the new secret: %v", err)
	}
}

// With certificates of the operator's own authority the host that is dialled must
// be the one that the certificate names.
func TestCertificatesFromFiles(t *testing.T) {
	ca, key, err := authority([]byte("an authority for this test"))
	if err != nil {
		t.Fatal(err)
	}
	pair := func(change func(*x509.Certificate)) *tls.Certificate {
		made, err := issue(ca, key)
		if err != nil {
			t.Fatal(err)
		}
		like := *made.Leaf
		change(&like)
		cert, err := selfSign(&like, ca, made.Leaf.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		made.Certificate, made.Leaf = [][]byte{cert.Raw}, cert
		return &made
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	local := func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} }
	trust := func(change func(*x509.Certificate)) *Credentials {
		return trusting(t, Trust{Secrets: bytesOf(peerSecret), Cert: pair(change), Roots: roots})
	}
	if _, err := newClient(trust(local), 1).get(t.Context(), serveTLS(t, trust(local)), "a"); err != nil {
		t.Error(err)
	}
	elsewhere := func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 9)} }
	if _, err := newClient(trust(local), 1).get(t.Context(), serveTLS(t, trust(elsewhere)), "a"); err == nil {
		t.Error("a certificate for another host was accepted")
	}
}

func TestCredentialsRefuse(t *testing.T) {
	if _, err := NewCredentials(Trust{}); err == nil {
		t.Error("no secret was accepted")
	}
	if _, err := NewCredentials(Trust{Secrets: bytesOf(peerSecret, "short")}); err == nil {
		t.Error("a short secret was accepted")
	}
}

// counter counts the reads with the read barrier, and those without.
type counter struct {
	keeper
	fresh, stale int
}

func (c *counter) Get(ctx context.Context, key trigger.Key) (*trigger.State, error) {
	c.fresh++
	return c.keeper.Get(ctx, key)
}

func (c *counter) Stale() Owner { c.stale++; return &c.keeper }

// Peek takes no read barrier, here and at another instance. Get does.
func TestPeek(t *testing.T) {
	own := &counter{keeper: keeper{state: &trigger.State{Key: "a", Status: trigger.Pending}}}
	s := httptest.NewUnstartedServer(nil)
	addr := s.Listener.Addr().String()
	s.Config.Handler = internalAt(t, own, addr)
	s.Start()
	defer s.Close()
	trust := trusting(t, Trust{Secrets: bytesOf(peerSecret), Plain: true})
	for name, r := range map[string]*Router{
		"here": NewRouter(Config{Partitions: 1, Owner: own}),
		"there": NewRouter(Config{
			Partitions: 1, Trust: trust,
			LastOwner: func(context.Context, int32) (OwnerRecord, error) { return OwnerRecord{Address: addr}, nil },
		}),
	} {
		own.fresh, own.stale = 0, 0
		for range 2 {
			if st, err := r.Peek(t.Context(), "a"); err != nil || st == nil || st.Key != "a" {
				t.Errorf("%s: %v, %v", name, st, err)
			}
		}
		if st, err := r.Get(t.Context(), "a"); err != nil || st == nil || own.fresh != 1 || own.stale != 2 {
			t.Errorf("%s: %v, %v; %d reads with the barrier, %d without", name, st, err, own.fresh, own.stale)
		}
	}
}
