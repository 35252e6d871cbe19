package gateway

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestStreamsOfAConnection: an HTTP/2 connection has at most 32 streams under way. With Go's 250, a rapid reset cost an
// honest caller over a second.
func TestStreamsOfAConnection(t *testing.T) {
	s := httptest.NewUnstartedServer(nil)
	s.Config = NewHTTPServer(http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	conn, err := tls.Dial("tcp", s.Listener.Addr().String(),
		&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) // the test's own certificate
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	const preface, noSettings = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	if _, err := io.WriteString(conn, preface+noSettings); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 9) // RFC 9113, section 4.1: length, type, flags, stream
	if _, err := io.ReadFull(conn, head); err != nil || head[3] != 4 {
		t.Fatalf("the first frame is %x: %v", head, err)
	}
	settings := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	if _, err := io.ReadFull(conn, settings); err != nil {
		t.Fatal(err)
	}
	const maxConcurrentStreams = 3 // section 6.5.2
	for ; len(settings) >= 6; settings = settings[6:] {
		if binary.BigEndian.Uint16(settings) == maxConcurrentStreams {
			if n := binary.BigEndian.Uint32(settings[2:]); n != 32 {
				t.Errorf("a connection may have %d streams", n)
			}
			return
		}
	}
	t.Error("a connection may have any number of streams")
}
