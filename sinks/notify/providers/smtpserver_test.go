package providers

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/mail"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"
)

// certificate is a self-signed certificate for 127.0.0.1 and localhost.
type certificate struct {
	tls.Certificate
	roots     *x509.CertPool
	cert, key []byte // PEM
}

func newCertificate(t testing.TB) certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	spelled, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	c := certificate{
		cert:  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:   pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: spelled}),
		roots: x509.NewCertPool(),
	}
	if c.Certificate, err = tls.X509KeyPair(c.cert, c.key); err != nil {
		t.Fatal(err)
	}
	c.roots.AppendCertsFromPEM(c.cert)
	return c
}

// Points at which a script may replace the answer of smtpServer.
const (
	onGreeting = "GREETING"
	onText     = "TEXT" // after the whole mail
)

// smtpServer is a mail server (RFC 5321) that a test controls.
type smtpServer struct {
	t    testing.TB
	ln   net.Listener
	cert certificate
	tls  string // as SMTPOptions.TLS
	auth string // mechanisms; "": no AUTH

	mu          sync.Mutex
	script      map[string]string // by command: an answer, "hang" or "close"
	once        map[string]string // the same, for one answer
	mails       []receivedMail
	connections int
	dialogue    []string // commands
	open        map[net.Conn]bool
	hanging     chan struct{} // closed at the end
}

type receivedMail struct {
	from, to string
	raw      string
	*mail.Message
	body string
}

func newSMTPServer(t testing.TB, mode, auth string) *smtpServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &smtpServer{
		t: t, ln: ln, cert: newCertificate(t), tls: mode, auth: auth, script: map[string]string{},
		open: map[net.Conn]bool{}, hanging: make(chan struct{}),
	}
	if mode == TLSImplicit {
		s.ln = tls.NewListener(ln, s.config())
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := s.ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() {
		s.ln.Close()
		close(s.hanging)
		s.mu.Lock()
		for c := range s.open {
			c.Close()
		}
		s.mu.Unlock()
		all.Wait()
	})
	return s
}

func (s *smtpServer) config() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{s.cert.Certificate}}
}

// options returns the options of a provider for this server.
func (s *smtpServer) options() SMTPOptions {
	addr := s.ln.Addr().(*net.TCPAddr)
	o := SMTPOptions{
		Host: "127.0.0.1", Port: addr.Port, TLS: s.tls, From: "Waterclock <remind@example.com>", Roots: s.cert.roots,
	}
	if s.auth != "" {
		o.Username, o.Password = "relay", func() (string, error) { return "canary-password", nil }
	}
	return o
}

func (s *smtpServer) says(script map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

func (s *smtpServer) received() []receivedMail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]receivedMail{}, s.mails...)
}

// answer writes the answer of the script, or else the server's own. ok is false if the connection
// must end.
func (s *smtpServer) answer(c net.Conn, command, own string) (scripted, ok bool) {
	s.mu.Lock()
	says := s.script[command]
	if next, ok := s.once[command]; ok {
		says = next
		delete(s.once, command)
	}
	s.mu.Unlock()
	switch says {
	case "":
		says = own
	case "hang":
		<-s.hanging
		return true, false
	case "close":
		return true, false
	default:
		scripted = true
	}
	_, err := fmt.Fprintf(c, "%s\r\n", strings.ReplaceAll(says, "\n", "\r\n"))
	return scripted, err == nil && !strings.HasPrefix(says, "421")
}

func (s *smtpServer) serve(c net.Conn) {
	s.mu.Lock()
	s.connections++
	s.open[c] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.open, c)
		s.mu.Unlock()
		c.Close()
	}()
	if _, ok := s.answer(c, onGreeting, "220 test ESMTP"); ok {
		s.dialog(c, s.tls == TLSImplicit)
	}
}

func (s *smtpServer) dialog(c net.Conn, encrypted bool) {
	r := textproto.NewReader(bufio.NewReader(c))
	var now receivedMail
	for {
		line, err := r.ReadLine()
		if err != nil {
			return
		}
		command, rest, _ := strings.Cut(line, " ")
		command = strings.ToUpper(command)
		s.mu.Lock()
		s.dialogue = append(s.dialogue, line)
		s.mu.Unlock()
		own := "250 2.0.0 Ok"
		switch command {
		case "EHLO":
			own = "250-test"
			if s.tls == TLSStart && !encrypted {
				own += "\n250-STARTTLS"
			}
			if s.auth != "" {
				own += "\n250-AUTH " + s.auth
			}
			own += "\n250-8BITMIME\n250 ENHANCEDSTATUSCODES"
		case "STARTTLS":
			own = "220 2.0.0 Go"
		case "AUTH":
			own = s.authenticate(c, r, rest)
		case "DATA":
			own = "354 Go"
		case "QUIT":
			own = "221 2.0.0 Bye"
		}
		scripted, ok := s.answer(c, command, own)
		if !ok || command == "QUIT" {
			return
		}
		if scripted {
			continue
		}
		switch command {
		case "STARTTLS":
			s.dialog(tls.Server(c, s.config()), true)
			return
		case "MAIL":
			now = receivedMail{from: rest}
		case "RCPT":
			now.to = strings.TrimSuffix(strings.TrimPrefix(rest, "TO:<"), ">")
		case "DATA":
			if !s.text(c, r, now) {
				return
			}
		}
	}
}

func (s *smtpServer) text(c net.Conn, r *textproto.Reader, m receivedMail) bool {
	raw, err := r.ReadDotBytes()
	if err != nil {
		return false
	}
	m.raw = string(raw)
	if m.Message, err = mail.ReadMessage(strings.NewReader(m.raw)); err != nil {
		s.t.Errorf("no mail: %v: %q", err, m.raw)
		return false
	}
	body, err := io.ReadAll(m.Body)
	if err != nil {
		return false
	}
	m.body = string(body)
	s.mu.Lock()
	taken := s.script[onText] == "" || s.script[onText] == "close"
	if taken {
		s.mails = append(s.mails, m)
	}
	s.mu.Unlock()
	_, ok := s.answer(c, onText, "250 2.0.0 Ok: queued as 4F1")
	return ok
}

// authenticate checks relay and canary-password by PLAIN (RFC 4616) or LOGIN.
func (s *smtpServer) authenticate(c net.Conn, r *textproto.Reader, rest string) string {
	mechanism, initial, _ := strings.Cut(rest, " ")
	ask := func(prompt string) string {
		fmt.Fprintf(c, "334 %s\r\n", base64.StdEncoding.EncodeToString([]byte(prompt)))
		line, _ := r.ReadLine()
		b, _ := base64.StdEncoding.DecodeString(line)
		return string(b)
	}
	said := ""
	switch strings.ToUpper(mechanism) {
	case "PLAIN":
		b, _ := base64.StdEncoding.DecodeString(initial)
		said = string(b)
	case "LOGIN":
		said = "\x00" + ask("Username:") + "\x00" + ask("Password:")
	}
	if said != "\x00relay\x00canary-password" {
		return "535 5.7.8 Error: authentication failed"
	}
	return "235 2.7.0 Authentication successful"
}
