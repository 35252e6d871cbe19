package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/topics"
)

func TestOptionsValidate(t *testing.T) {
	err := Options{
		PeerSecret: []byte("short"), Limits: topics.Limits{Payload: 1 << 30}, AnswerWithin: -1,
		Batches: -1,
	}.Validate()
	for _, want := range []string{"topics.partitions", "internal.secret", "limits.payload", "AnswerWithin", "Batches"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if _, err := New(Options{Partitions: 1}); err == nil {
		t.Error("neither an owner nor a secret: accepted")
	}
}

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

func TestMayListen(t *testing.T) {
	auth := testKeys(t)
	for _, c := range []struct {
		name, addr string
		o          Options
		want       bool
	}{
		{"loopback", "127.0.0.1:8080", Options{}, true},
		{"loopback, v6", "[::1]:8080", Options{}, true},
		{"all", "0.0.0.0:8080", Options{}, false},
		{"all, v6", "[::]:8080", Options{}, false},
		{"an address", "10.0.0.5:8080", Options{}, false},
		{"auth without TLS", "10.0.0.5:8080", Options{Auth: auth}, false},
		{"behind a proxy", "10.0.0.5:8080", Options{Auth: auth, TLSElsewhere: true}, true},
		{"proxy without auth", "10.0.0.5:8080", Options{TLSElsewhere: true}, false},
	} {
		s := &Server{opts: c.o}
		if err := s.mayListen(addr(c.addr)); (err == nil) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Serve answers until its context ends, and ends open streams with it.
func TestServe(t *testing.T) {
	w := newWorld(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.server.Serve(ctx, l) }()
	base := "http://" + l.Addr().String()
	if a := w.callAt(base, "GET", "/healthz", ""); a.status != http.StatusOK {
		t.Errorf("healthz: %d", a.status)
	}
	resp, err := http.Get(base + "/v1/triggers/e/events?follow=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("serve: %v", err)
	}
	if _, err := io.ReadAll(resp.Body); errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stream: %v", err)
	}
}

// A web page that points a name of its own at us is not answered, with a log-in or
// without: a proxy or a browser may bring the log-in.
func TestHosts(t *testing.T) {
	own := func(name string) bool { return name == "clock.internal" }
	w := newWorld(t, func(o *Options) { o.OwnHost = own })
	locked, lockedURL := w.gateway(w.engine, func(o *Options) { o.OwnHost, o.Auth = own, testKeys(t) })
	admin := httptest.NewServer(locked.AdminHandler())
	defer admin.Close()
	for _, c := range []struct {
		host string
		want int
	}{
		{"127.0.0.1:8080", 200},
		{"localhost", 200},
		{"LocalHost:8080", 200},
		{"Clock.Internal", 200},
		{"clock.internal.", 200},
		{"[::1]:80", 200},
		{"clock.internal:8080", 200},
		{"evil.example", 403},
		{"localhost.evil.example", 403},
		{"127.0.0.1.evil.example", 403},
	} {
		for at, path := range map[string]string{
			w.url: "/v1/triggers", lockedURL: "/openapi.json", admin.URL: "/healthz",
		} {
			req, _ := http.NewRequest("GET", at+path, nil)
			req.Host = c.host
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != c.want {
				t.Errorf("%s of host %s: %d, want %d", path, c.host, resp.StatusCode, c.want)
			}
		}
	}
}

func TestPagesOfOtherOrigins(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusForbidden, "POST", "/v1/triggers", at(""), "Origin", "https://evil.example")
	w.must(http.StatusForbidden, "DELETE", "/v1/triggers/x", "", "Sec-Fetch-Site", "cross-site")
	// reads are up to CORS, which we do not send
	w.must(http.StatusOK, "GET", "/v1/triggers", "", "Sec-Fetch-Site", "cross-site")
}

func TestMethods(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/h", at(""))
	if a := w.must(http.StatusOK, "HEAD", "/v1/triggers/h", ""); a.body != "" || a.header.Get("ETag") != `"1"` {
		t.Errorf("HEAD: %q, ETag %q", a.body, a.header.Get("ETag"))
	}
	if a := w.must(http.StatusNoContent, "OPTIONS", "/v1/triggers/h",
		""); a.header.Get("Allow") != "DELETE, GET, PATCH, PUT" {
		t.Errorf("Allow %q", a.header.Get("Allow"))
	}
	if a := w.must(http.StatusMethodNotAllowed, "DELETE", "/v1/triggers", ""); a.header.Get("Allow") != "GET, POST" {
		t.Errorf("Allow %q", a.header.Get("Allow"))
	}
	w.must(http.StatusUnsupportedMediaType, "POST", "/v1/triggers", at(""), "Content-Type",
		"multipart/form-data; boundary=x")
}

// What runs us is not shown beyond loopback, but on the admin listener.
func TestAdminPaths(t *testing.T) {
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })
	w := newWorld(t, func(o *Options) { o.Metrics = metrics })
	locked, _ := w.gateway(w.engine, func(o *Options) { o.Metrics, o.Auth = metrics, testKeys(t) })
	ask := func(h http.Handler, path string, local net.Addr) int {
		r := httptest.NewRequest("GET", path, nil)
		r.Host = "10.0.0.5:9100"
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		return rec.Code
	}
	outside, inside := addr("10.0.0.5:8080"), addr("127.0.0.1:8080")
	for _, c := range []struct {
		name string
		h    http.Handler
		path string
		at   net.Addr
		want int
	}{
		{"API, loopback", w.server.Handler(), "/healthz", inside, 200},
		{"API, beyond", w.server.Handler(), "/healthz", outside, 404},
		{"admin", w.server.AdminHandler(), "/healthz", outside, 200},
		{"admin serves no API", w.server.AdminHandler(), "/v1/triggers", inside, 404},
		{"metrics, loopback", w.server.Handler(), "/metrics", inside, 200},
		{"metrics, beyond", w.server.Handler(), "/metrics", outside, 404},
		{"metrics beside auth", locked.Handler(), "/metrics", inside, 404},
		{"metrics beside auth, admin", locked.AdminHandler(), "/metrics", outside, 200},
		{"readyz beside auth", locked.Handler(), "/readyz", inside, 404},
		{"healthz beside auth", locked.Handler(), "/healthz", inside, 404},
		{"readyz beside auth, admin", locked.AdminHandler(), "/readyz", outside, 200},
	} {
		if got := ask(c.h, c.path, c.at); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestPanicIsAnAnswer(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Ready = func() error { panic("boom") } })
	a := w.must(http.StatusInternalServerError, "GET", "/readyz", "")
	if strings.Contains(a.body, "boom") {
		t.Errorf("the answer tells %s", a.body)
	}
}

// Who sends headers drop by drop is cut off; headers without end are refused.
func TestSlowAndLargeHeaders(t *testing.T) {
	srv := NewHTTPServer(http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	srv.ReadHeaderTimeout = 50 * time.Millisecond
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l)
	defer srv.Close()
	slow, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fmt.Fprint(slow, "GET / HTTP/1.1\r\nHost: localhost\r\nX-")
	if b, err := io.ReadAll(slow); err != nil && len(b) == 0 {
		t.Errorf("cut off with %q, %v", b, err)
	}
	large, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer large.Close()
	go fmt.Fprintf(large, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Large: %s\r\n\r\n",
		strings.Repeat("x", 2*maxHeaderBytes))
	resp, err := http.ReadResponse(bufio.NewReader(large), nil) //nolint:bodyclose // the connection is closed
	if err != nil || resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("large headers: %v, %v", resp, err)
	}
}

func TestActorIsPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"svc": "svc", "a\x00b\nc\u0085": "abc", "\xff": "",
		strings.Repeat("ä", 200): strings.Repeat("ä", 127),
	} {
		if got := recordable(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

// The body's bound, one byte before and one behind.
func TestBodyBounds(t *testing.T) {
	w := newWorld(t, nil)
	limit := int(w.server.writes.bodies.maxBody())
	for _, c := range []struct{ extra, want int }{{0, 201}, {1, 413}} {
		body := at("")
		body += strings.Repeat(" ", limit-len(body)+c.extra)
		w.must(c.want, "PUT", fmt.Sprintf("/v1/triggers/b%d", c.extra), body)
	}
	for _, c := range []struct{ size, want int }{{4096, 201}, {4097, 413}} { // limits.payload, quotes and all
		w.must(c.want, "PUT", fmt.Sprintf("/v1/triggers/p%d", c.size),
			at(`,"payload":"`+strings.Repeat("x", c.size-2)+`"`))
	}
}

// A command carries who asked, the caller's trace, and the mark that makes the
// owner remember.
func TestCommandOnTheLog(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth = testKeys(t) })
	w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(`,"payload":{"a": 1}`), "Authorization", "Bearer "+keyB,
		"Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	r := w.records(topics.Names{}.Commands(), 1)[0]
	if string(r.Key) != "blue/t" || r.Partition != topics.Partition(r.Key, testPartitions) {
		t.Errorf("key %s on partition %d", r.Key, r.Partition)
	}
	if want := `{"op":"register","fire_at":"` + farAhead +
		`","payload":{"a": 1},"actor":"blue-service"}`; string(r.Value) != want {
		t.Errorf("value %s", r.Value)
	}
	var names []string
	for _, h := range r.Headers {
		names = append(names, h.Key)
	}
	if got := strings.Join(names, " "); got != "traceparent wcx-ask" {
		t.Errorf("headers %s", got)
	}
}
