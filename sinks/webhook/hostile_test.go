package webhook

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/internal/egress"
)

// rawServer answers each connection by a function, once the request's headers have been read.
func rawServer(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					_, _ = io.Copy(io.Discard, r.Body)
				}
				answer(conn)
			}()
		}
	}()
	return "http://" + ln.Addr().String()
}

// A misbehaving receiver causes a retry. It costs at most the time-out, and no memory.
func TestHostileReceivers(t *testing.T) {
	say := func(text string) func(net.Conn) {
		return func(c net.Conn) { fmt.Fprint(c, text) }
	}
	for _, row := range []struct {
		name   string
		answer func(net.Conn)
		codes  string // any of them
	}{
		{"says nothing", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, CodeTimeout},
		{"closes", func(net.Conn) {}, CodeReset},
		{"resets", func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }, CodeReset},
		{"trickles its head", func(c net.Conn) {
			for {
				if _, err := fmt.Fprint(c, "H"); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}, CodeTimeout + " " + CodeProtocol},
		{"trickles its body", func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n")
			for {
				if _, err := fmt.Fprint(c, "x"); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}, CodeTimeout},
		{"never ends", func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n")
			block := make([]byte, 64<<10)
			for {
				if _, err := c.Write(block); err != nil {
					return
				}
			}
		}, CodeTooLarge},
		{"promises more", say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"), CodeReset},
		{"cuts a chunk", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nshort"), CodeReset},
		{"two lengths", say("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"), CodeProtocol},
		{"negative length", say("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nxx"), CodeProtocol},
		{"no HTTP", say("SSH-2.0-OpenSSH_9.2\r\n"), CodeProtocol},
		{"status 999", say("HTTP/1.1 999 x\r\nContent-Length: 0\r\n\r\n"), CodeBadStatus},
		{
			"switches protocols", say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
			CodeBadStatus + " " + CodeReset,
		},
		{"switches protocols and stays", func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		}, CodeBadStatus},
		{"a head without end", func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\n")
			for i := 0; ; i++ {
				if _, err := fmt.Fprintf(c, "X-%d: %s\r\n", i, strings.Repeat("y", 1000)); err != nil {
					return
				}
			}
		}, CodeProtocol},
		{"interim answers without end", func(c net.Conn) {
			for {
				if _, err := fmt.Fprint(c, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"); err != nil {
					return
				}
			}
		}, CodeProtocol + " " + CodeTimeout},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newTestWorker(t, func(o *Options) { o.AnswerLimit = 256 << 10 })
			r := w.one(t, due("k", to(rawServer(t, row.answer)+"/", "timeout", "400ms")))
			if r.Outcome != worker.OutcomeRetry || !strings.Contains(row.codes, r.Code) || r.Code == "" {
				t.Errorf("%+v, want a retry, code %s", r, row.codes)
			}
		})
	}
}

// A redirect counts as an answer. Its target is never called.
func TestRedirectIsNotFollowed(t *testing.T) {
	var followed atomic.Int32
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) }))
	defer target.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		s := httptest.NewServer(http.RedirectHandler(target.URL, code))
		r := newTestWorker(t).one(t, due("k", to(s.URL)))
		s.Close()
		if r.Outcome != worker.OutcomeFailed || r.Code != CodeRedirect {
			t.Errorf("%d: %+v", code, r)
		}
	}
	if n := followed.Load(); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

// If DNS refuses or is down, the call is retried, and the detail does not name the resolver.
func TestDNSAway(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, dial := range map[string]func(context.Context, string, string) (net.Conn, error){
		"refuses": func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "udp", Addr: silent.LocalAddr(), Err: syscall.ECONNREFUSED}
		},
		"is silent": func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "udp", silent.LocalAddr().String())
		},
	} {
		t.Run(name, func(t *testing.T) {
			transport := egress.NewTransport(egress.Options{Resolver: &net.Resolver{PreferGo: true, Dial: dial}})
			w := newTestWorker(t, func(o *Options) { o.Policy, o.Transport = new(egress.Policy), transport })
			r := w.one(t, due("k", to("https://hooks.example.com/", "timeout", "400ms")))
			if r.Outcome != worker.OutcomeRetry || r.Code != CodeDNS && r.Code != CodeTimeout ||
				strings.Contains(r.Detail, "127.0.0.1") {
				t.Errorf("%+v", r)
			}
			if s := w.Status()[0]; s.Failed != 1 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Receivers that block the handshake, have a self-signed certificate, or speak HTTP in place of
// TLS.
func TestHostileTLS(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	s.Config.ErrorLog = nil
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for url, code := range map[string]string{
		"https://" + silent.Addr().String(): CodeTimeout,
		s.URL:                               CodeTLS,
		strings.Replace(plain.URL, "http://", "https://", 1): CodeTLS + " " + CodeProtocol,
	} {
		r := newTestWorker(t).one(t, due("k", to(url, "timeout", "400ms")))
		if r.Outcome != worker.OutcomeRetry || !strings.Contains(code, r.Code) {
			t.Errorf("%s: %+v, want %s", url, r, code)
		}
	}
}

// 100 concurrent answers of 100 MB are each cut at the limit.
func TestLargeAnswersTakeNoMemory(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		block := make([]byte, 1<<20)
		for range 100 {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	w := newTestWorker(t, func(o *Options) {
		o.Breaker = Breaker{Failures: 0.5, Requests: 1000, Window: time.Minute, Open: time.Minute}
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	done := make(chan worker.Result)
	for range 100 {
		go func() {
			r, _ := w.Handle(context.Background(), due("k", to(s.URL, "timeout", "60s")))
			done <- r
		}()
	}
	for range 100 {
		if r := <-done; r.Code != CodeTooLarge {
			t.Errorf("%+v", r)
		}
	}
	runtime.ReadMemStats(&after)
	// The receivers of this test run in the same process and allocate 1 MiB each.
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 250<<20 {
		t.Errorf("%d MiB allocated", grown>>20)
	}
}

// A connection is reused after any complete answer.
func TestConnectionsAreReused(t *testing.T) {
	conns := map[string]bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conns[r.RemoteAddr] = true
		w.WriteHeader(map[bool]int{true: 500, false: 200}[len(conns)%2 == 0])
		_, _ = w.Write(make([]byte, 100<<10))
	}))
	defer s.Close()
	w := newTestWorker(t)
	for range 20 {
		w.one(t, due("k", to(s.URL)))
	}
	if len(conns) != 1 {
		t.Errorf("%d connections for 20 calls one after the other", len(conns))
	}
}
