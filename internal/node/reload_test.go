package node

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/logtest"
)

func put(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
}

// pairFor writes a certificate for a host name.
func pairFor(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	like := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, like, like, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	put(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), 0o600)
	put(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})), 0o600)
	return cert, key
}

// A changed file takes effect at once. A file that cannot be used leaves the old content in
// force. A file that anybody may write to is not read.
func TestReloads(t *testing.T) {
	dir := t.TempDir()
	keys, secret := filepath.Join(dir, "keys"), filepath.Join(dir, "secret")
	key := func(n int) string { return fmt.Sprintf("key-%036d", n) }
	put(t, keys, "acme "+key(1)+"\n", 0o600)
	put(t, secret, "the first secret of all\n", 0o600)
	cert, private := pairFor(t, dir, "one.example")
	c, err := config.Load(config.Options{Env: []string{
		"WATERCLOCK_AUTH_KEYS_FILE=" + keys, "WATERCLOCK_INTERNAL_SECRET_FILE=" + secret,
		"WATERCLOCK_HTTP_TLS_CERT=" + cert, "WATERCLOCK_HTTP_TLS_KEY=" + private,
		"WATERCLOCK_HTTP_HOSTS=a.example,*.b.example",
	}})
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	n := &node{cfg: c, log: slog.New(slog.NewTextHandler(&said, nil))}
	if err := n.openCert(); err != nil {
		t.Fatal(err)
	}
	if err := n.openPeers(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := n.authenticator(); err != nil {
		t.Fatal(err)
	}
	r := newReloads(n.log,
		subject{name: "keys", files: []string{keys}, load: n.loadKeys},
		subject{name: "cert", files: []string{cert, private}, load: n.cert.load},
		subject{name: "secret", files: n.peerFiles(), load: n.loadPeers}, subject{name: "nothing"})
	knows := func(k string) bool {
		req, _ := http.NewRequest(http.MethodGet, "/", nil)
		req.Header.Set("X-API-Key", k)
		_, err := n.keys.Authenticate(req)
		return err == nil
	}
	signs := func() string { return string(n.peers.Secrets()[0]) }
	if r.check(false); said.Len() > 0 {
		t.Errorf("nothing has changed: %s", &said)
	}
	for _, name := range []string{"a.example", "x.b.example", "one.example"} {
		if !n.ownHost(name) {
			t.Errorf("%s is not ours", name)
		}
	}
	for _, name := range []string{
		"b.example", "x.y.b.example", "xb.example", "two.example", "a.example.evil", "x.one.example",
	} {
		if n.ownHost(name) {
			t.Errorf("%s is ours", name)
		}
	}

	put(t, keys, "acme "+key(2)+"\n", 0o600)
	put(t, secret, "the second secret,the first secret of all\n", 0o600)
	pairFor(t, dir, "two.example")
	r.check(false)
	if knows(key(1)) || !knows(key(2)) || signs() != "the second secret" || len(n.peers.Secrets()) != 2 ||
		n.ownHost("one.example") || !n.ownHost("two.example") {
		t.Errorf("what is new does not count; the log: %s", &said)
	}

	put(t, keys, "acme short\n", 0o600)
	put(t, secret, "short\n", 0o600)
	put(t, private, "none", 0o600)
	said.Reset()
	r.check(false)
	if !knows(key(2)) || signs() != "the second secret" || !n.ownHost("two.example") {
		t.Error("what cannot be used put an end to the old")
	}
	if got := strings.Count(said.String(), "stays in use"); got != 3 || strings.Contains(said.String(), "short\n") {
		t.Errorf("%d complaints: %s", got, &said)
	}
	said.Reset()
	if r.check(false); said.Len() > 0 {
		t.Errorf("complained twice: %s", &said)
	}

	put(t, keys, "acme "+key(3)+"\n", 0o666)
	if r.check(false); knows(key(3)) {
		t.Error("a keys file that anybody may write was read")
	}
	put(t, keys, "acme "+key(3)+"\n", 0o600) // the same text
	if r.check(false); !knows(key(3)) {
		t.Error("a file whose mode was mended is not read")
	}
	loaded := strings.Count(said.String(), "read again")
	if r.check(true); strings.Count(said.String(), "read again") == loaded {
		t.Error("told to read all, and did not")
	}
	if err := os.Remove(secret); err != nil {
		t.Fatal(err)
	}
	if r.check(false); signs() != "the second secret" {
		t.Error("a secret that is gone put an end to the old")
	}
}

// A key that is withdrawn after the process read the file, and before it begins to look at it, is
// refused from the first check on.
func TestReloadOfWhatChangedDuringTheStart(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	key := func(n int) string { return fmt.Sprintf("key-%036d", n) }
	put(t, keys, "acme "+key(1)+"\n", 0o600)
	log := &logtest.Buffer{}
	n := &node{
		cfg: &config.Config{Auth: config.Auth{KeysFile: keys}, Reload: config.Reload{Interval: time.Hour}},
		log: slog.New(slog.NewTextHandler(log, nil)),
	}
	if _, err := n.authenticator(); err != nil {
		t.Fatal(err)
	}
	put(t, keys, "acme "+key(2)+"\n", 0o600)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := newReloads(n.log, subject{name: "keys", files: []string{keys}, load: n.loadKeys})
		go r.run(ctx, time.Hour, nil)
		synctest.Wait()
		cancel()
		synctest.Wait()
	})
	for k, want := range map[string]bool{key(1): false, key(2): true} {
		req, _ := http.NewRequest(http.MethodGet, "/", nil)
		req.Header.Set("X-API-Key", k)
		if _, err := n.keys.Authenticate(req); (err == nil) != want {
			t.Errorf("%s: %v, want it accepted: %v", k, err, want)
		}
	}
}

func TestKeysFileOthersMayWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	put(t, file, "acme secret-of-acme-0123456789-0123456789\n", 0o602)
	n := &node{cfg: &config.Config{Auth: config.Auth{KeysFile: file}}, log: slog.New(slog.DiscardHandler)}
	if _, err := n.authenticator(); err == nil || !strings.Contains(err.Error(), "chmod o-w") {
		t.Errorf("error %v", err)
	}
}

// SIGHUP reads the files at once and does not end the process. Open connections stay open.
func TestHangup(t *testing.T) {
	dir := t.TempDir()
	cert, private := pairFor(t, dir, "one.example")
	log := &logtest.Buffer{}
	n := &node{
		cfg: &config.Config{HTTP: config.HTTP{Cert: cert, Key: private}, Reload: config.Reload{Interval: time.Hour}},
		log: slog.New(slog.NewTextHandler(log, nil)),
	}
	if err := n.openCert(); err != nil {
		t.Fatal(err)
	}
	life := newRoles(0, slog.New(slog.DiscardHandler))
	defer life.end()
	n.startReloads(life, true)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	life.start("http", func(ctx context.Context) error {
		return serveHTTP(ctx, tls.NewListener(ln, n.cert.server()), http.NotFoundHandler(), n.log)
	})
	shown := func(conn *tls.Conn) string { return conn.ConnectionState().PeerCertificates[0].DNSNames[0] }
	dial := func() *tls.Conn {
		conn, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // looked at
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	old := dial()
	pairFor(t, dir, "two.example")
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !strings.Contains(log.String(), "read again"); {
		if time.Now().After(deadline) {
			t.Fatal("nothing was read again")
		}
		time.Sleep(time.Millisecond)
	}
	if got := shown(dial()); got != "two.example" {
		t.Errorf("new connections see %s", got)
	}
	fmt.Fprint(old, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	_ = old.SetReadDeadline(time.Now().Add(time.Minute))
	answer := make([]byte, 12)
	if _, err := old.Read(answer); err != nil || string(answer) != "HTTP/1.1 404" {
		t.Errorf("the open connection: %q, %v", answer, err)
	}
}

// The passwords of Cassandra and PostgreSQL are read again when their files change, and only from files.
func TestReloadsOfDatabases(t *testing.T) {
	dir := t.TempDir()
	password, at := filepath.Join(dir, "password"), filepath.Join(dir, "url")
	put(t, password, "old\n", 0o600)
	put(t, at, "postgres://u:old@127.0.0.1:1/x\n", 0o600)
	c, err := config.Load(config.Options{Env: []string{
		"WATERCLOCK_ROLES=api", "WATERCLOCK_CASSANDRA_HOSTS=127.0.0.1:1", "WATERCLOCK_CASSANDRA_USER=u",
		"WATERCLOCK_CASSANDRA_PASSWORD_FILE=" + password, "WATERCLOCK_POSTGRES_URL_FILE=" + at,
	}})
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	n := &node{cfg: c, log: slog.New(slog.NewTextHandler(&said, nil))}
	if len(n.databases()) != 0 {
		t.Error("a process without databases reads their passwords")
	}
	if err := errors.Join(n.openHistory(), n.openPreferences()); err != nil {
		t.Fatal(err)
	}
	defer n.closeHistory()
	defer n.closePreferences()
	r := newReloads(n.log, n.databases()...)
	for _, step := range []struct{ file, text, want string }{
		{"", "", ""},
		{password, "new\n", "changed files were read again\" what=cassandra.password"},
		{password, "\n", "cassandra.password_file: it is empty"},
		{password, "newer\n", "changed files were read again\" what=cassandra.password"},
		{at, "postgres://u:new@127.0.0.1:1/x\n", "changed files were read again\" what=postgres.url"},
		{at, "postgres://u:new@127.0.0.1:1/y\n", "needs a restart"},
	} {
		if step.file != "" {
			put(t, step.file, step.text, 0o600)
		}
		said.Reset()
		if r.check(false); !strings.Contains(said.String(), step.want) || step.want == "" && said.Len() > 0 {
			t.Errorf("%q: %s, want %s", step.text, &said, step.want)
		}
		if strings.Contains(said.String(), "new@") {
			t.Errorf("the log has the password: %s", &said)
		}
	}
}
