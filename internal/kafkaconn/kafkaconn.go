// Package kafkaconn turns settings into options of a Kafka client, and what
// goes wrong while connecting into words that say what to change.
//
// Every client of the product is made from Options, so that TLS, log-in,
// time-outs and logging are the same everywhere. What a client is for
// (transactions, groups, partitioner) its owner appends: kgo lets the later
// option win.
package kafkaconn

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
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
		t, err := TLS("kafka.tls", c.Kafka.TLS)
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.DialTLSConfig(t))
	}
	if m := mechanism(c.Kafka.SASL); m != nil {
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

// TLS reads the files of a TLS client. prefix is the settings' common part,
// for messages. TLS 1.2 is the least accepted.
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
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("%s.cert, %s.key: %w", prefix, prefix, err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// mechanism is how to log in, or nil; config has checked the name.
func mechanism(s config.SASL) sasl.Mechanism {
	switch s.Mechanism {
	case "PLAIN":
		return plain.Auth{User: s.User, Pass: s.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism()
	}
	return nil
}
