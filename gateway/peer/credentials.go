package peer

import (
	"context"
	"crypto/ed25519"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"sync/atomic"
	"time"
)

// Trust is how instances of one cluster know each other.
type Trust struct {
	// Secrets are shared by all instances. The first signs, each is accepted, so
	// that a secret can be changed while the cluster runs.
	Secrets [][]byte
	// Plain speaks no TLS: for tests, and where nothing leaves the process.
	Plain bool
	// Cert is what this instance shows, and Roots what others must show. nil means
	// certificates of an authority that is derived from the secrets, so that who
	// has the secret needs no files.
	Cert  *tls.Certificate
	Roots *x509.CertPool // nil beside a Cert means the system's
}

// Credentials are a Trust in use. Connections that are open stay open when it is
// replaced; new ones take the new one.
type Credentials struct{ now atomic.Pointer[trust] }

type trust struct {
	secrets        [][]byte
	server, client *tls.Config // nil: plain
	named          bool        // the certificate must name the host that was dialled
}

// MinSecret is the least length of a secret.
const MinSecret = 16

// NewCredentials begins with a Trust.
func NewCredentials(t Trust) (*Credentials, error) {
	c := &Credentials{}
	return c, c.Replace(t)
}

// Replace takes another Trust for what comes from now on.
func (c *Credentials) Replace(t Trust) error {
	if len(t.Secrets) == 0 {
		return errors.New("internal.secret: is unset")
	}
	for _, s := range t.Secrets {
		if len(s) < MinSecret {
			return fmt.Errorf("internal.secret: %d bytes, must be at least %d", len(s), MinSecret)
		}
	}
	next := &trust{secrets: t.Secrets}
	var err error
	switch {
	case t.Plain:
	case t.Cert != nil:
		next.named = true
		next.server, next.client = serverSide(*t.Cert), &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: t.Roots}
	default:
		next.server, next.client, err = ownAuthority(t.Secrets)
	}
	if err != nil {
		return err
	}
	c.now.Store(next)
	return nil
}

// Secrets are those that are accepted now, the one that signs first.
func (c *Credentials) Secrets() [][]byte { return c.now.Load().secrets }

// ServerTLS is for the listener; nil is plain http.
func (c *Credentials) ServerTLS() *tls.Config {
	if c.now.Load().server == nil {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.now.Load().server, nil
		},
	}
}

// plain says that no TLS is spoken.
func (c *Credentials) plain() bool { return c.now.Load().client == nil }

// dial connects with what is trusted now.
func (c *Credentials) dial(ctx context.Context, network, address string) (net.Conn, error) {
	t := c.now.Load()
	d := &net.Dialer{Timeout: dialWithin}
	if t.client == nil {
		return d.DialContext(ctx, network, address)
	}
	config := t.client
	if t.named {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		config = config.Clone()
		config.ServerName = host
	}
	raw, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeWithin)
	defer cancel()
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, fmt.Errorf("TLS with %s: %w. internal.secret and internal.tls must match on all instances", address,
			err)
	}
	return conn, nil
}

const (
	dialWithin      = 500 * time.Millisecond
	handshakeWithin = 2 * time.Second
)

// internalName is whom certificates of our own authority are for. It is the
// same for all: that somebody belongs to the cluster is all they say, and a
// signature says which of them was asked.
const internalName = "internal.waterclock"

// ownAuthority makes an authority of each secret and a certificate of the first.
// Both sides must show one, so that nobody without the secret gets as far as a
// request.
func ownAuthority(secrets [][]byte) (server, client *tls.Config, err error) {
	roots := x509.NewCertPool()
	var pair tls.Certificate
	for i, secret := range secrets {
		cert, key, err := authority(secret)
		if err != nil {
			return nil, nil, err
		}
		roots.AddCert(cert)
		if i == 0 {
			if pair, err = issue(cert, key); err != nil {
				return nil, nil, err
			}
		}
	}
	server = serverSide(pair)
	server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, roots
	return server, &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: internalName, Certificates: []tls.Certificate{pair},
	}, nil
}

func serverSide(pair tls.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"},
	}
}

// rounds slow down who tries secrets against a certificate they were shown.
const rounds = 100_000

// authority is the same in every process that has the secret.
func authority(secret []byte) (*x509.Certificate, ed25519.PrivateKey, error) {
	seed, err := pbkdf2.Key(sha256.New, string(secret), []byte("waterclock internal authority 1"), rounds,
		ed25519.SeedSize)
	if err != nil {
		return nil, nil, fmt.Errorf("internal authority: %w", err)
	}
	key := ed25519.NewKeyFromSeed(seed)
	id := sha256.Sum256(key.Public().(ed25519.PublicKey))
	like := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "waterclock internal authority"},
		NotBefore: longAgo, NotAfter: farAway, SubjectKeyId: id[:20],
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	cert, err := selfSign(like, like, key.Public(), key)
	return cert, key, err
}

// Whether a certificate of ours counts is for the secret to say: an instance
// must not fall silent on a day because it ran for long, or its clock is off.
var (
	longAgo = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	farAway = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// issue makes the certificate of this process.
func issue(ca *x509.Certificate, key ed25519.PrivateKey) (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("internal certificate: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("internal certificate: %w", err)
	}
	cert, err := selfSign(&x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: internalName}, DNSNames: []string{internalName},
		NotBefore: longAgo, NotAfter: farAway, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, ca, public, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: private, Leaf: cert}, nil
}

func selfSign(like, by *x509.Certificate, public any, key ed25519.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, like, by, public, key)
	if err != nil {
		return nil, fmt.Errorf("internal certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}
