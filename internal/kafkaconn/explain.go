package kafkaconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
)

// Connect makes a client and waits until a broker has answered, at most
// within: unlike kgo.NewClient, which succeeds against nothing. The error is
// one Explain has worded; the caller closes the client.
func Connect(ctx context.Context, c *config.Config, within time.Duration, opts ...kgo.Opt) (*kgo.Client, error) {
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("create Kafka client: %w", err)
	}
	pingCtx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := ping(pingCtx, cl); err != nil {
		cl.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, Explain(c, err)
	}
	return cl, nil
}

// ping waits until a broker has answered, or ctx ends. The first request of a connection does not
// end with its context, but with the client.
func ping(ctx context.Context, cl *kgo.Client) error {
	answered := make(chan error, 1)
	go func() { answered <- cl.Ping(ctx) }()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unreachable says that no broker could be used. Advice says what to change;
// Err is what the client said.
type Unreachable struct {
	Advice string
	Err    error
}

func (e *Unreachable) Error() string { return e.Advice }
func (e *Unreachable) Unwrap() error { return e.Err }

// Explain words an error of connecting or logging in. Other errors come back
// as they are.
func Explain(c *config.Config, err error) error {
	if err == nil {
		return nil
	}
	if advice := advise(c, err); advice != "" {
		return &Unreachable{Advice: advice, Err: err}
	}
	return err
}

func advise(c *config.Config, err error) string {
	brokers := strings.Join(c.Brokers, ", ")
	for _, rule := range []func(*config.Config, string, error) string{adviseLogin, adviseTLS, adviseNetwork} {
		if advice := rule(c, brokers, err); advice != "" {
			return advice
		}
	}
	return ""
}

func adviseLogin(c *config.Config, brokers string, err error) string {
	s := c.Kafka.SASL
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return fmt.Sprintf("the broker at %s refused user %q: check kafka.sasl.user, kafka.sasl.password and "+
			"kafka.sasl.mechanism (%s)", brokers, s.User, s.Mechanism)
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return fmt.Sprintf("the broker at %s does not offer %s: set kafka.sasl.mechanism to one it has (%s)", brokers,
			s.Mechanism, brokerSays(err))
	case errors.Is(err, kerr.IllegalSaslState):
		return fmt.Sprintf("the broker at %s does not accept a log-in on this port: unset kafka.sasl.mechanism, or "+
			"name the "+
			"port of its SASL listener with --brokers (%s)", brokers, brokerSays(err))
	case errors.Is(err, kerr.ClusterAuthorizationFailed), errors.Is(err, kerr.TopicAuthorizationFailed):
		return fmt.Sprintf("the broker at %s does not let user %q do this: it needs an ACL (%s)", brokers, s.User,
			brokerSays(err))
	}
	return ""
}

// brokerSays is the broker's own sentence, on one line.
func brokerSays(err error) string { return strings.ReplaceAll(err.Error(), "\n", " ") }

func adviseTLS(c *config.Config, brokers string, err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var op *net.OpError
	switch {
	case errors.As(err, &unknown):
		return fmt.Sprintf("the certificate of %s is signed by an authority that is not trusted: name its PEM file in "+
			"kafka.tls.ca", brokers)
	case errors.As(err, &host):
		return fmt.Sprintf("the certificate of %s is for another name (%v): connect to that name or set "+
			"kafka.tls.server_name", brokers, host)
	case errors.As(err, &invalid):
		return fmt.Sprintf("the certificate of %s cannot be used: %v", brokers, invalid)
	case errors.As(err, &op) && op.Op == "remote error": // how crypto/tls words the peer's alert
		return fmt.Sprintf("the broker at %s refused the TLS client (%v): it may require a certificate, "+
			"kafka.tls.cert and kafka.tls.key", brokers, op.Err)
	case errors.As(err, &record):
		return fmt.Sprintf("%s does not speak TLS: it may be the plain port, or set kafka.tls.enabled to false",
			brokers)
	}
	return ""
}

func adviseNetwork(c *config.Config, brokers string, err error) string {
	var first *kgo.ErrFirstReadEOF
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case strings.Contains(err.Error(), "HTTP response"): // kgo says it only in words
		return fmt.Sprintf("%s speaks HTTP, not Kafka: name a broker's port with --brokers (usually 9092), or the "+
			"API with --url", brokers)
	case c.Kafka.TLS.Enabled && hungUp(err) && inHandshake(err):
		return fmt.Sprintf("%s closed the connection in the TLS handshake: it may be the plain port. Set "+
			"kafka.tls.enabled to "+
			"false, or name the port of its TLS listener with --brokers", brokers)
	case errors.As(err, &first), hungUp(err):
		return fmt.Sprintf("%s closed the connection at the first request: %s", brokers, firstWord(c))
	case errors.As(err, &dns):
		return fmt.Sprintf("the name %q cannot be resolved: check --brokers", dns.Name)
	case errors.Is(err, context.DeadlineExceeded) && c.Kafka.TLS.Enabled:
		return fmt.Sprintf("no broker answers at %s in TLS: it may be the plain port (kafka.tls.enabled), or "+
			"nothing may listen there", brokers)
	case errors.As(err, &op) && op.Op == "dial", errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no broker answers at %s: start one with `waterclock dev`, or name yours with --brokers",
			brokers)
	}
	return ""
}

// hungUp says that the other side closed the connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// inHandshake says that the connection ended while TLS was agreed on, which kgo
// does as a part of dialling.
func inHandshake(err error) bool { return strings.Contains(err.Error(), "dial") }

// firstWord guesses why a broker closes without an answer.
func firstWord(c *config.Config) string {
	var guesses []string
	if !c.Kafka.TLS.Enabled {
		guesses = append(guesses, "want TLS (kafka.tls.enabled)")
	}
	if s := c.Kafka.SASL; s.Mechanism == "" {
		guesses = append(guesses, "want a log-in (kafka.sasl.mechanism)")
	} else {
		guesses = append(guesses, fmt.Sprintf("refuse user %q (kafka.sasl.user, kafka.sasl.password)", s.User),
			"take no log-in on this port (unset kafka.sasl.mechanism)")
	}
	return "it may " + strings.Join(guesses, ", or ")
}
