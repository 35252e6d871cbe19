// Package kafkaconn turns settings into options of a Kafka client, and what
// goes wrong while connecting into words that say what to change.
//
// Every client of the product is made from Options, so that TLS, log-in,
// time-outs and logging are the same everywhere. What a client is for
// (transactions, groups, partitioner) its owner appends: kgo lets the later
// option win.
package kafkaconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"github.com/twmb/franz-go/plugin/kslog"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/decompress"
)

// dialTimeout bounds one attempt to connect: long enough for a TLS handshake
// across an ocean, short enough that a dead broker does not hold up the list.
const dialTimeout = 5 * time.Second

// Options are those of a client of the configured brokers. The client id
// names the part of the product, for the brokers' logs and quotas. A nil log
// keeps the client silent. An error names the setting at fault.
func Options(c *config.Config, clientID string, log *slog.Logger) ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(clientID),
		kgo.DialTimeout(dialTimeout),
	}
	bounded, err := sharedBound(int(c.Limits.BatchBytes))
	if err != nil {
		return nil, err
	}
	opts = append(opts, kgo.WithDecompressor(bounded))
	if log != nil {
		opts = append(opts, kgo.WithLogger(kslog.New(log)))
	}
	if c.Kafka.TLS.Enabled {
		d, err := newTLSDialer(c.Kafka.TLS)
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.Dialer(d.dial))
	}
	if m := mechanism(c); m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	return opts, nil
}

// bounds are of this process's clients, by what one batch may take: nearly
// always one. kgo's own bound is 1 GiB for each batch.
var bounds = struct {
	sync.Mutex
	by map[int]*decompress.Shared
}{by: map[int]*decompress.Shared{}}

// LowerShared lowers what all of this process's clients together hold of decompressed batches, where each
// may take so much.
func LowerShared(batch int, most int64) error {
	s, err := sharedBound(batch)
	if err == nil {
		s.Lower(most)
	}
	return err
}

func sharedBound(batch int) (*decompress.Shared, error) {
	bounds.Lock()
	defer bounds.Unlock()
	if s := bounds.by[batch]; s != nil {
		return s, nil
	}
	b, err := decompress.New(batch)
	if err != nil {
		return nil, err
	}
	bounds.by[batch] = b.Shared()
	return bounds.by[batch], nil
}

// tlsDialer reads certificates anew for each connection, so that they can be
// renewed while a process runs. What cannot be read leaves the last in force.
type tlsDialer struct {
	from config.TLS
	last atomic.Pointer[tls.Config]
}

func newTLSDialer(from config.TLS) (*tlsDialer, error) {
	d := &tlsDialer{from: from}
	t, err := TLS("kafka.tls", from)
	d.last.Store(t)
	return d, err
}

func (d *tlsDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if t, err := TLS("kafka.tls", d.from); err == nil {
		d.last.Store(t)
	}
	to := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: d.last.Load()}
	return to.DialContext(ctx, network, address)
}

// TLS reads the files of a TLS client. prefix is the settings' common part,
// for messages. TLS 1.2 is the least accepted. The client's certificate is read anew for each
// connection; one that cannot be read leaves the last in force.
func TLS(prefix string, t config.TLS) (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, fmt.Errorf("%s.ca: %w", prefix, err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s.ca: %s has no PEM certificate", prefix, t.CA)
		}
	}
	if t.Cert != "" {
		var last atomic.Pointer[tls.Certificate]
		read := func() error {
			pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
			if err == nil {
				last.Store(&pair)
			}
			return err
		}
		if err := read(); err != nil {
			return nil, fmt.Errorf("%s.cert, %s.key: %w", prefix, prefix, err)
		}
		out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			_ = read()
			return last.Load(), nil
		}
	}
	return out, nil
}

// mechanism is how to log in, or nil; config has checked the name. The password
// is read anew for each connection.
func mechanism(c *config.Config) sasl.Mechanism {
	s := c.Kafka.SASL
	var last atomic.Value
	last.Store(s.Password)
	password := func() string {
		if now, err := c.ReadSecret("kafka.sasl.password", s.Password); err == nil && now != "" {
			last.Store(now)
		}
		return last.Load().(string)
	}
	scrams := func(context.Context) (scram.Auth, error) { return scram.Auth{User: s.User, Pass: password()}, nil }
	switch s.Mechanism {
	case "PLAIN":
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			return plain.Auth{User: s.User, Pass: password()}, nil
		})
	case "SCRAM-SHA-256":
		return scram.Sha256(scrams)
	case "SCRAM-SHA-512":
		return scram.Sha512(scrams)
	}
	return nil
}
