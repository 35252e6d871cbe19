package kafkaconn

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/waterclock/waterclock/internal/config"
)

func connect(t *testing.T, c *config.Config) error {
	t.Helper()
	opts, err := Options(c, "test", nil)
	if err != nil {
		return err
	}
	cl, err := Connect(t.Context(), c, 3*time.Second, opts...)
	if err == nil {
		cl.Close()
	}
	return err
}

func broker(t *testing.T, opts ...kfake.Opt) []string {
	t.Helper()
	cluster, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()
}

func TestLogin(t *testing.T) {
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		brokers := broker(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "ada", "right"))
		for _, row := range []struct {
			name, password, want string
		}{
			{"right password", "right", ""},
			{"wrong password", "wrong", `refuse user "ada"`},
		} {
			t.Run(mechanism+"/"+row.name, func(t *testing.T) {
				c := &config.Config{Brokers: brokers}
				c.Kafka.SASL = config.SASL{Mechanism: mechanism, User: "ada", Password: row.password}
				wantError(t, connect(t, c), row.want)
			})
		}
	}
}

func TestLoginMissing(t *testing.T) {
	brokers := broker(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "ada", "right"))
	wantError(t, connect(t, &config.Config{Brokers: brokers}), "closed the connection at the first request")
}

func TestTLS(t *testing.T) {
	ca := newAuthority(t)
	serverOnly := broker(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{ca.issue(t, "broker")}}))
	mutual := broker(t, kfake.TLS(&tls.Config{
		Certificates: []tls.Certificate{ca.issue(t, "broker")},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: ca.pool(),
	}))
	plain := broker(t)
	certFile, keyFile := ca.writePair(t, "client")

	for _, row := range []struct {
		name    string
		brokers []string
		tls     config.TLS
		want    string
	}{
		{"trusted", serverOnly, config.TLS{Enabled: true, CA: ca.file}, ""},
		{"not trusted", serverOnly, config.TLS{Enabled: true}, "kafka.tls.ca"},
		{
			"another name", serverOnly,
			config.TLS{Enabled: true, CA: ca.file, ServerName: "elsewhere"},
			"kafka.tls.server_name",
		},
		{"no TLS where it is spoken", serverOnly, config.TLS{}, "kafka.tls.enabled"},
		{"TLS where it is not spoken", plain, config.TLS{Enabled: true, CA: ca.file}, "may be the plain port"},
		{"with our certificate", mutual, config.TLS{Enabled: true, CA: ca.file, Cert: certFile, Key: keyFile}, ""},
		{"our certificate missing", mutual, config.TLS{Enabled: true, CA: ca.file}, "kafka.tls.cert"},
		{"CA file missing", serverOnly, config.TLS{Enabled: true, CA: ca.file + ".not"}, "kafka.tls.ca: open"},
		{"CA file is no PEM", serverOnly, config.TLS{Enabled: true, CA: keyFile}, "has no PEM certificate"},
		{
			"key does not fit", serverOnly,
			config.TLS{Enabled: true, Cert: certFile, Key: ca.file},
			"kafka.tls.cert, kafka.tls.key",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := &config.Config{Brokers: row.brokers}
			c.Kafka.TLS = row.tls
			wantError(t, connect(t, c), row.want)
		})
	}
}

// A plain port of Kafka reads a TLS hello as a length that cannot be, and closes.
func TestTLSToAPlainPort(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			c.Close()
		}
	}()
	c := &config.Config{Brokers: []string{ln.Addr().String()}}
	c.Kafka.TLS.Enabled = true
	c.Kafka.SASL = config.SASL{Mechanism: "PLAIN", User: "ada", Password: "right"}
	err = connect(t, c)
	wantError(t, err, "Set kafka.tls.enabled to false")
	if err != nil && strings.Contains(err.Error(), "sasl") {
		t.Errorf("%v: no word of a log-in got there", err)
	}
}

// A port without log-in says that it takes none.
func TestLoginToAPlainPort(t *testing.T) {
	c := &config.Config{Brokers: broker(t)}
	c.Kafka.SASL = config.SASL{Mechanism: "PLAIN", User: "ada", Password: "right"}
	wantError(t, connect(t, c), "unset kafka.sasl.mechanism")
}

// A password and certificates that change in their files count from the next
// connection on, of clients that are there; what cannot be read does not.
func TestCredentialsAreReadAnew(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("wrong\n")
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		write("wrong\n")
		brokers := broker(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "ada", "right"))
		c, err := config.Load(config.Options{Env: []string{
			"WATERCLOCK_KAFKA_SASL_PASSWORD_FILE=" + file, "WATERCLOCK_KAFKA_SASL_USER=ada",
			"WATERCLOCK_KAFKA_SASL_MECHANISM=" + mechanism, "WATERCLOCK_BROKERS=" + strings.Join(brokers, ","),
		}})
		if err != nil {
			t.Fatal(err)
		}
		opts, err := Options(c, "test", nil)
		if err != nil {
			t.Fatal(err)
		}
		login := func() error {
			cl, err := Connect(t.Context(), c, 3*time.Second, opts...)
			if err == nil {
				cl.Close()
			}
			return err
		}
		wantError(t, login(), `refuse user "ada"`)
		write("right\n")
		wantError(t, login(), "")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		wantError(t, login(), "")
	}

	old, ca := newAuthority(t), newAuthority(t)
	brokers := broker(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{ca.issue(t, "broker")}}))
	trusted := filepath.Join(t.TempDir(), "ca")
	copyTo := func(from string) {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(trusted, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	copyTo(old.file)
	c := &config.Config{Brokers: brokers}
	c.Kafka.TLS = config.TLS{Enabled: true, CA: trusted}
	opts, err := Options(c, "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ from, want string }{{"", "kafka.tls.ca"}, {ca.file, ""}, {"-", ""}} {
		switch row.from {
		case "":
		case "-":
			if err := os.Remove(trusted); err != nil {
				t.Fatal(err)
			}
		default:
			copyTo(row.from)
		}
		cl, err := Connect(t.Context(), c, 3*time.Second, opts...)
		if err == nil {
			cl.Close()
		}
		wantError(t, err, row.want)
	}
}

// What a broker says in so many words, which the embedded one does not.
func TestExplain(t *testing.T) {
	c := &config.Config{Brokers: []string{"b:9092"}}
	c.Kafka.SASL = config.SASL{Mechanism: "PLAIN", User: "ada", Password: "hunter2"}
	other := errors.New("other")
	for _, row := range []struct {
		name string
		err  error
		want string
	}{
		{"log-in refused", fmt.Errorf("ping: %w", kerr.SaslAuthenticationFailed), `b:9092 refused user "ada"`},
		{"mechanism not offered", kerr.UnsupportedSaslMechanism, "does not offer PLAIN"},
		{"no log-in here", fmt.Errorf("ping: %w", kerr.IllegalSaslState), "unset kafka.sasl.mechanism"},
		{"no ACL", kerr.TopicAuthorizationFailed, "needs an ACL"},
		{"name unknown", &net.DNSError{Name: "b", Err: "no such host"}, `"b" cannot be resolved`},
		{
			"an HTTP port",
			errors.New("invalid large response size 1213486160 > limit 104857600; the four size bytes are 'HTTP' " +
				"in ascii, the beginning of an HTTP response; is your broker port correct?"), "speaks HTTP, not Kafka",
		},
		{"something else", other, "other"},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := Explain(c, row.err)
			wantError(t, err, row.want)
			if !errors.Is(err, row.err) {
				t.Errorf("%v does not wrap its cause", err)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v shows the password", err)
			}
		})
	}
	if Explain(c, nil) != nil {
		t.Error("no error was explained as one")
	}
}

func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	err = connect(t, &config.Config{Brokers: []string{address}})
	wantError(t, err, "no broker answers at "+address+": start one with `waterclock dev`")
	var unreachable *Unreachable
	if !errors.As(err, &unreachable) || unreachable.Err == nil {
		t.Errorf("error %T does not carry its cause", err)
	}
}

func TestConnectGivesUpWithItsCaller(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &config.Config{Brokers: []string{"127.0.0.1:1"}}
	opts, err := Options(c, "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Connect(ctx, c, time.Minute, opts...); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the caller's cancellation", err)
	}
}

// wantError wants no error for "", else one that contains want.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got %v, want no error", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want an error with %q", err, want)
	}
}

// authority signs certificates for 127.0.0.1, for an hour.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	key := newKey(t)
	template := certificate("authority")
	template.IsCA, template.KeyUsage = true, x509.KeyUsageCertSign
	template.BasicConstraintsValid = true
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert: cert, key: key, file: writePEM(t, "ca.pem", "CERTIFICATE", der)}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func (a *authority) issue(t *testing.T, name string) tls.Certificate {
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, certificate(name), a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) writePair(t *testing.T, name string) (certFile, keyFile string) {
	pair := a.issue(t, name)
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return writePEM(t, name+".pem", "CERTIFICATE", pair.Certificate[0]), writePEM(t, name+".key", "PRIVATE KEY", der)
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		KeyUsage:    x509.KeyUsageDigitalSignature,
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t *testing.T, name, kind string, der []byte) string {
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
