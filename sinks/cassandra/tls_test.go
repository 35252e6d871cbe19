package cassandra

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/services"
)

// A TLS-only node: a listener with a certificate for 127.0.0.1, which forwards to the plain node.
func TestTLS(t *testing.T) {
	plain := services.Cassandra(t).Hosts[0]
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certified.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go serve(ln, plain)

	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	for _, c := range []struct {
		name string
		tls  *tls.Config
		ok   bool
	}{
		{"trusted", &tls.Config{RootCAs: roots}, true},
		{"unknown authority", &tls.Config{RootCAs: x509.NewCertPool()}, false},
		{"another name", &tls.Config{RootCAs: roots, ServerName: "cassandra.invalid"}, false},
		{"plain text", nil, false},
	} {
		o := Options{Hosts: []string{ln.Addr().String()}, TLS: c.tls, Timeout: 3 * time.Second}.withDefaults()
		session, err := oneNode(o, "system")
		if err == nil {
			err = session.Query(`SELECT release_version FROM local`).WithContext(context.Background()).Exec()
			session.Close()
		}
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func serve(ln net.Listener, to string) {
	for {
		in, err := ln.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", to)
		if err != nil {
			in.Close()
			continue
		}
		go func() { io.Copy(out, in); out.Close() }()
		go func() { io.Copy(in, out); in.Close() }()
	}
}
