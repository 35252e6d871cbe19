package webhook

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/internal/egress"
)

// h2Conn is a connection of a hostile receiver that speaks HTTP/2.
type h2Conn struct {
	*http2.Framer
	conn   net.Conn
	stream uint32 // of the request
}

func (c *h2Conn) head(status string, more ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	_ = e.WriteField(hpack.HeaderField{Name: ":status", Value: status})
	for i := 0; i+1 < len(more); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: more[i], Value: more[i+1]})
	}
	return b.Bytes()
}

func (c *h2Conn) answer(status string, end bool, more ...string) error {
	return c.WriteHeaders(http2.HeadersFrameParam{
		StreamID: c.stream, BlockFragment: c.head(status, more...), EndHeaders: true, EndStream: end,
	})
}

// h2Server answers each request by a function.
func h2Server(t *testing.T, settings []http2.Setting, answer func(*h2Conn)) (url string, roots *x509.CertPool,
	conns *atomic.Int32,
) {
	t.Helper()
	certified := httptest.NewTLSServer(http.NotFoundHandler())
	defer certified.Close()
	roots = x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: certified.TLS.Certificates, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	made := new(atomic.Int32)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			made.Add(1)
			go serveH2(conn, settings, answer)
		}
	}()
	return "https://" + ln.Addr().String() + "/", roots, made
}

func serveH2(conn net.Conn, settings []http2.Setting, answer func(*h2Conn)) {
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	c := &h2Conn{Framer: http2.NewFramer(conn, conn), conn: conn}
	c.AllowIllegalWrites = true
	if err := c.WriteSettings(settings...); err != nil {
		return
	}
	if len(settings) > 0 && answer == nil {
		_, _ = io.Copy(io.Discard, conn)
		return
	}
	for {
		f, err := c.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = c.WriteSettingsAck()
			}
		case *http2.HeadersFrame:
			c.stream = f.StreamID
			answer(c)
		}
	}
}

// A misbehaving HTTP/2 receiver causes a retry. It costs at most the time-out, and few
// connections.
func TestHostileHTTP2(t *testing.T) {
	for _, row := range []struct {
		name     string
		settings []http2.Setting
		answer   func(*h2Conn)
		codes    string
	}{
		{"lets nobody in", []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: 0}}, nil, CodeTimeout},
		{"takes no body", []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}, nil, CodeTimeout},
		{"refuses each stream", nil, func(c *h2Conn) {
			_ = c.WriteRSTStream(c.stream, http2.ErrCodeRefusedStream)
		}, CodeTimeout + " " + CodeReset + " " + CodeProtocol},
		{"resets each stream", nil, func(c *h2Conn) {
			_ = c.WriteRSTStream(c.stream, http2.ErrCodeInternal)
		}, CodeReset + " " + CodeProtocol},
		{"says good-bye", nil, func(c *h2Conn) {
			_ = c.WriteGoAway(0, http2.ErrCodeNo, nil)
			c.conn.Close()
		}, CodeTimeout + " " + CodeReset + " " + CodeProtocol},
		{"ends before its length", nil, func(c *h2Conn) {
			_ = c.answer("200", false, "content-length", "10")
			_ = c.WriteData(c.stream, true, []byte("short"))
		}, CodeReset + " " + CodeProtocol},
		{"says more than its length", nil, func(c *h2Conn) {
			_ = c.answer("200", false, "content-length", "1")
			_ = c.WriteData(c.stream, true, []byte("much more"))
		}, CodeReset + " " + CodeProtocol},
		{"ends with a reset", nil, func(c *h2Conn) {
			_ = c.answer("200", false)
			_ = c.WriteData(c.stream, false, []byte("half"))
			_ = c.WriteRSTStream(c.stream, http2.ErrCodeInternal)
		}, CodeReset + " " + CodeProtocol},
		{"trickles", nil, func(c *h2Conn) {
			_ = c.answer("200", false)
			for c.WriteData(c.stream, false, []byte("x")) == nil {
				time.Sleep(20 * time.Millisecond)
			}
		}, CodeTimeout},
		{"heeds no window", nil, func(c *h2Conn) {
			_ = c.answer("200", false)
			block := make([]byte, 16<<10)
			for c.WriteData(c.stream, false, block) == nil {
			}
		}, CodeTooLarge + " " + CodeReset + " " + CodeProtocol},
		{"a head without end", nil, func(c *h2Conn) {
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: c.head("200")})
			part := c.head("200", "x-filler", strings.Repeat("y", 8<<10))
			for c.WriteContinuation(c.stream, false, part) == nil {
			}
		}, CodeReset + " " + CodeProtocol + " " + CodeTimeout + " " + CodeConnection},
		{"a large head", nil, func(c *h2Conn) {
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: c.head("200")})
			for range 20 {
				_ = c.WriteContinuation(c.stream, false, c.head("200", "x-filler", strings.Repeat("y", 8<<10))[1:])
			}
			_ = c.WriteContinuation(c.stream, true, nil)
		}, CodeReset + " " + CodeProtocol},
		{"pings without end", nil, func(c *h2Conn) {
			go func() { _, _ = io.Copy(io.Discard, c.conn) }()
			for c.WritePing(false, [8]byte{}) == nil {
			}
		}, CodeTimeout},
		{"interim answers without end", nil, func(c *h2Conn) {
			for c.answer("103", false, "link", "</x>") == nil {
			}
		}, CodeTimeout + " " + CodeReset + " " + CodeProtocol},
		{"pushes", nil, func(c *h2Conn) {
			_ = c.WritePushPromise(http2.PushPromiseParam{
				StreamID: c.stream, PromiseID: 2, BlockFragment: c.head("200"), EndHeaders: true,
			})
		}, CodeReset + " " + CodeProtocol + " " + CodeConnection},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			url, roots, conns := h2Server(t, row.settings, row.answer)
			policy := loopback(t)
			transport := egress.NewTransport(egress.Options{Policy: policy, RootCAs: roots})
			t.Cleanup(transport.CloseIdleConnections)
			w := newTestWorker(t, func(o *Options) {
				o.Policy, o.Transport, o.AnswerLimit = policy, transport, 256<<10
			})
			begun := time.Now()
			r := w.one(t, due("k", to(url, "timeout", "2s")))
			if r.Outcome != worker.OutcomeRetry || !strings.Contains(row.codes, r.Code) || r.Code == "" {
				t.Errorf("%+v, want a retry, code %s", r, row.codes)
			}
			if took := time.Since(begun); took > 12*time.Second {
				t.Errorf("took %v of 2 s", took)
			}
			if n := conns.Load(); n > 5 {
				t.Errorf("%d connections for one attempt", n)
			}
			if strings.Contains(r.Detail, "127.0.0.1") {
				t.Errorf("the detail has an address: %s", r.Detail)
			}
		})
	}
}
