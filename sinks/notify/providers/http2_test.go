package providers_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/waterclock/waterclock/sinks/notify/providers"
)

// rawServer speaks HTTP/2 frame by frame. So a test can do what APNs does and no server of
// net/http would.
type rawServer struct {
	url      string
	http     providers.HTTP
	settings []http2.Setting
	on       func(c *rawConn, stream uint32) // called when a request is complete

	mu    sync.Mutex
	conns int
	most  int // maximum of open streams on one connection
	paths []string
}

type rawConn struct {
	*http2.Framer
	server *rawServer
	number int // from 1
	out    sync.Mutex

	mu   sync.Mutex
	open int
}

func startRaw(t *testing.T, on func(c *rawConn, stream uint32), settings ...http2.Setting) *rawServer {
	t.Helper()
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS() // for its certificate
	t.Cleanup(cert.Close)
	s := &rawServer{on: on, settings: settings}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: cert.TLS.Certificates, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.url = "https://" + l.Addr().String()
	s.http = (&server{Server: cert}).http(nil)
	s.http.URL = s.url
	var done sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); done.Wait() })
	done.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			done.Go(func() { s.serve(conn) })
		}
	})
	return s
}

func (s *rawServer) serve(conn net.Conn) {
	defer conn.Close()
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(conn, preface); err != nil {
		return
	}
	s.mu.Lock()
	s.conns++
	c := &rawConn{Framer: http2.NewFramer(conn, conn), server: s, number: s.conns}
	s.mu.Unlock()
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.locked(func() error { return c.WriteSettings(s.settings...) })
	for {
		f, err := c.ReadFrame()
		if err != nil {
			return
		}
		c.take(f)
	}
}

func (c *rawConn) take(f http2.Frame) {
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			c.locked(c.WriteSettingsAck)
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			c.locked(func() error { return c.WritePing(true, f.Data) })
		}
	case *http2.MetaHeadersFrame:
		c.mu.Lock()
		c.open++
		open := c.open
		c.mu.Unlock()
		c.server.mu.Lock()
		c.server.most = max(c.server.most, open)
		c.server.paths = append(c.server.paths, f.PseudoValue("path"))
		c.server.mu.Unlock()
	case *http2.DataFrame:
		if n := f.Length; n > 0 {
			c.locked(func() error { return c.WriteWindowUpdate(0, n) })
		}
		if f.StreamEnded() {
			c.server.on(c, f.StreamID)
		}
	}
}

// locked writes frames one after another. It writes nothing to a connection that has ended.
func (c *rawConn) locked(write func() error) {
	c.out.Lock()
	defer c.out.Unlock()
	if err := write(); err != nil && !errors.Is(err, net.ErrClosed) {
		return
	}
}

// ok answers 200 without a body.
func (c *rawConn) ok(stream uint32) {
	c.mu.Lock()
	c.open--
	c.mu.Unlock()
	var b bytes.Buffer
	_ = hpack.NewEncoder(&b).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	c.locked(func() error {
		return c.WriteHeaders(http2.HeadersFrameParam{
			StreamID: stream, BlockFragment: b.Bytes(), EndHeaders: true, EndStream: true,
		})
	})
}

func (c *rawConn) reset(stream uint32, code http2.ErrCode) {
	c.mu.Lock()
	c.open--
	c.mu.Unlock()
	c.locked(func() error { return c.WriteRSTStream(stream, code) })
}

func (s *rawServer) seen() (conns, most, requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns, s.most, len(s.paths)
}

// APNs ends connections with GOAWAY, also in the middle of a burst. Requests that it did not
// process are sent on the next connection. Nothing is sent twice.
func TestAPNsGoAway(t *testing.T) {
	s := startRaw(t, func(c *rawConn, stream uint32) {
		if c.number == 1 && stream > 1 {
			c.locked(func() error { return c.WriteGoAway(1, http2.ErrCodeNo, []byte(`{"reason":"Shutdown"}`)) })
			return // this stream and later ones were not processed
		}
		c.ok(stream)
	})
	a := newAPNs(t, s.http, ecKey(t))
	for i := range 3 {
		if got := said(a.Send(t.Context(), message(device))); got != "accepted" {
			t.Fatal(i, got)
		}
	}
	if conns, _, requests := s.seen(); conns != 2 || requests != 4 {
		t.Fatalf("%d connections, %d requests", conns, requests)
	}
}

// A refused stream was not processed (RFC 9113 8.7), so it is sent again at once. Any other reset
// may come after the push was accepted, so the engine decides on it.
func TestAPNsStreamResets(t *testing.T) {
	refuse := true
	s := startRaw(t, func(c *rawConn, stream uint32) {
		if refuse { // one goroutine per connection, and one message at a time
			refuse = false
			c.reset(stream, http2.ErrCodeRefusedStream)
			return
		}
		c.ok(stream)
	})
	a := newAPNs(t, s.http, ecKey(t))
	if got := said(a.Send(t.Context(), message(device))); got != "accepted" {
		t.Fatal(got)
	}
	s = startRaw(t, func(c *rawConn, stream uint32) { c.reset(stream, http2.ErrCodeInternal) })
	a = newAPNs(t, s.http, ecKey(t))
	answer := a.Send(t.Context(), message(device))
	if got := said(answer); got != "retry connection_reset" ||
		answer.Result.Detail != "it may have been sent: connection_reset" {
		t.Fatal(got, answer.Result.Detail)
	}
	if _, _, requests := s.seen(); requests != 1 {
		t.Fatal(requests)
	}
}

// APNs permits one stream until it has accepted a token, and says so in its settings. No
// connection has more, and messages do not open a connection each.
func TestAPNsMaxConcurrentStreams(t *testing.T) {
	const messages = 200
	s := startRaw(t, func(c *rawConn, stream uint32) { c.ok(stream) },
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
	a := newAPNs(t, s.http, ecKey(t))
	a.Send(t.Context(), message(device)) // so that the settings are known
	answers := make(chan string, messages)
	for i := range messages {
		m := message(device)
		m.ID = fmt.Sprintf("k@%d#0", i)
		go func() { answers <- said(a.Send(t.Context(), m)) }()
	}
	for range messages {
		if got := <-answers; got != "accepted" {
			t.Fatal(got)
		}
	}
	if conns, most, requests := s.seen(); most != 1 || requests != messages+1 || conns > 4 {
		t.Fatalf("%d connections, %d streams at once, %d requests", conns, most, requests)
	}
}

// Many concurrent messages to a server without a connection: the bound on connections holds, and
// all messages arrive.
func TestConnectionsAreBounded(t *testing.T) {
	s := startRaw(t, func(c *rawConn, stream uint32) { c.ok(stream) },
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 10})
	a := newAPNs(t, s.http, ecKey(t))
	answers := make(chan string, 300)
	for range cap(answers) {
		go func() { answers <- said(a.Send(t.Context(), message(device))) }()
	}
	for range cap(answers) {
		if got := <-answers; got != "accepted" {
			t.Fatal(got)
		}
	}
	if conns, most, _ := s.seen(); conns > 4 || most > 100 {
		t.Fatalf("%d connections, %d streams at once", conns, most)
	}
}

// A server that hangs delays a message by at most its own time-out. The detail shows whether the
// message may have been sent meanwhile.
func TestAPNsHangingServer(t *testing.T) {
	s := startRaw(t, func(*rawConn, uint32) {})
	a := newAPNs(t, s.http, ecKey(t))
	for within := 10 * time.Millisecond; ; within *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		answer := a.Send(ctx, message(device))
		cancel()
		if got := said(answer); got != "retry timeout" {
			t.Fatal(got, answer.Result.Detail)
		}
		if answer.Result.Detail == "it may have been sent: timeout" {
			return
		}
		if answer.Result.Detail != "not sent: timeout" { // the time-out was too short to connect
			t.Fatal(answer.Result.Detail)
		}
	}
}
